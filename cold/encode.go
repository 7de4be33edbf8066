package cold

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tierd/tierd/tiering"
)

// Level is how hard blocks are compressed.
type Level uint8

// The levels. The zero Level is LevelFastest; see format.md for figures.
const (
	LevelFastest Level = iota
	LevelDefault
	LevelBetter
)

// DefaultBlockSize is the target of a block before compression, in bytes, bodies
// counted as they are stored: about what a read of one record decompresses.
// format.md has the figures that it was chosen by.
const DefaultBlockSize = 16 << 10

// EncodeOptions shapes a segment. The zero value is good.
type EncodeOptions struct {
	// Epoch is the life of the warm store that the feed positions are of. A
	// segment holds records of one epoch.
	Epoch string
	// BlockSize is the target of a block before compression, in bytes; 0 is
	// DefaultBlockSize. It is kept within 4 KiB and 8 MiB. A record larger
	// than that has a block of its own, but for what differs from it.
	BlockSize int
	Level     Level
}

// Encoded is a segment that is ready to be written.
type Encoded struct {
	Data    []byte
	SHA256  tiering.Digest // of Data
	RawSize int64          // bytes of the bodies
	Count   int64          // records
	// MinTime and MaxTime are those of the records, zero when there are none.
	MinTime, MaxTime time.Time
	// Ranges is the union of the feed ranges that Encode was given.
	Ranges []tiering.Range
	// Locations says where each key lies, in key order, with no segment's
	// name: see LocationsFor.
	Locations []tiering.Location
}

// LocationsFor returns the locations for the segment written under name. A key
// of which the segment has touches and pins only gets a location of version 0
// without blocks: an erase has to find it, a look-up of a version must not.
func (e *Encoded) LocationsFor(name string) []tiering.Location { return named(e.Locations, name) }

// Encode makes a segment of one tenant from records in any order, which it
// leaves as they are. ranges are the feed positions that they cover fully; a
// merge gives those of all its sources. Records may be none, as when a merge
// dropped all of them but has to cover their positions.
//
// A record that is malformed, of another tenant, there twice, or whose body
// does not have its digest makes the whole segment fail: invalid, too_large or
// corrupt.
func Encode(tenant string, ranges []tiering.Range, recs []Record, o *EncodeOptions) (*Encoded, error) {
	if o == nil {
		o = &EncodeOptions{}
	}
	if err := tiering.ValidateTenant(tenant); err != nil {
		return nil, err
	}
	if len(o.Epoch) > maxName {
		return nil, tiering.Invalidf("epoch is %d bytes long: use at most %d", len(o.Epoch), maxName)
	}
	union, err := unionRanges(ranges)
	if err != nil {
		return nil, err
	}
	sorted, err := sortRecords(tenant, recs)
	if err != nil {
		return nil, err
	}
	enc, err := newEncoder(tenant, o)
	if err != nil {
		return nil, err
	}
	for i, r := range sorted {
		enc.add(r, sorted[i:])
	}
	return enc.finish(union), nil
}

// sortRecords checks records and returns them in the order of a segment.
func sortRecords(tenant string, recs []Record) ([]Record, error) {
	for _, r := range recs {
		if r.Key.Tenant != tenant {
			return nil, tiering.Invalidf("record of %s belongs to another tenant", r.Key)
		}
		if err := r.validate(); err != nil {
			return nil, tiering.Wrap(err, "encode", tiering.Cold, r.Key)
		}
		if err := r.checkDigest(); err != nil {
			return nil, tiering.Wrap(err, "encode", tiering.Cold, r.Key)
		}
	}
	sorted := recs
	if !slices.IsSortedFunc(recs, Record.Compare) {
		sorted = slices.Clone(recs) // they are the caller's
		slices.SortFunc(sorted, Record.Compare)
	}
	for i := 1; i < len(sorted); i++ {
		if r := sorted[i]; r.Compare(sorted[i-1]) == 0 {
			return nil, tiering.Invalidf("%s version %d revision %d is there twice", r.Key, r.Version, r.Revision)
		}
	}
	return sorted, nil
}

// encoder puts a segment together, front to back.
type encoder struct {
	zstd      *zstd.Encoder
	tenant    string
	blockSize int

	out     []byte // the object so far: header and blocks
	raw     []byte // the open block
	count   int    // records in it
	foot    footer
	index   []byte // finished pages
	page    []byte // the open page
	entries int    // in it
	pending []Entry
	locator locator

	differ  differ
	last    *Record // the last put of the open block
	keyAt   int     // where its key begins in the open block
	bodies  int     // bytes of bodies in the open block
	longest int     // bytes of the longest body whole in it, of that key
}

