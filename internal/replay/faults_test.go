package replay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/tiering"
)

// within is how soon everything serves again after a fault. The race detector
// of the agents takes the processors that the servers need.
func within() time.Duration {
	if racedetector.On {
		return 30 * time.Second
	}
	return 10 * time.Second
}

// fault is something that breaks while agents write.
type fault struct {
	name string
	// strike breaks something and mends it: on its return the server or daemon
	// is there again.
	strike func(f *fleet, s *servers)
}

var faults = []fault{
	{"kill -9 of a daemon", func(f *fleet, _ *servers) { f.killOne(0); f.startOne(0) }},
	{"kill -9 of Redis", func(_ *fleet, s *servers) { s.Do("kill", "redis"); s.Do("start", "redis") }},
	{"FLUSHALL", func(f *fleet, s *servers) {
		if err := s.redis.FlushAll(context.Background()).Err(); err != nil {
			f.t.Errorf("FLUSHALL: %v", err)
		}
	}},
	{"kill -9 of PostgreSQL", func(_ *fleet, s *servers) { s.Do("kill", "postgres"); s.Do("start", "postgres") }},
	{"Redis frozen for 3 s", func(_ *fleet, s *servers) {
		s.Do("pause", "redis")
		time.Sleep(3 * time.Second)
		s.Do("resume", "redis")
	}},
	{"kill -9 of the other daemon", func(f *fleet, _ *servers) { f.killOne(1); f.startOne(1) }},
}

// strike lets every fault strike, one after the other, and waits after each
// until everything serves again.
func (f *fleet) strike(ctx context.Context, s *servers) {
	f.t.Helper()
	for _, x := range faults {
		time.Sleep(300 * time.Millisecond)
		f.quiet.Add(1)
		began := time.Now()
		x.strike(f, s)
		mended := time.Now()
		if err := f.serves(ctx, mended.Add(within())); err != nil {
			f.t.Errorf("%s: not within %v after it: %v", x.name, within(), err)
		}
		f.quiet.Add(1)
		f.t.Logf("%-28s lasted %6v, everything served again %6v after its end", x.name,
			mended.Sub(began).Round(time.Millisecond), time.Since(mended).Round(time.Millisecond))
	}
}

// serves waits until both daemons take a write, in hot too, and serve it from
// hot; and until each has committed behind the other's: a write that hot missed
// while it was out of reach ended the hot epoch, which a daemon learns from warm.
func (f *fleet) serves(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for i, c := range f.clients {
		for n := 0; ; n++ {
			id := fmt.Sprintf("of-%d", i)
			rc, err := c.Put(ctx, "probe", id, fmt.Appendf(nil, `{"n":%d}`, n), nil)
			var d *tiering.Document
			if err == nil {
				d, err = c.Get(ctx, "probe", id, nil)
			}
			if err == nil && rc.Hot && d.Tier == tiering.Hot {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("daemon %d: %w, receipt %+v", i, err, rc)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	_, err := f.clients[0].Put(ctx, "probe", "of-0", []byte(`{"n":-1}`), nil)
	return err
}

// checkCurrent: a cached get answers what a strong one does, for every key, at
// both daemons; and that is the last one acknowledged.
func (f *fleet) checkCurrent(ctx context.Context, t *testing.T, l *load) {
	t.Helper()
	each(t, l.sessions, func(s session) error {
		last := l.acked.versions[s.id][len(s.docs)-1]
		for i, c := range f.clients {
			cached, err := c.Get(ctx, namespace, s.id, nil)
			if err != nil {
				return fmt.Errorf("%s at daemon %d: %w", s.id, i, err)
			}
			strong, err := c.Get(ctx, namespace, s.id, &tiering.GetOptions{Strong: true})
			if err != nil {
				return fmt.Errorf("%s at daemon %d: %w", s.id, i, err)
			}
			if cached.Version != last || strong.Version != last || !sameBytes(cached.Body, s.docs[len(s.docs)-1]) || !sameBytes(strong.Body, cached.Body) {
				return fmt.Errorf("%s at daemon %d: version %d of %s cached, %d strong, %d acknowledged", s.id, i, cached.Version, cached.Tier, strong.Version, last)
			}
		}
		return nil
	})
}

// checkVersions: every acknowledged version is there with its bytes, and no
// other is. What one daemon took is read from the other.
func (f *fleet) checkVersions(ctx context.Context, t *testing.T, l *load, sessions []session, when string) {
	t.Helper()
	began, n := time.Now(), 0
	for _, s := range sessions {
		n += len(s.docs)
	}
	each(t, sessions, func(s session) error {
		for n, v := range l.acked.versions[s.id] {
			got, err := f.clients[1-n%2].Get(ctx, namespace, s.id, &tiering.GetOptions{Version: v})
			if err != nil || !sameBytes(got.Body, s.docs[n]) {
				return fmt.Errorf("%s: %s version %d: %w", when, s.id, v, err)
			}
		}
		h, err := f.clients[0].History(ctx, namespace, s.id, &tiering.HistoryOptions{Limit: 1000})
		if err != nil || len(h.Versions) != len(s.docs) {
			return fmt.Errorf("%s: %s has %d versions, want %d: %w", when, s.id, len(h.Versions), len(s.docs), err)
		}
		return nil
	})
	t.Logf("%s: %d versions read back over HTTP in %v", when, n, time.Since(began).Round(time.Millisecond))
}
