package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// listedBefore is a store whose reader of the catalog is held behind its look:
// what it goes on with is what stood then.
type listedBefore struct {
	warm.Store
	meanwhile func()
}

func (s *listedBefore) Segments(ctx context.Context, tenant string, state tiering.SegmentState, after string, limit int) ([]tiering.SegmentInfo, error) {
	found, err := s.Store.Segments(ctx, tenant, state, after, limit)
	if meanwhile := s.meanwhile; meanwhile != nil && len(found) > 0 {
		s.meanwhile = nil
		meanwhile()
	}
	return found, err
}

// R17: a restore has read the catalog, what it read is merged and what may go
// is collected, then the restore reads on: the objects are within their grace.
// Without one they are gone.
func TestRaceR17ASegmentIsCollectedUnderARestore(t *testing.T) {
	raced(t, func(n *node, naive bool) error {
		n.policy("notes", tiering.Policy{})
		config := n.config
		config.MergeCount = 2
		if naive {
			config.Grace = time.Nanosecond
		}
		n.engine = lifecycle.New(config)
		v1 := n.put("k")
		n.flush()
		n.put("k")
		n.flush()
		locs, err := n.store.Locations(n.ctx, key("k"))
		n.no(err)
		before := len(n.segments(tiering.SegmentFinished))
		read := &listedBefore{Store: n.store, meanwhile: func() {
			n.gc()
			n.pass(59 * time.Minute)
			n.gc()
		}}
		listed, err := read.Segments(n.ctx, tenant, tiering.SegmentFinished, "", 100)
		n.no(err)
		if now := len(n.segments(tiering.SegmentFinished)); len(listed) != before || now >= before {
			n.Fatalf("%d segments were listed, %d stand: nothing was merged meanwhile", len(listed), now)
		}
		var broken []error
		for _, s := range listed {
			for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
				if _, err := n.archive.OpenObject(n.ctx, c, s.Name); err != nil {
					broken = append(broken, fmt.Errorf("%s of %s: %w", c, s.Name, err))
				}
			}
		}
		if rec, _, err := n.archive.Read(n.ctx, locs[1], 1); err != nil || rec.Digest != v1.Digest {
			broken = append(broken, fmt.Errorf("a location that was looked up before: %w", err))
		}
		// What is looked up now serves, whatever was collected.
		if rec, ok := n.fromCold(key("k"), 1); !ok || rec.Digest != v1.Digest {
			n.Errorf("looked up again: %+v, %v", rec, ok)
		}
		n.pass(2 * time.Minute)
		n.gc()
		if _, _, err := n.archive.Read(n.ctx, locs[1], 1); err == nil {
			n.Error("the object outlived its grace period")
		}
		return errors.Join(broken...)
	})
}
