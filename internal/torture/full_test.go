package torture

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/internal/fault/sqlitevfs"
	"github.com/tierd/tierd/tiering"
)

// fillDisk: an embedded node whose disk is full at its nth write, for every n that
// a round comes to: what was acknowledged stays, what is refused is refused as out
// of space, and when there is room again writes go on without a restart. A round
// is one n.
func fillDisk(t *testing.T, c *course) {
	step := c.random(0).IntN(7)
	refused := 0
	for c.more() {
		refused += fullAt(t, c, step, c.random(step))
		step += 7
	}
	c.note("%d calls refused", refused)
}

func fullAt(t *testing.T, c *course, room int, random *rand.Rand) (refused int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	disk := t.TempDir()
	j := fault.NewJournal()
	vfs, err := sqlitevfs.Record(disk, j)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := vfs.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := tierd.Open(ctx, tierd.Config{Data: filepath.Join(disk, "data"), Disk: &recordedDisk{folder: disk, journal: j}, SegmentAge: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(ctx, n); err != nil {
		t.Fatal(err)
	}
	l := newLedger(j.Len)
	j.Room(room)
	for i := range 60 {
		ns, id := documents, []string{"a", "b"}[i%2]
		if i%5 == 4 {
			ns = lines
		}
		if err := l.write(ctx, n, ns, id, random); err != nil {
			refused++
			if code := tiering.CodeOf(err); code != tiering.CodeOutOfSpace {
				c.violated("room for %d writes: a write was refused as %s: %v", room, code, err)
			}
			l.drop(ns, id)
		}
		if i%6 == 5 {
			_, _ = n.Demote(ctx, documents, id) // may be refused too; what was acknowledged is looked at below
		}
	}
	if refused > 0 { // else there was room for everything
		c.inject(1)
	}
	j.Room(-1)
	if err := l.write(ctx, n, documents, "c", random); err != nil {
		c.violated("room for %d writes: with room again a write fails: %v", room, err)
	}
	if err := n.Archive(ctx); err != nil {
		c.violated("room for %d writes: with room again the archive fails: %v", room, err)
	}
	l.check(ctx, n, j.Len(), c.violated, c.violated)
	if err := n.Close(ctx); err != nil {
		c.violated("room for %d writes: close: %v", room, err)
	}
	return refused
}

// drop forgets the last change of a key, which is known not to have happened.
func (l *ledger) drop(ns, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := ns + "/" + id
	l.keys[key] = l.keys[key][:len(l.keys[key])-1]
}
