package coldtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

func testList(t *testing.T, h Harness) {
	t.Run("order and prefix", func(t *testing.T) {
		ctx, b := bucket(t, h)
		if names := list(ctx, t, b, ""); len(names) > 0 {
			t.Fatalf("a new bucket lists %q", names)
		}
		// Byte order across slashes: - and . come before /, digits after.
		all := []string{"a-b", "a.b", "a/a", "a/b/c", "a/b0", "a0", "b/-", "b/0", "b_c/d"}
		for _, name := range slices.Backward(all) {
			mustCreate(ctx, t, b, name, body(len(name), name))
		}
		for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/", "a-", "a-b", "a-bc", "b", "b_c/d", "b_c/d/", "c", "/", "a//", "A", ".."} {
			var want []string
			for _, name := range all {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			if got := list(ctx, t, b, prefix); !slices.Equal(got, want) {
				t.Errorf("list %q: %q, want %q", prefix, got, want)
			}
		}
		for info, err := range b.List(ctx, "") {
			if err != nil || info.Size != int64(len(info.Name)) || info.ModTime.IsZero() {
				t.Fatalf("list describes %+v: %v", info, err)
			}
		}
	})
	t.Run("more than a page", func(t *testing.T) {
		ctx, b := bucket(t, h)
		var want []string
		var g errgroup.Group
		g.SetLimit(16)
		for i := range h.Many {
			name := fmt.Sprintf("many/%05d", i*7919%h.Many)
			want = append(want, fmt.Sprintf("many/%05d", i))
			g.Go(func() error { return create(ctx, b, name, []byte(name)) })
		}
		if err := g.Wait(); err != nil {
			t.Fatalf("create: %v", err)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		if got := list(ctx, t, b, "many/"); !slices.Equal(got, want) {
			t.Fatalf("list gives %d names, want the %d created, in order", len(got), len(want))
		}
		seen := 0
		for range b.List(ctx, "many/") {
			if seen++; seen == 3 {
				break
			}
		}
		if seen != 3 {
			t.Fatalf("a loop that breaks at 3 saw %d", seen)
		}
	})
}

// testContext: a call whose context has ended fails with its error, leaves
// nothing, and does not pass for an answer about the object.
func testContext(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	mustCreate(ctx, t, b, "seg/a", body(100, "a"))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	late, stop := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer stop()
	for _, c := range []struct {
		name string
		ctx  context.Context
		want error
	}{{"cancelled", cancelled, context.Canceled}, {"too late", late, context.DeadlineExceeded}} {
		for call, do := range map[string]func() error{
			"create": func() error { return create(c.ctx, b, "seg/new", []byte("x")) },
			"read":   func() error { _, err := b.Read(c.ctx, "seg/a", 0, -1); return err },
			"absent": func() error { _, err := b.Read(c.ctx, "seg/none", 0, -1); return err },
			"stat":   func() error { _, err := b.Stat(c.ctx, "seg/a"); return err },
			"delete": func() error { return b.Delete(c.ctx, "seg/a") },
			"ping":   func() error { return b.Ping(c.ctx) },
			"list": func() error {
				var err error
				for _, e := range b.List(c.ctx, "") {
					err = e
				}
				return err
			},
		} {
			t.Run(c.name+" "+call, func(t *testing.T) {
				if err := do(); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		}
	}
	mustHold(ctx, t, b, "seg/a", body(100, "a"))
	mustLack(ctx, t, b, "seg/new")

	t.Run("a list that is cancelled half way says so", func(t *testing.T) {
		mustCreate(ctx, t, b, "seg/b", body(100, "b"))
		half, cancel := context.WithCancel(ctx)
		defer cancel()
		var last error
		for _, err := range b.List(half, "") {
			cancel()
			last = err
		}
		// A page that was fetched before may still be given in full.
		if last != nil && !errors.Is(last, context.Canceled) {
			t.Errorf("%v, want context.Canceled or the whole list", last)
		}
	})
}

func testReopen(t *testing.T, h Harness) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	open := h.New(t)
	data := body(100_000, "reopen")
	for round := range 3 {
		b, err := open()
		if err != nil {
			t.Fatalf("open %d: %v", round, err)
		}
		if round > 0 {
			mustHold(ctx, t, b, "seg/a", data)
			if err := create(ctx, b, "seg/a", data); !errors.Is(err, cold.ErrExist) {
				t.Fatalf("create after reopening: %v, want ErrExist", err)
			}
			if names := list(ctx, t, b, ""); !slices.Equal(names, []string{"seg/a"}) {
				t.Fatalf("reopened bucket lists %q", names)
			}
		} else {
			mustCreate(ctx, t, b, "seg/a", data)
		}
		if err := b.Close(); err != nil {
			t.Fatalf("close %d: %v", round, err)
		}
	}
}

func testPing(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	mustCreate(ctx, t, b, "seg/a", body(10, "a"))
	for range 3 {
		if err := b.Ping(ctx); err != nil {
			t.Fatalf("ping: %v", err)
		}
	}
	if names := list(ctx, t, b, ""); !slices.Equal(names, []string{"seg/a"}) {
		t.Fatalf("after pings the bucket lists %q", names)
	}
}

// testArchive puts the driver under an archive whose calls fail on the way:
// what counts as written is there, and what is there is counted.
func testArchive(t *testing.T, h Harness) {
	lost := errors.New("the reply was lost")
	data := body(300_000, "archive")
	for _, c := range []struct {
		name  string
		fault Fault
		held  bool // data is there afterwards
		code  tiering.Code
	}{
		{"nothing fails", Fault{}, true, ""},
		{"create succeeds, its reply is lost", Fault{Call: Create, Times: 1, After: lost}, true, ""},
		{"create never arrives", Fault{Call: Create, Before: lost}, false, tiering.CodeUnavailable},
		{"the read-back is cut short", Fault{Call: Read, Truncate: 1}, true, tiering.CodeCorrupt},
		{"the read-back has a wrong bit", Fault{Call: Read, Flip: true, FlipAt: 123_456}, true, tiering.CodeCorrupt},
		{"the read-back fails", Fault{Call: Read, Before: lost}, true, tiering.CodeUnavailable},
		{"the stat fails", Fault{Call: Stat, Before: lost}, true, tiering.CodeUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, b := bucket(t, h)
			faulty := NewFaultBucket(b)
			if c.fault != (Fault{}) {
				faulty.Inject(c.fault)
			}
			a := cold.NewArchive(faulty, &Memory{}, &cold.ArchiveOptions{Prefix: "t"})
			name := a.Name(time.Now(), 7)
			if err := a.Write(ctx, tiering.Primary, name, data); tiering.CodeOf(err) != c.code {
				t.Fatalf("write: %v, want code %q", err, c.code)
			}
			if !c.held {
				mustLack(ctx, t, b, "t/"+name)
			} else {
				mustHold(ctx, t, b, "t/"+name, data)
			}
			faulty.Clear()
			if err := a.Write(ctx, tiering.Primary, name, data); err != nil {
				t.Fatalf("writing the same bytes again: %v", err)
			}
			if err := a.Write(ctx, tiering.Primary, name, data[1:]); !errors.Is(err, tiering.ErrCorrupt) {
				t.Fatalf("writing other bytes under the name: %v, want corrupt", err)
			}
		})
	}
}
