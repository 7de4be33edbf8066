// Package coldtest proves a driver of the cold tier: Run is what every driver
// passes. It also holds a bucket in memory and one that breaks on demand, for
// the tests of what is built on buckets.
package coldtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
)

// Harness gives the suite buckets of one driver.
type Harness struct {
	// New prepares a place for an empty bucket that no other test uses, and
	// returns what opens it. The suite opens a place more than once, closes
	// each bucket that it opened, and not two at a time.
	New func(t *testing.T) (open func() (cold.Bucket, error))
	// Many is how many objects the listing test makes; 0 is 1100, more than
	// one page of S3.
	Many int
}

// Run runs the suite: each method, each parameter, and what a crash, a race or
// a lost reply may do.
func Run(t *testing.T, h Harness) {
	if h.Many == 0 {
		h.Many = 1100
	}
	for _, area := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Create", testCreate},
		{"Race", testRace},
		{"Read", testRead},
		{"Stat", testStat},
		{"List", testList},
		{"Delete", testDelete},
		{"Names", testNames},
		{"Context", testContext},
		{"Reopen", testReopen},
		{"Ping", testPing},
		{"Archive", testArchive},
	} {
		t.Run(area.name, func(t *testing.T) { area.run(t, h) })
	}
}

// patience bounds a whole test: a driver that hangs fails.
const patience = 2 * time.Minute

// bucket opens a new empty bucket that is closed when the test ends.
func bucket(t *testing.T, h Harness) (context.Context, cold.Bucket) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	b, err := h.New(t)()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return ctx, b
}

// body is n bytes that tell apart every offset and every seed.
func body(n int, seed string) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s:%d\n", seed, i)
	}
	return b.Bytes()[:n]
}

func create(ctx context.Context, b cold.Bucket, name string, data []byte) error {
	return b.Create(ctx, name, bytes.NewReader(data), int64(len(data)))
}

func mustCreate(ctx context.Context, t *testing.T, b cold.Bucket, name string, data []byte) {
	t.Helper()
	if err := create(ctx, b, name, data); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
}

// mustHold requires that name holds exactly data.
func mustHold(ctx context.Context, t *testing.T, b cold.Bucket, name string, data []byte) {
	t.Helper()
	got, err := b.Read(ctx, name, 0, -1)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("read %s: %d bytes that are not the %d written", name, len(got), len(data))
	}
}

// mustLack requires that the bucket says that name is not there.
func mustLack(ctx context.Context, t *testing.T, b cold.Bucket, name string) {
	t.Helper()
	if _, err := b.Stat(ctx, name); !errors.Is(err, cold.ErrNotExist) {
		t.Fatalf("stat of absent %s: %v, want ErrNotExist", name, err)
	}
	for _, length := range []int64{-1, 0, 1} {
		if _, err := b.Read(ctx, name, 0, length); !errors.Is(err, cold.ErrNotExist) {
			t.Fatalf("read of %d bytes of absent %s: %v, want ErrNotExist", length, name, err)
		}
	}
}

// list returns the names under prefix.
func list(ctx context.Context, t *testing.T, b cold.Bucket, prefix string) []string {
	t.Helper()
	var names []string
	for info, err := range b.List(ctx, prefix) {
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		names = append(names, info.Name)
	}
	return names
}
