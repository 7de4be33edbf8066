package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// archiveReader is the reader of the feed that writes segments. Its position is
// how far cold has come.
const archiveReader = "archive"

// pingPatience is how long status waits for a bucket.
const pingPatience = 2 * time.Second

// Ready reports whether requests can be served: warm can commit.
func (r *core) Ready(ctx context.Context) error {
	if err := r.open(); err != nil {
		return err
	}
	return tiering.Wrap(r.Warm.Ping(ctx), "ready", tiering.Warm, tiering.Key{})
}

// Status returns the state of the node. A tier that is down is told, not an
// error.
func (r *Router) Status(ctx context.Context) (*tiering.NodeStatus, error) {
	if err := r.allow(tiering.VerbRead, ""); err != nil {
		return nil, tiering.Wrap(err, "status", "", tiering.Key{})
	}
	s := &tiering.NodeStatus{Version: r.Version, Started: r.started, Counts: map[string]int64{}}
	s.Ready = r.Ready(ctx) == nil
	s.Tiers = append(s.Tiers, r.hotStatus(ctx, s), r.warmStatus(ctx, s))
	if r.Archive != nil {
		asked, cancel := context.WithTimeout(ctx, pingPatience)
		defer cancel()
		for c, err := range r.Archive.Ping(asked) {
			t := tierStatus(tiering.Cold, tiering.Copy(c).String(), err)
			t.Driver = [2]string{r.Drivers.Primary, r.Drivers.Backup}[c]
			s.Tiers = append(s.Tiers, t)
		}
	}
	if r.Memories.Index != nil {
		s.Tiers = append(s.Tiers, r.vectorStatus(ctx, s))
	}
	if r.Background != nil {
		r.backgroundStatus(ctx, s)
	}
	// The feed's figures are warm's: where it is down they stay zero, and the
	// tier says why.
	if epoch, err := r.Warm.Epoch(ctx); err == nil {
		s.Epoch = epoch
	}
	if _, last, err := r.Warm.FeedBounds(ctx); err == nil {
		s.Feed.Tail = last
		if pos, err := r.Warm.Position(ctx, archiveReader); err == nil {
			s.Archive.Position, s.Archive.Behind = pos, last-pos
			if oldest, err := r.Warm.ReadFeed(ctx, pos, 1); err == nil && len(oldest) == 1 && len(oldest[0].Changes) > 0 {
				s.Archive.OldestTime = oldest[0].Changes[0].At
			}
		}
	}
	return s, nil
}

// backgroundStatus adds what the engine behind the router knows.
func (r *core) backgroundStatus(ctx context.Context, s *tiering.NodeStatus) {
	s.Parked = r.Background.Parked(ctx)
	for _, p := range s.Parked {
		if p.Move == "archive" {
			s.Archive.LastError = p.Error
		}
	}
	s.DueWithinADay = r.Background.Forecast()
	bytes, missing, err := r.Background.Cold(ctx)
	if err != nil {
		return // warm is down, and its tier says so
	}
	for i := range s.Tiers {
		if t := &s.Tiers[i]; t.Tier == tiering.Cold {
			c := tiering.Primary
			if t.Copy == tiering.Backup.String() {
				c = tiering.Backup
			}
			t.Bytes, t.Items = bytes[c], s.Counts["segments"]-missing[c]
		}
	}
	s.Archive.Missing = missing[0] + missing[1]
}

func tierStatus(t tiering.Tier, copyName string, err error) tiering.TierStatus {
	s := tiering.TierStatus{Tier: t, Copy: copyName, OK: err == nil}
	if err != nil {
		s.Error = tiering.Told(tiering.Wrap(err, "", t, tiering.Key{})) // its cause may name paths and addresses
	}
	return s
}

func (r *core) hotStatus(ctx context.Context, n *tiering.NodeStatus) tiering.TierStatus {
	st, err := r.Hot.Stats(ctx)
	s := tierStatus(tiering.Hot, "", err)
	s.Driver = r.Drivers.Hot
	s.Bytes, s.Items = st.Bytes, st.Items
	n.Counts["hot_hits"], n.Counts["hot_misses"], n.Counts["hot_evictions"] = st.Hits, st.Misses, st.Evictions
	return s
}

// vectorStatus says what the index of memories holds.
func (r *core) vectorStatus(ctx context.Context, n *tiering.NodeStatus) tiering.TierStatus {
	st, err := r.Memories.Index.Stats(ctx)
	s := tierStatus(tiering.Vector, "", err)
	s.Driver, s.Bytes, s.Items = r.Drivers.Vector, st.Bytes, st.Vectors
	n.Counts["memories"], n.Counts["vectors_fresh"], n.Counts["vectors_dormant"] = st.Memories, st.Fresh, st.Dormant
	return s
}

func (r *core) warmStatus(ctx context.Context, n *tiering.NodeStatus) tiering.TierStatus {
	st, err := r.Warm.Stats(ctx)
	s := tierStatus(tiering.Warm, "", err)
	s.Driver = r.Drivers.Warm
	s.Bytes, s.Items = st.DiskBytes, st.Heads
	n.Counts["tombstones"], n.Counts["versions"], n.Counts["segments"] = st.Tombstones, st.Versions, st.Segments
	n.Counts["body_bytes"], n.Estimated = st.BodyBytes, st.Estimated
	if unsettled, ok := warm.As[warm.Settler](r.Warm); ok && err == nil {
		if n.Feed.Lag, err = unsettled.Unsettled(ctx); err != nil {
			s = tierStatus(tiering.Warm, "", err)
		}
	}
	return s
}
