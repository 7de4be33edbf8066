package cold

import (
	"github.com/maypok86/otter/v2"

	"github.com/tierd/tierd/tiering"
)

// blockID names one block of one segment, as its tenant reads it: the checksum
// of a block binds the tenant. Names never repeat and objects never change, so
// what is kept under it can never be old.
type blockID struct {
	tenant  string
	segment string
	offset  int64
}

// openBlock is a block that was checked and decompressed whole.
type openBlock struct {
	raw   []byte
	count int
}

// blockCache keeps blocks that are read again and again, as those of a history
// are. A block is decompressed whole, and kept, when it is read for the second
// time: a read that never returns pays for no more than its own record.
type blockCache struct {
	open *otter.Cache[blockID, openBlock]
	once *otter.Cache[blockID, struct{}] // read once lately
}

// readOnce is how many blocks are remembered as read once.
const readOnce = 4096

// newBlockCache returns nil, which keeps nothing, for a bound below 1 byte.
func newBlockCache(bound int64) *blockCache {
	if bound < 1 {
		return nil
	}
	return &blockCache{
		open: otter.Must(&otter.Options[blockID, openBlock]{
			MaximumWeight: uint64(bound),
			Weigher:       func(_ blockID, b openBlock) uint32 { return uint32(len(b.raw)) },
		}),
		once: otter.Must(&otter.Options[blockID, struct{}]{MaximumSize: readOnce}),
	}
}

// get returns the block, and whether it should be kept after it is read now.
func (c *blockCache) get(id blockID) (b openBlock, ok, keep bool) {
	if c == nil {
		return openBlock{}, false, false
	}
	if b, ok = c.open.GetIfPresent(id); ok {
		return b, true, false
	}
	_, keep = c.once.GetIfPresent(id)
	if !keep {
		c.once.Set(id, struct{}{})
	}
	return openBlock{}, false, keep
}

func (c *blockCache) put(id blockID, b openBlock) { c.open.Set(id, b) }

// forget drops what is kept of a segment.
func (c *blockCache) forget(segment string) {
	if c == nil {
		return
	}
	for id := range c.open.All() {
		if id.segment == segment {
			c.open.Invalidate(id)
		}
	}
}

// openWhole checks and decompresses a block to its end.
func openWhole(pool *unpackers, tenant string, block []byte) (openBlock, error) {
	f, err := oneFrame(blockFrame, tenant, block)
	if err != nil {
		return openBlock{}, err
	}
	u, err := pool.open(f)
	if err != nil {
		return openBlock{}, err
	}
	defer func() { pool.give(u, true) }() // the buffer lives on
	if err := u.fill(u.raw); err != nil {
		return openBlock{}, err
	}
	return openBlock{raw: u.buf, count: f.count}, u.end()
}

// find is findVersion in a block that is open.
func (b openBlock) find(pool *unpackers, key tiering.Key, first, version int64) (Record, error) {
	s := &blockScanner{unpacker: &unpacker{buf: b.raw, raw: len(b.raw)}, pool: pool, tenant: key.Tenant, left: b.count}
	defer func() { pool.giveScratch(s.scratch) }()
	return findIn(s, key, first, version)
}

// Forget drops what is kept in memory of a segment, for an erase.
func (a *Archive) Forget(segment string) { a.blocks.forget(segment) }

// readBlock returns the record from the block that ref names, by way of the
// cache.
func (a *Archive) readBlock(loc tiering.Location, ref tiering.BlockRef, version int64, read func() ([]byte, error)) (Record, error) {
	id := blockID{loc.Key.Tenant, loc.Segment, ref.Offset}
	open, ok, keep := a.blocks.get(id)
	if ok {
		return open.find(&a.pool, loc.Key, ref.FirstVersion, version)
	}
	block, err := read()
	if err != nil {
		return Record{}, err
	}
	if !keep {
		return findVersion(&a.pool, block, loc.Key, ref.FirstVersion, version)
	}
	if open, err = openWhole(&a.pool, loc.Key.Tenant, block); err != nil {
		return Record{}, err
	}
	a.blocks.put(id, open)
	return open.find(&a.pool, loc.Key, ref.FirstVersion, version)
}