func newEncoder(tenant string, o *EncodeOptions) (*encoder, error) {
	level, ok := map[Level]zstd.EncoderLevel{
		LevelFastest: zstd.SpeedFastest, LevelDefault: zstd.SpeedDefault, LevelBetter: zstd.SpeedBetterCompression,
	}[o.Level]
	if !ok {
		return nil, tiering.Invalidf("unknown compression level %d", o.Level)
	}
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(level),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // the frame has its own
		zstd.WithSingleSegment(true),
		zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	size := DefaultBlockSize
	if o.BlockSize != 0 {
		size = min(max(o.BlockSize, 4<<10), 8<<20)
	}
	return &encoder{zstd: z, tenant: tenant, blockSize: size, out: appendHeader(nil, tenant, o.Epoch)}, nil
}

// add takes the next record; rest begins with it.
func (e *encoder) add(r Record, rest []Record) {
	stored, flags := e.form(r)
	if e.count > 0 && e.cut(r, len(stored), rest) {
		e.flushBlock()
		stored, flags = r.Body, 0
	}
	start := len(e.raw)
	if e.count == 0 || e.pending[len(e.pending)-1].Key != r.Key {
		e.keyAt, e.longest, e.last = start, 0, nil
	}
	if r.Op == tiering.OpPut {
		e.last = &rest[0]
		if flags == 0 {
			e.longest = max(e.longest, len(r.Body))
		}
	}
	e.raw = appendStored(e.raw, r, stored, flags)
	e.bodies += len(r.Body)
	e.count++
	entry := Entry{
		// Round strips the monotonic clock, so that times compare with ==.
		Key: r.Key, Op: r.Op, Version: r.Version, Revision: r.Revision, At: r.At.Round(0).UTC(),
		Size: int64(len(r.Body)), Digest: r.Digest,
		Block: len(e.foot.blocks), Offset: int64(start), Length: int64(len(e.raw) - start),
	}
	e.pending = append(e.pending, entry)
	e.foot.note(entry)
}

// form is how the body of r would be stored in the open block: as the difference
// from the version before, where that is there and is like it.
func (e *encoder) form(r Record) (stored []byte, flags byte) {
	if e.last == nil || e.last.Key != r.Key || r.Op != tiering.OpPut {
		return r.Body, 0
	}
	if diff, ok := e.differ.difference(e.last.Body, r.Body); ok {
		return diff, flagDifference
	}
	return r.Body, 0
}

// cut decides whether the open block ends before r, whose body would take stored
// bytes in it. A key's differences stay with the body that they start from until
// they weigh twice as much as a block, and no less than that body: beyond that
// a version would cost more to decompress than a new start costs to keep. Between
// keys a block ends when it is full, or when it is half full and the next key's
// longest body, which is about what all its versions take, would not fit.
func (e *encoder) cut(r Record, stored int, rest []Record) bool {
	if e.bodies+len(r.Body) > maxFrameRaw-MaxBody {
		return true
	}
	need := len(e.raw) + recordSize(r) - len(r.Body) + stored
	if e.pending[len(e.pending)-1].Key == r.Key {
		return need-e.keyAt > 2*max(e.blockSize, e.longest)
	}
	if need > e.blockSize {
		return true
	}
	if len(e.raw) < e.blockSize/2 {
		return false
	}
	for _, next := range rest[1:] {
		if next.Key != r.Key {
			break
		}
		if need+len(next.Body)-len(r.Body) > e.blockSize {
			return true
		}
	}
	return false
}

// recordSize is about what r takes in a block.
func recordSize(r Record) int {
	return len(r.Body) + len(r.Key.Namespace) + len(r.Key.ID) + len(r.User) + 100
}

func (e *encoder) flushBlock() {
	start := len(e.out)
	e.out = appendFrame(e.out, e.zstd, blockFrame, e.tenant, e.raw, e.count)
	e.foot.blocks = append(e.foot.blocks, span{int64(start), int64(len(e.out) - start)})
	e.locator.blocks = e.foot.blocks
	for _, entry := range e.pending {
		e.locator.add(entry)
		e.page = appendEntry(e.page, entry)
		if e.entries++; len(e.page) >= indexPage {
			e.flushPage()
		}
	}
	e.raw, e.count, e.pending = e.raw[:0], 0, e.pending[:0]
	e.bodies, e.last = 0, nil
}

func (e *encoder) flushPage() {
	e.index = appendFrame(e.index, e.zstd, indexFrame, e.tenant, e.page, e.entries)
	e.page, e.entries = e.page[:0], 0
}

func (e *encoder) finish(ranges []tiering.Range) *Encoded {
	if e.count > 0 {
		e.flushBlock()
	}
	if e.entries > 0 {
		e.flushPage()
	}
	e.foot.ranges = ranges
	index := int64(len(e.out))
	e.out = append(e.out, e.index...)
	foot := int64(len(e.out))
	e.out = appendFooter(e.out, e.foot)
	e.out = appendTrailer(e.out, index, foot)
	return &Encoded{
		Data: e.out, SHA256: sha256.Sum256(e.out), RawSize: e.foot.rawSize, Count: e.foot.count,
		MinTime: e.foot.minTime, MaxTime: e.foot.maxTime, Ranges: ranges, Locations: e.locator.out,
	}
}
