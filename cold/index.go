package cold

import (
	"encoding/binary"

	"github.com/tierd/tierd/tiering"
)

// A page of the index is closed at indexPage bytes, and never over maxPage.
const (
	indexPage = 64 << 10
	maxPage   = indexPage + maxHead
)

func appendEntry(b []byte, e Entry) []byte {
	b = append(b, byte(e.Op))
	b = appendString(b, e.Key.Namespace)
	b = appendString(b, e.Key.ID)
	for _, n := range [...]int64{e.Version, e.Revision, e.Size, int64(e.Block), e.Offset, e.Length} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = appendTime(b, e.At)
	return append(b, e.Digest[:]...)
}

// indexCursor reads the pages of an index one after the other, so that no more
// than one page is in memory however large the index says it is.
type indexCursor struct {
	pool   *unpackers
	tenant string
	blocks int    // number of blocks in the segment
	pages  []byte // frames not opened yet
	page   cursor // of the open page
	left   int    // entries left in the open page
	last   Entry
	err    error
}

// next returns the next entry; false at the end or at c.err.
func (c *indexCursor) next() (Entry, bool) {
	if c.left == 0 && (len(c.pages) == 0 || !c.turn()) {
		return Entry{}, false
	}
	e := Entry{Op: tiering.Op(c.page.byte())}
	e.Key = tiering.Key{Tenant: c.tenant, Namespace: c.page.like(c.last.Key.Namespace, maxName), ID: c.page.like(c.last.Key.ID, tiering.MaxIDLength)}
	e.Version, e.Revision, e.Size = c.page.int63(), c.page.int63(), c.page.int63()
	block := c.page.int63()
	e.Offset, e.Length = c.page.int63(), c.page.int63()
	e.At = c.page.time()
	e.Digest = c.page.digest()
	c.left--
	if c.page.bad || c.left == 0 {
		if c.err = c.page.end("index page"); c.err != nil {
			return Entry{}, false
		}
	}
	if e.Version < 1 || e.Op < tiering.OpPut || e.Op > tiering.OpUnpin || block >= int64(c.blocks) {
		c.err = corruptf("index says %s of version %d in block %d of %d", e.Op, e.Version, block, c.blocks)
		return Entry{}, false
	}
	if c.last.Version > 0 && c.last.compare(e) >= 0 {
		c.err = corruptf("index is out of order at %s version %d", e.Key, e.Version)
		return Entry{}, false
	}
	e.Block = int(block)
	c.last = e
	return e, true
}

// turn opens the next page.
func (c *indexCursor) turn() bool {
	var f frame
	if f, c.pages, c.err = cutFrame(indexFrame, c.tenant, c.pages); c.err != nil {
		return false
	}
	if f.raw > maxPage {
		c.err = corruptf("index page of %d bytes is over %d", f.raw, maxPage)
		return false
	}
	var u *unpacker
	if u, c.err = c.pool.open(f); c.err != nil {
		return false
	}
	// The buffer is not used again: the page is read out of it.
	defer c.pool.give(u, true)
	if c.err = u.fill(f.raw); c.err == nil {
		c.err = u.end()
	}
	c.page, c.left = cursor{b: u.buf}, f.count
	return c.err == nil
}

// locator gathers the locations of a segment from its index. Only versions
// count: a touch of version 3 does not make the segment hold version 3. A key
// with touches and pins alone gets a location of version 0 without blocks, so
// that an erase finds the segment and a look-up of any version does not.
type locator struct {
	blocks []span
	out    []tiering.Location
}

func (l *locator) add(e Entry) {
	n := len(l.out) - 1
	if n < 0 || l.out[n].Key != e.Key {
		l.out = append(l.out, tiering.Location{Key: e.Key, MinTime: e.At, MaxTime: e.At})
		n++
	}
	loc := &l.out[n]
	if !e.Op.Versioned() {
		if loc.MinVersion == 0 && e.At.After(loc.MaxTime) {
			loc.MaxTime = e.At
		}
		return
	}
	if loc.MinVersion == 0 {
		loc.MinVersion, loc.MinTime, loc.MaxTime = e.Version, e.At, e.At
	}
	loc.MaxVersion = e.Version
	if e.At.Before(loc.MinTime) {
		loc.MinTime = e.At
	}
	if e.At.After(loc.MaxTime) {
		loc.MaxTime = e.At
	}
	at := l.blocks[e.Block]
	if k := len(loc.Blocks); k == 0 || loc.Blocks[k-1].Offset != at.offset {
		loc.Blocks = append(loc.Blocks, tiering.BlockRef{FirstVersion: e.Version, Offset: at.offset, Length: at.length})
	}
}

// named returns the locations under a segment's name.
func named(locs []tiering.Location, name string) []tiering.Location {
	out := make([]tiering.Location, len(locs))
	for i, l := range locs {
		l.Segment = name
		out[i] = l
	}
	return out
}
