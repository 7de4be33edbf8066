package torture

import (
	"context"
	"math/rand/v2"
	"os"
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
	unchecked(t)
	data := filepath.Join(t.TempDir(), "data")
	j := fault.NewJournal()
	vfs, err := sqlitevfs.Record(data, j)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := vfs.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := makeFolder(data); err != nil {
		t.Fatal(err)
	}
	n, err := tierd.Open(ctx, tierd.Config{Data: data, Disk: &recordedDisk{folder: data, journal: j}, SegmentAge: 10 * time.Millisecond})
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
	c.inject(1)
	j.Room(-1)
	if err := l.write(ctx, n, documents, "c", random); err != nil {
		c.violated("room for %d writes: with room again a write fails: %v", room, err)
	}
	if err := n.Archive(ctx); err != nil {
		c.violated("room for %d writes: with room again the archive fails: %v", room, err)
	}
	l.check(ctx, n, j.Len(), func(format string, args ...any) { c.violated(format, args...) })
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

// flipBits: one bit of one object flips, in the primary or the backup bucket: what
// is read is right, from the other copy. A round is one bit.
func flipBits(t *testing.T, c *course) { flipIn(t, c, "cold") }

// flipIn flips a bit of an object in each of folders, the same one.
func flipIn(t *testing.T, c *course, folders ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	data := t.TempDir()
	cfg := tierd.Config{Data: data, SegmentAge: 20 * time.Millisecond}
	n, err := tierd.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(ctx, n); err != nil {
		t.Fatal(err)
	}
	moment := 0
	l := newLedger(func() int { return moment })
	work(t, n, l, c.seed)
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	objects, err := filepath.Glob(filepath.Join(data, "cold", "seg", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	for round := 0; c.more(); round++ {
		random := c.random(round)
		image := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(image, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		object := filepath.Base(objects[random.IntN(len(objects))])
		if len(folders) == 1 && round%2 == 1 {
			folders = []string{map[string]string{"cold": "backup", "backup": "cold"}[folders[0]]}
		}
		at, bit := random.Float64(), random.IntN(8)
		for _, folder := range folders {
			flip(t, filepath.Join(image, folder, "seg", object), at, bit)
		}
		c.inject(1)
		cfg.Data = image
		n, err := tierd.Open(ctx, cfg)
		if err != nil {
			c.violated("bit %d at %v of %s: %v", bit, at, object, err)
			continue
		}
		l.check(ctx, n, moment, c.violated)
		if err := n.Close(ctx); err != nil {
			c.violated("close: %v", err)
		}
	}
}

// flip flips a bit in the middle of a file, at a share of its length.
func flip(t *testing.T, file string, at float64, bit int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[int(at*float64(len(b)))] ^= 1 << bit
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBitsAreFound: where the same bit of both copies flips, something is
// missing, and nothing wrong is served.
func TestFlippedBitsAreFound(t *testing.T) {
	c := &course{seed: 1, goal: 12}
	flipIn(t, c, "cold", "backup")
	if len(c.violations) == 0 {
		t.Errorf("%d bits flipped in both copies, and nothing was found", c.rounds)
	}
}
