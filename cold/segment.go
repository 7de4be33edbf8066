package cold

import (
	"context"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Segment is a segment that was opened and checked. Methods are safe for
// concurrent use as far as the reader it was opened on is.
type Segment struct {
	r             io.ReaderAt
	tenant, epoch string
	foot          footer
	index         []byte // the packed pages, checked
	pool          *unpackers
}

// OpenSegment reads an object of size bytes whole and checks everything about
// it but the records: both magics, every checksum, the SHA-256, all lengths
// and the index. Records checks those. It is safe on any input: what is wrong
// is corrupt, a format version of the future is unsupported, and the reader's
// own errors come back as they are.
func OpenSegment(r io.ReaderAt, size int64) (*Segment, error) {
	s, err := openIndex(r, size)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	sumAt := size - trailerSize - sha256.Size
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, sumAt)); err != nil {
		return nil, err
	}
	if tiering.Digest(h.Sum(nil)) != s.foot.sum {
		return nil, corruptf("segment fails its SHA-256")
	}
	return s, s.checkIndex()
}

// Survey opens a segment by its header, index and footer alone, a few ranged
// reads of an object of size bytes in b: enough to know what it holds and
// where. Each is checked on its own; the blocks are not looked at, and Records
// reads them one by one, under ctx too. Errors are those of OpenSegment, and
// the bucket's own.
func Survey(ctx context.Context, b Bucket, name string, size int64) (*Segment, error) {
	s, err := openIndex(&objectReader{ctx, b, name}, size)
	if err != nil {
		return nil, err
	}
	return s, s.checkIndex()
}

// checkIndex walks the index, and compares it with what the footer says.
func (s *Segment) checkIndex() error {
	var sum footer
	c := s.cursor()
	for e, ok := c.next(); ok; e, ok = c.next() {
		sum.note(e)
	}
	if c.err != nil {
		return c.err
	}
	f := s.foot
	if sum.count != f.count || sum.rawSize != f.rawSize || !sum.minTime.Equal(f.minTime) || !sum.maxTime.Equal(f.maxTime) {
		return corruptf("index has %d records of %d bytes from %s to %s, the footer says %d of %d from %s to %s",
			sum.count, sum.rawSize, sum.minTime, sum.maxTime, f.count, f.rawSize, f.minTime, f.maxTime)
	}
	return nil
}

// openIndex reads header, footer and index and checks them on their own, not
// the SHA-256 of the whole.
func openIndex(r io.ReaderAt, size int64) (*Segment, error) {
	if size < trailerSize {
		return nil, corruptf("object of %d bytes is no segment", size)
	}
	tail, err := readAt(r, size-trailerSize, trailerSize)
	if err != nil {
		return nil, err
	}
	t, err := parseTrailer(tail, size)
	if err != nil {
		return nil, err
	}
	head, err := readAt(r, 0, min(t.index, int64(len(headMagic)+2+2*(maxName+2))))
	if err != nil {
		return nil, err
	}
	s := &Segment{r: r, pool: &unpackers{}}
	var headerSize int64
	if s.tenant, s.epoch, headerSize, err = parseHeader(head); err != nil {
		return nil, err
	}
	rest, err := readAt(r, t.index, size-trailerSize-t.index)
	if err != nil {
		return nil, err
	}
	index, foot := rest[:t.footer-t.index], rest[t.footer-t.index:]
	if crc32.Checksum(foot, castagnoli) != t.footerSum {
		return nil, corruptf("segment footer fails its checksum")
	}
	s.index = index
	s.foot, err = parseFooter(foot, headerSize, t.index)
	return s, err
}

func readAt(r io.ReaderAt, offset, n int64) ([]byte, error) {
	b := make([]byte, n)
	if m, err := r.ReadAt(b, offset); m < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

// Tenant is whose records the segment holds.
func (s *Segment) Tenant() string { return s.tenant }

// Epoch is the life of the warm store that the feed positions are of.
func (s *Segment) Epoch() string { return s.epoch }

// Ranges are the feed positions that the segment covers fully, in order.
func (s *Segment) Ranges() []tiering.Range { return slices.Clone(s.foot.ranges) }

// Count is the number of records.
func (s *Segment) Count() int64 { return s.foot.count }

// RawSize is the bytes of all bodies.
func (s *Segment) RawSize() int64 { return s.foot.rawSize }

// MinTime is the time of the earliest record, zero when there is none.
func (s *Segment) MinTime() time.Time { return s.foot.minTime }

// MaxTime is the time of the latest record, zero when there is none.
func (s *Segment) MaxTime() time.Time { return s.foot.maxTime }

// Index yields the index in order of key, version and revision.
func (s *Segment) Index() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		// OpenSegment walked these very bytes, so the cursor meets no error.
		c := s.cursor()
		for e, ok := c.next(); ok && yield(e); e, ok = c.next() {
		}
	}
}

// Locations returns what Encoded.LocationsFor returned when the segment was
// made: a rebuild fills the catalog with it.
func (s *Segment) Locations(name string) []tiering.Location {
	l := locator{blocks: s.foot.blocks}
	for e := range s.Index() {
		l.add(e)
	}
	return named(l.out, name)
}

// Records yields every record in order and checks it against its block's
// checksum, its place and line in the index, and its digest. A corrupt record,
// or an error of the reader, ends it. A loop that ends without an error has
// seen every record that the footer counts. Bodies of one block share memory.
func (s *Segment) Records() iter.Seq2[Record, error] { return s.records(true) }

// Stream is Records, with bodies that hold only until the loop goes on: it
// takes no memory for them.
func (s *Segment) Stream() iter.Seq2[Record, error] { return s.records(false) }

func (s *Segment) records(keep bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c := s.cursor()
		for i, at := range s.foot.blocks {
			more, err := s.block(i, at, c, keep, yield)
			if err != nil {
				yield(Record{}, err)
			}
			if err != nil || !more {
				return
			}
		}
		if e, ok := c.next(); ok || c.err != nil {
			yield(Record{}, corruptErr(c.err, "no record for the index's %s version %d", e.Key, e.Version))
		}
	}
}

// block yields the records of block i; more is false when yield said so.
func (s *Segment) block(i int, at span, c *indexCursor, keep bool, yield func(Record, error) bool) (more bool, err error) {
	b, err := readAt(s.r, at.offset, at.length)
	if err != nil {
		return false, err
	}
	scan, err := scanBlock(s.pool, s.tenant, b)
	if err != nil {
		return false, err
	}
	defer scan.close(keep)
	for scan.next() {
		r, err := scan.record(keep)
		if err != nil {
			return false, err
		}
		got := Entry{
			Key: r.Key, Op: r.Op, Version: r.Version, Revision: r.Revision, At: r.At,
			Size: int64(len(r.Body)), Digest: r.Digest,
			Block: i, Offset: int64(scan.start), Length: int64(scan.pos - scan.start),
		}
		if e, ok := c.next(); !ok || e != got {
			return false, corruptErr(c.err, "%s version %d is not what the index says", r.Key, r.Version)
		}
		if err := r.checkDigest(); err != nil {
			return false, err
		}
		if !yield(r, nil) {
			return false, nil
		}
	}
	return true, scan.err
}

func (s *Segment) cursor() *indexCursor {
	return &indexCursor{pool: s.pool, tenant: s.tenant, blocks: len(s.foot.blocks), pages: s.index}
}
