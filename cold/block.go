package cold

import (
	"bytes"
	"iter"

	"github.com/tierd/tierd/tiering"
)

// DecodeBlock yields the records of one block, as it lies in an object, in
// order. It decompresses no further than the last record taken: a loop that
// breaks has paid for nothing behind it. Bodies share memory; their digest
// is not checked. An error, always corrupt, ends it.
func DecodeBlock(tenant string, block []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var pool unpackers
		s, err := scanBlock(&pool, tenant, block)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer s.close(true)
		for s.next() {
			r, err := s.record(true)
			if !yield(r, err) || err != nil {
				return
			}
		}
		if s.err != nil {
			yield(Record{}, s.err)
		}
	}
}

// blockScanner walks the heads of a block, and makes a body when asked to. A
// body that is a difference needs the one before it: record is called for every
// put of a key up to the one that is wanted.
type blockScanner struct {
	*unpacker
	pool   *unpackers
	tenant string
	left   int // records not seen yet
	start  int // of the current record
	body   int // offset of what is stored of the current record's body
	pos    int // offset of the next record
	head   Record
	differ bool // the current record's body is a difference
	err    error

	base    []byte // the last body that was made of the current key; nil for none
	made    int    // bytes of the bodies that differences made
	scratch *scratch
}

// scratch is where bodies are made that do not live on: the next one while the
// last one is still needed.
type scratch struct {
	bufs [2][]byte
	turn int
}

// scanBlock starts on a block. The caller closes the scanner.
func scanBlock(pool *unpackers, tenant string, block []byte) (*blockScanner, error) {
	f, err := oneFrame(blockFrame, tenant, block)
	if err != nil {
		return nil, err
	}
	u, err := pool.open(f)
	if err != nil {
		return nil, err
	}
	return &blockScanner{unpacker: u, pool: pool, tenant: tenant, left: f.count}, nil
}

// close ends the scan; shared says that bodies it returned live on.
func (s *blockScanner) close(shared bool) {
	s.pool.give(s.unpacker, shared)
	s.pool.giveScratch(s.scratch)
}

// next moves to the next record, whose head is in s.head; false at the end or
// at s.err.
func (s *blockScanner) next() bool {
	if s.err != nil {
		return false
	}
	if s.left == 0 {
		s.err = s.finish()
		return false
	}
	s.left--
	prev := s.head
	if s.err = s.readHead(); s.err != nil {
		return false
	}
	if prev.Version > 0 && prev.Compare(s.head) >= 0 {
		s.err = corruptf("records of the block are out of order at %s version %d", s.head.Key, s.head.Version)
		return false
	}
	if prev.Key != s.head.Key {
		s.base = nil
	}
	return true
}

func (s *blockScanner) readHead() error {
	if err := s.fill(s.pos + prefixSize); err != nil {
		return err
	}
	n, size := int64(le.Uint32(s.buf[s.pos:])), int64(le.Uint32(s.buf[s.pos+4:]))
	if n > maxHead || size > MaxBody {
		return corruptf("record says a head of %d and a body of %d bytes: out of range", n, size)
	}
	s.start, s.body = s.pos, s.pos+prefixSize+int(n)
	s.pos = s.body + int(size)
	if s.pos > s.raw {
		return corruptf("record goes on behind the end of its block")
	}
	if err := s.fill(s.body); err != nil {
		return err
	}
	r, differ, err := parseHead(s.tenant, s.buf[s.start+prefixSize:s.body], &s.head)
	if err != nil {
		return err
	}
	if (size > 0 || differ) && r.Op != tiering.OpPut {
		return corruptf("%s record has a body", r.Op)
	}
	s.head, s.differ = r, differ
	return nil
}

// record returns the current record with its body. With keep the body is good
// as long as the buffer is, else until record was called twice more.
func (s *blockScanner) record(keep bool) (Record, error) {
	if err := s.fill(s.pos); err != nil {
		return Record{}, err
	}
	r := s.head
	if r.Op != tiering.OpPut {
		return r, nil
	}
	r.Body = s.buf[s.body:s.pos:s.pos]
	if s.differ {
		var err error
		if r.Body, err = s.patch(r.Body, keep); err != nil {
			return Record{}, err
		}
	}
	s.base = r.Body
	return r, nil
}

// patch makes the body that differs by diff from the one before.
func (s *blockScanner) patch(diff []byte, keep bool) ([]byte, error) {
	if s.base == nil {
		return nil, corruptf("%s version %d differs from a body that is not in the block", s.head.Key, s.head.Version)
	}
	n, err := differenceLength(diff)
	if err != nil {
		return nil, err
	}
	// A few bytes make many: what a block makes is bound like what it holds.
	if s.made += n; s.made > maxFrameRaw {
		return nil, corruptf("bodies of the block are over %d bytes", maxFrameRaw)
	}
	if keep {
		return applyDifference(make([]byte, 0, n), s.base, diff)
	}
	if s.scratch == nil {
		s.scratch = s.pool.takeScratch()
	}
	s.scratch.turn ^= 1 // the last body may lie in the other one
	buf := &s.scratch.bufs[s.scratch.turn]
	if cap(*buf) < n {
		*buf = make([]byte, 0, n+n/4)
	}
	return applyDifference(*buf, s.base, diff)
}

// finish checks that nothing but the records was in the block.
func (s *blockScanner) finish() error {
	if s.pos != s.raw {
		return corruptf("block has %d bytes behind its last record", s.raw-s.pos)
	}
	if err := s.fill(s.pos); err != nil {
		return err
	}
	return s.end()
}

// findVersion returns the record that made version of key, with a body of its
// own whose digest holds. first is the lowest version of key that the block is
// known to hold. A block that does not hold it is not the one that was meant:
// corrupt. One that does, but not version, is sound, and the version never
// was in it: not_found.
func findVersion(pool *unpackers, block []byte, key tiering.Key, first, version int64) (Record, error) {
	s, err := scanBlock(pool, key.Tenant, block)
	if err != nil {
		return Record{}, err
	}
	defer s.close(false)
	return findIn(s, key, first, version)
}

// findIn is findVersion on a block that is being scanned.
func findIn(s *blockScanner, key tiering.Key, first, version int64) (Record, error) {
	sound := false
	for s.next() {
		c := s.head.Key.Compare(key)
		if c > 0 || c == 0 && s.head.Version > version {
			break
		}
		if c < 0 || !s.head.Op.Versioned() {
			continue
		}
		sound = sound || s.head.Version == first
		if s.head.Version != version {
			if s.head.Op == tiering.OpPut {
				if _, err := s.record(false); err != nil {
					return Record{}, err
				}
			}
			continue
		}
		return s.own()
	}
	switch {
	case s.err != nil:
		return Record{}, s.err
	case !sound:
		return Record{}, corruptf("the block does not hold version %d, which the catalog places there", first)
	}
	return Record{}, &tiering.Error{Code: tiering.CodeNotFound, Tier: tiering.Cold, Detail: "no such version: the versions beside it are there"}
}

// own returns the current record with a body of its own, whose digest holds.
func (s *blockScanner) own() (Record, error) {
	r, err := s.record(false)
	if err != nil {
		return Record{}, err
	}
	if err := r.checkDigest(); err != nil {
		return Record{}, err
	}
	r.Body = bytes.Clone(r.Body)
	return r, nil
}
