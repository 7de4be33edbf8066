package cold

import (
	"cmp"
	"time"

	"github.com/tierd/tierd/tiering"
)

// MaxBody is the longest body that a segment takes, in bytes.
const MaxBody = 16 << 20

// Record is one change of one key as a segment keeps it: all that a rebuild
// needs to make the head again. Its fields are those of the feed's changes.
type Record struct {
	Key      tiering.Key
	Op       tiering.Op
	Version  int64 // above 0
	Revision int64 // counts touches and pins of Version, from 0
	Prev     int64 // the version that stood before, 0 for none
	Pos      int64 // the feed position that the change came from
	At       time.Time
	// CreatedAt is when the key came to life.
	CreatedAt time.Time
	ExpiresAt time.Time     // zero: never
	TTL       time.Duration // sliding life; 0: none
	User      string
	Pinned    bool
	Query     bool // the document stays queryable without its bytes in warm
	// Digest is that of Body for a put. Other records keep what the feed said.
	Digest tiering.Digest
	// Body is the exact bytes of a put, and empty for every other op. What a
	// segment yields is shared: do not change it.
	Body []byte
}

// Compare orders records by key, then version, then revision: the order in
// which they lie in a segment.
func (r Record) Compare(o Record) int {
	return cmp.Or(r.Key.Compare(o.Key), cmp.Compare(r.Version, o.Version), cmp.Compare(r.Revision, o.Revision))
}

// validate checks what Encode takes and what a decoder may return.
func (r Record) validate() error {
	ns, id, user := len(r.Key.Namespace), len(r.Key.ID), len(r.User)
	switch {
	case ns == 0 || ns > maxName:
		return tiering.Invalidf("namespace is %d bytes long: use 1 to %d", ns, maxName)
	case id == 0 || id > tiering.MaxIDLength:
		return tiering.Invalidf("id is %d bytes long: use 1 to %d", id, tiering.MaxIDLength)
	case user > maxName:
		return tiering.Invalidf("user is %d bytes long: use at most %d", user, maxName)
	case r.Op < tiering.OpPut || r.Op > tiering.OpUnpin:
		return tiering.Invalidf("record of unknown %s", r.Op)
	case r.Version < 1 || r.Revision < 0 || r.Prev < 0 || r.Pos < 0 || r.TTL < 0:
		return tiering.Invalidf("version %d, revision %d, prev %d, pos %d or ttl %d is out of range", r.Version, r.Revision, r.Prev, r.Pos, r.TTL)
	case r.Op != tiering.OpPut && len(r.Body) > 0:
		return tiering.Invalidf("a %s record carries no bytes, this one has %d", r.Op, len(r.Body))
	case len(r.Body) > MaxBody:
		return tiering.Errorf(tiering.CodeTooLarge, "body is %d bytes long: use at most %d", len(r.Body), MaxBody)
	}
	return nil
}

// checkDigest compares the body of a put with its digest.
func (r Record) checkDigest() error {
	if r.Op == tiering.OpPut && tiering.DigestOf(r.Body) != r.Digest {
		return corruptf("%s version %d: the body does not match its digest", r.Key, r.Version)
	}
	return nil
}

// Entry is a record's line in the index of a segment.
type Entry struct {
	Key      tiering.Key
	Op       tiering.Op
	Version  int64
	Revision int64
	At       time.Time
	Size     int64 // bytes of the body
	Digest   tiering.Digest
	Block    int   // number of the block, from 0
	Offset   int64 // of the record in the decompressed block
	Length   int64 // of the record in the decompressed block
}

func (e Entry) compare(o Entry) int {
	return cmp.Or(e.Key.Compare(o.Key), cmp.Compare(e.Version, o.Version), cmp.Compare(e.Revision, o.Revision))
}

func corruptf(format string, args ...any) *tiering.Error {
	e := tiering.Errorf(tiering.CodeCorrupt, format, args...)
	e.Tier = tiering.Cold
	return e
}
