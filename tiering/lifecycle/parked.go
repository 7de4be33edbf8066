package lifecycle

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
)

// park notes a move that keeps failing, for status.
func (e *Engine) park(move, subject string, attempts int, err error) {
	if attempts < parkAfter {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := move + " " + subject
	p := e.parked[id]
	if p == nil {
		p = &tiering.ParkedMove{Move: move, Subject: subject, Since: time.Now().UTC()}
		e.parked[id] = p
	}
	p.Attempts, p.Error = attempts, tiering.Told(err) // its cause may name paths and addresses
}

func (e *Engine) unpark(move, subject string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.parked, move+" "+subject)
}

// parkDamaged notes a document of which a version can not be archived.
func (e *Engine) parkDamaged(k tiering.Key, version int64) {
	e.park(ArchiveReader, k.String(), parkAfter, tiering.Errorf(tiering.CodeCorrupt, "version %d is missing or damaged in warm", version))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damaged[k] = true
}

// forgetDamaged forgets the documents that were erased since, by whichever daemon.
func (e *Engine) forgetDamaged(ctx context.Context) {
	e.mu.Lock()
	damaged := slices.Collect(maps.Keys(e.damaged))
	e.mu.Unlock()
	for _, k := range damaged {
		if cur, err := e.Warm.Head(ctx, k); err != nil || cur.Head.Version > 0 {
			continue
		}
		e.unpark(ArchiveReader, k.String())
		e.mu.Lock()
		delete(e.damaged, k)
		e.mu.Unlock()
	}
}

// Parked lists the moves that keep failing.
func (e *Engine) Parked(ctx context.Context) []tiering.ParkedMove {
	e.forgetDamaged(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []tiering.ParkedMove
	for _, p := range e.parked {
		out = append(out, *p)
	}
	return out
}
