package warmtest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// testFencing: whoever was paused while another took his lease changes nothing
// in the catalog, whichever change he comes back with.
func testFencing(t *testing.T, h Harness) {
	k := key("k")
	own := func(name string, token int64) tiering.SegmentInfo {
		return tiering.SegmentInfo{Name: name, Tenant: tenant, Owner: "archive", Token: token, Copies: [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}}
	}
	changes := []struct {
		name string
		// ready makes what the change is about, while the lease is held.
		ready  func(f *fixture, token int64)
		change func(ctx context.Context, f *fixture, token int64) error
	}{
		{"start", func(*fixture, int64) {}, func(ctx context.Context, f *fixture, token int64) error {
			return f.store.StartSegment(ctx, own("seg-1", token))
		}},
		{"finish", started("seg-1", own), func(ctx context.Context, f *fixture, token int64) error {
			return f.store.FinishSegment(ctx, own("seg-1", token), nil, "archive", 1)
		}},
		{"abandon", started("seg-1", own), func(ctx context.Context, f *fixture, _ int64) error {
			return f.store.AbandonSegment(ctx, "seg-1")
		}},
		{"drop an intent", started("seg-1", own), func(ctx context.Context, f *fixture, _ int64) error {
			_, err := f.store.DropIntent(ctx, "seg-1")
			return err
		}},
		{"set a copy", finished("seg-1", own), func(ctx context.Context, f *fixture, _ int64) error {
			return f.store.SetCopy(ctx, "seg-1", tiering.Backup, tiering.CopyBad)
		}},
		{"drop", finished("seg-1", own), func(ctx context.Context, f *fixture, _ int64) error {
			_, err := f.store.DropSegment(ctx, "seg-1")
			return err
		}},
		{"forget", func(f *fixture, token int64) {
			f.Helper()
			finished("seg-1", own)(f, token)
			_, err := f.store.DropSegment(f.ctx, "seg-1")
			f.no(err)
		}, func(ctx context.Context, f *fixture, _ int64) error {
			return f.store.ForgetSegment(ctx, "seg-1")
		}},
		{"replace", func(f *fixture, token int64) {
			f.Helper()
			finished("seg-1", own)(f, token)
			started("seg-2", own)(f, token)
		}, func(ctx context.Context, f *fixture, token int64) error {
			return f.store.ReplaceSegments(ctx, own("seg-2", token), []tiering.Location{{Key: k, Segment: "seg-2", MinVersion: 1, MaxVersion: 1}}, []string{"seg-1"})
		}},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, h)
			old, ok, err := f.store.Acquire(f.ctx, "archive", "a", time.Minute)
			f.no(err)
			equal(f, "acquired", ok, true)
			c.ready(f, old.Token)
			f.clock.advance(time.Hour)
			_, ok, err = f.store.Acquire(f.ctx, "archive", "b", time.Minute)
			f.no(err)
			equal(f, "taken over", ok, true)
			before, err := f.store.Segments(f.ctx, "", "", "", 10)
			f.no(err)
			if err := c.change(warm.Under(f.ctx, old), f, old.Token); tiering.CodeOf(err) != tiering.CodeFenced {
				t.Errorf("under an older token: %v, want fenced", err)
			}
			after, err := f.store.Segments(f.ctx, "", "", "", 10)
			f.no(err)
			if !reflect.DeepEqual(after, before) {
				t.Errorf("the catalog is\n%+v\nafter it, before\n%+v", after, before)
			}
		})
		t.Run(c.name+" under a lease that ran out and that nobody took", func(t *testing.T) {
			f := setup(t, h)
			l, ok, err := f.store.Acquire(f.ctx, "archive", "a", time.Minute)
			f.no(err)
			equal(f, "acquired", ok, true)
			c.ready(f, l.Token)
			f.clock.advance(time.Hour)
			f.no(c.change(warm.Under(f.ctx, l), f, l.Token))
		})
	}
}

func started(name string, own func(string, int64) tiering.SegmentInfo) func(*fixture, int64) {
	return func(f *fixture, token int64) {
		f.Helper()
		f.no(f.store.StartSegment(f.ctx, own(name, token)))
	}
}

func finished(name string, own func(string, int64) tiering.SegmentInfo) func(*fixture, int64) {
	return func(f *fixture, token int64) {
		f.Helper()
		started(name, own)(f, token)
		f.no(f.store.FinishSegment(f.ctx, own(name, token), nil, "", 0))
	}
}
