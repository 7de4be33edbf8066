package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// flipBits: one bit of one object flips, in the primary or the backup bucket. What is
// read is right, from the other copy, and the store is sound again after a repair. A round
// is one bit.
func flipBits(t *testing.T, c *course) {
	unread, mended := flipIn(t, c, false)
	for _, text := range unread {
		c.violated("one copy is sound: %s", text)
	}
	if mended != c.rounds {
		c.violated("%d of %d stores were sound after a repair", mended, c.rounds)
	}
	c.note("%d stores sound after a repair", mended)
}

// TestFlippedBitsAreFound: where the same bit of both copies flips something cannot be
// read, and is said not to be; no answer is wrong.
func TestFlippedBitsAreFound(t *testing.T) {
	c := &course{seed: 1, goal: 12}
	unread, _ := flipIn(t, c, true)
	for _, v := range c.violations {
		t.Error(v)
	}
	if len(unread) == 0 {
		t.Errorf("%d bits flipped in both copies, and everything could be read", c.rounds)
	}
}

// flipIn flips a bit of an object in one bucket, or the same one in both. A wrong
// answer is a violation in any case; what could not be read, and how many stores a
// repair made sound, it returns.
func flipIn(t *testing.T, c *course, both bool) (unread []string, mended int) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
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
		cfg.Data = filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(cfg.Data, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		folders := []string{"cold", "backup"}
		if !both {
			folders = folders[round%2 : round%2+1]
		}
		object, at, bit := filepath.Base(objects[random.IntN(len(objects))]), random.Float64(), random.IntN(8)
		what := fmt.Sprintf("bit %d at %v of %s in %v", bit, at, object, folders)
		for _, folder := range folders {
			flip(t, filepath.Join(cfg.Data, folder, "seg", object), at, bit)
		}
		c.inject(1)
		n, err := tierd.Open(ctx, cfg)
		if err != nil {
			c.violated("%s: %v", what, err)
			continue
		}
		l.check(ctx, n, moment, func(format string, args ...any) { c.violated("%s: %s", what, fmt.Sprintf(format, args...)) },
			func(format string, args ...any) { unread = append(unread, what+": "+fmt.Sprintf(format, args...)) })
		// Once with repair, once more to see. A segment that was merged meanwhile is no
		// part of the store any more, and neither is its damage.
		_, repaired := n.Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthHash, Repair: true})
		report, err := n.Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthHash})
		if err = errors.Join(repaired, err); err != nil {
			c.violated("%s: verify: %v", what, err)
		} else if len(report.Faults) == 0 {
			mended++
		}
		if err := n.Close(ctx); err != nil {
			c.violated("close: %v", err)
		}
	}
	return unread, mended
}

// flip flips a bit of a file, at a share of its length.
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
