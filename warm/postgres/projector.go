package postgres

import (
	"bytes"
	"sync"
	"time"
)

// A projection is made behind the commit, of what rested for a while: a document
// that is saved again and again is projected once. Nothing waits for it. A query
// reads the bytes of a document without one, so one that is late, or never made,
// costs time alone; and what a query had to read it hands to the projector.
const (
	// projectRest is how long a document rests before it is projected, and the
	// least time between two rounds.
	projectRest = time.Second
	// projectShare is how many times as long as a round took the projector rests
	// before the next: a busy server has little time for it.
	projectShare = 4
	// projectDocs and projectBytes bound what waits, in documents and in bytes as
	// they are stored. What comes beyond is left to the next write, or query.
	projectDocs  = 1000
	projectBytes = 8 << 20
)

// docAt names a document.
type docAt struct {
	nid int32
	id  string
}

// unprojected is a version that waits for its projection.
type unprojected struct {
	docAt
	version int64
	body    packed
	at      time.Time // when it came
	tried   bool      // somebody held the head
}

// projector knows the last version of each document that is to be projected.
type projector struct {
	mu      sync.Mutex
	waiting map[docAt]*unprojected
	bytes   int
	news    chan struct{} // something waits
}

func newProjector() *projector {
	return &projector{waiting: map[docAt]*unprojected{}, news: make(chan struct{}, 1)}
}

// add has a version projected, unless a later one waits, or there is no room.
func (p *projector) add(of docAt, version int64, body packed) {
	p.put(&unprojected{docAt: of, version: version, body: body, at: time.Now()})
}

func (p *projector) put(u *unprojected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.waiting[u.docAt]
	if had != nil && had.version >= u.version {
		return
	}
	if had != nil {
		p.bytes -= len(had.body.bytes)
		delete(p.waiting, u.docAt)
	}
	if len(p.waiting) >= projectDocs || p.bytes+len(u.body.bytes) > projectBytes {
		return
	}
	if u.body.coding == codingRaw {
		u.body.bytes = bytes.Clone(u.body.bytes) // the caller's
	}
	p.waiting[u.docAt] = u
	p.bytes += len(u.body.bytes)
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// take removes what came before a moment, in no order.
func (p *projector) take(before time.Time) (out []*unprojected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, u := range p.waiting {
		if u.at.Before(before) {
			out = append(out, u)
			p.bytes -= len(u.body.bytes)
			delete(p.waiting, at)
		}
	}
	return out
}

func (p *projector) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) == 0
}
