package cold

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tierd/tierd/tiering"
)

// The limits of the format. A decoder checks every length against them before
// it allocates. format.md gives the layout byte by byte.
const (
	formatVersion = 2 // 1 has no differences, and is read all the same
	oldestVersion = 1
	headMagic     = "TIERDSEG"
	tailMagic     = "TIERDEND"

	maxName     = 512      // bytes of a tenant, namespace, user or epoch
	maxHead     = 4096     // bytes of a record's head
	maxFrameRaw = 32 << 20 // bytes of a decompressed frame
	prefixSize  = 8        // the two lengths before a record's head
	trailerSize = 40
)

// Flags of a record.
const (
	flagPinned = 1 << iota
	flagQuery
	flagDifference // the body is stored as the difference from the one before
	knownFlags     = flagPinned | flagQuery | flagDifference
)

var le = binary.LittleEndian

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTime writes seconds and nanoseconds, so that every time.Time has a
// form, the zero one included.
func appendTime(b []byte, t time.Time) []byte {
	b = le.AppendUint64(b, uint64(t.Unix()))
	return le.AppendUint32(b, uint32(t.Nanosecond()))
}

// appendRecord writes r as it lies in a decompressed block, its body whole.
func appendRecord(b []byte, r Record) []byte { return appendStored(b, r, r.Body, 0) }

// appendStored is appendRecord with the form in which the body is stored.
func appendStored(b []byte, r Record, stored []byte, flags byte) []byte {
	start := len(b)
	b = append(b, make([]byte, prefixSize)...)
	if r.Pinned {
		flags |= flagPinned
	}
	if r.Query {
		flags |= flagQuery
	}
	b = append(b, byte(r.Op), flags)
	b = appendString(b, r.Key.Namespace)
	b = appendString(b, r.Key.ID)
	b = appendString(b, r.User)
	for _, n := range [...]int64{r.Version, r.Revision, r.Prev, r.Pos, int64(r.TTL)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = appendTime(b, r.At)
	b = appendTime(b, r.CreatedAt)
	b = appendTime(b, r.ExpiresAt)
	b = append(b, r.Digest[:]...)
	le.PutUint32(b[start:], uint32(len(b)-start-prefixSize))
	le.PutUint32(b[start+4:], uint32(len(stored)))
	return append(b, stored...)
}

// parseHead reads a record's head, without its prefix and body, and whether the
// body is a difference. last is the record before, whose names it shares where
// they are the same.
func parseHead(tenant string, head []byte, last *Record) (r Record, difference bool, err error) {
	c := cursor{b: head}
	r.Op = tiering.Op(c.byte())
	flags := c.byte()
	r.Pinned, r.Query = flags&flagPinned != 0, flags&flagQuery != 0
	r.Key = tiering.Key{Tenant: tenant, Namespace: c.like(last.Key.Namespace, maxName), ID: c.like(last.Key.ID, tiering.MaxIDLength)}
	r.User = c.like(last.User, maxName)
	r.Version, r.Revision, r.Prev, r.Pos = c.int63(), c.int63(), c.int63(), c.int63()
	r.TTL = time.Duration(c.int63())
	r.At, r.CreatedAt, r.ExpiresAt = c.time(), c.time(), c.time()
	r.Digest = c.digest()
	if err := c.end("record"); err != nil {
		return Record{}, false, err
	}
	if flags&^knownFlags != 0 {
		return Record{}, false, corruptf("record has unknown flags %#x", flags)
	}
	if err := r.validate(); err != nil {
		return Record{}, false, corruptErr(err, "record is not valid")
	}
	return r, flags&flagDifference != 0, nil
}

// cursor reads a buffer from front to back. The first fault sticks: later
// reads return zeros, and end reports it.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

// int64 reads a fixed-width number that must not be negative.
func (c *cursor) int64() int64 {
	b := c.take(8)
	if b == nil {
		return 0
	}
	n := le.Uint64(b)
	if n > math.MaxInt64 {
		c.bad = true
		return 0
	}
	return int64(n)
}

// int63 reads a uvarint that fits an int64.
func (c *cursor) int63() int64 {
	n, w := binary.Uvarint(c.b)
	if c.bad || w <= 0 || n > math.MaxInt64 {
		c.bad = true
		return 0
	}
	c.b = c.b[w:]
	return int64(n)
}

func (c *cursor) string(most int) string { return c.like("", most) }

// like is string, and last itself where it is the same: neighbours in a segment
// share most of their names.
func (c *cursor) like(last string, most int) string {
	n := c.int63()
	if n > int64(most) {
		c.bad = true
		return ""
	}
	b := c.take(int(n))
	if string(b) == last {
		return last
	}
	return string(b)
}

func (c *cursor) time() time.Time {
	b := c.take(12)
	if b == nil {
		return time.Time{}
	}
	nsec := le.Uint32(b[8:])
	if nsec >= 1e9 {
		c.bad = true
		return time.Time{}
	}
	return time.Unix(int64(le.Uint64(b)), int64(nsec)).UTC()
}

func (c *cursor) digest() (d tiering.Digest) {
	copy(d[:], c.take(len(d)))
	return d
}

// end reports a fault, or bytes that nothing has read.
func (c *cursor) end(what string) error {
	if c.bad {
		return corruptf("%s is cut short or out of range", what)
	}
	if len(c.b) > 0 {
		return corruptf("%s has %d bytes too many", what, len(c.b))
	}
	return nil
}

func corruptErr(err error, format string, args ...any) error {
	e := corruptf(format, args...)
	e.Err = err
	return e
}
