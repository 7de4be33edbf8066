package scale

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/tiering"
)

// shape is how much is measured.
type shape struct {
	keys     int // of the large store; the small one has a tenth
	embedded bool
	rounds   int           // turns that the stores take
	window   time.Duration // of a turn
	idle     time.Duration // without a call
	restarts int
	lists    int
	turns    int // in which documents are demoted
	turn     time.Duration
}

// TestScale is "make bench-scale": KEYS says how many documents the large store
// has, TIERS=embedded that no servers are used.
func TestScale(t *testing.T) {
	text := os.Getenv("SCALE_KEYS")
	if text == "" {
		t.Skip("runs for half an hour: make bench-scale")
	}
	keys, err := strconv.Atoi(text)
	if err != nil || keys < 10_000 {
		t.Fatalf("SCALE_KEYS %q: use a number of at least 10000", text)
	}
	f := measure(t, shape{
		keys: keys, embedded: os.Getenv("SCALE_TIERS") == "embedded", rounds: 10, window: 4 * time.Second, idle: 2 * time.Minute,
		restarts: 5, lists: 200, turns: 4, turn: 20 * time.Second,
	})
	t.Log("\n" + f.String())
}

// Everything is measured, and nothing is judged: so few documents in so short a
// time say nothing.
func TestEveryFigureIsMeasured(t *testing.T) {
	f := measure(t, shape{keys: 1500, rounds: 1, window: 300 * time.Millisecond, restarts: 1, lists: 3})
	if len(f.rows) != 15 {
		t.Errorf("%d rows:\n%s", len(f.rows), f)
	}
	for _, r := range f.rows {
		// Whether a put falls into so short a pass is chance, and hot has lost nothing yet.
		if chance := r.what == passRow || strings.HasSuffix(r.what, warmGet) || strings.HasSuffix(r.what, "in gets from warm"); r.large == "" || r.measured <= 0 && !chance {
			t.Errorf("a row without a figure: %+v", r)
		}
	}
}

// measure fills a store, and one of a tenth beside it, and measures both.
func measure(t *testing.T, o shape) *figures {
	f := &figures{shape: o, began: time.Now(), loadBefore: machineLoad()}
	say := func(format string, args ...any) {
		t.Helper()
		t.Logf("%s %s", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
	binary := daemontest.Build(t)
	small, large := openStore(t, binary, "small", o.embedded, o.keys/10), openStore(t, binary, "large", o.embedded, o.keys)
	for _, s := range []*store{small, large} {
		took := s.fill()
		say("%s: %d documents written in %v, %.0f/s", s.name, s.keys, took.Round(time.Millisecond), float64(s.keys)/took.Seconds())
	}
	if o.turns > 0 {
		small.archived()
		large.archived()
		say("archived; resident %.1f and %.1f MB after the fill", small.vitals().resident, large.vitals().resident)
	}
	f.afterFill = [2]float64{small.vitals().resident, large.vitals().resident}

	f.starts = restarts(o.restarts, small, large)
	say("restarted")
	f.sideBySide(o, small, large)
	say("calls measured")
	f.idle(o, small, large)
	f.lists(o, large)
	say("lists measured")
	if o.turns > 0 {
		f.pass = large.demotion(o.turns, o.turn, large.vitals().demoted)
	} else {
		// The sweep comes once a minute; the first with the daemon's start.
		large.policy(tiering.Policy{DemoteAfter: old})
		large.daemon.Stop()
		large.daemon.MustStart()
		f.pass = large.demotion(1, 0, 0)
	}
	say("demotion measured")
	f.judge()
	f.took, f.loadAfter = time.Since(f.began).Round(time.Second), machineLoad()
	return f
}

// restarts stops or kills each store's daemon in turns, and returns how long each
// takes to serve again.
func restarts(n int, stores ...*store) (starts [2][]time.Duration) {
	for i := range n {
		for which, s := range stores {
			if i%2 == 0 {
				s.daemon.Stop()
			} else {
				s.daemon.Kill()
			}
			starts[which] = append(starts[which], s.daemon.MustStart())
		}
	}
	return starts
}

// sideBySide loads both stores in turns.
func (f *figures) sideBySide(o shape, small, large *store) {
	for round := range o.rounds {
		for which, s := range []*store{small, large} {
			s.warmUp()
			took := s.load(o.window, uint64(round))
			for kind, all := range took {
				if f.calls[which] == nil {
					f.calls[which] = map[string][]window{}
				}
				f.calls[which][kind] = append(f.calls[which][kind], window{quantile(all, 0.5), quantile(all, 0.99), len(all)})
			}
			f.resident[which] = max(f.resident[which], s.vitals().resident)
		}
	}
}

// idle measures the processor time of a daemon that nobody calls.
func (f *figures) idle(o shape, small, large *store) {
	if o.idle == 0 {
		return
	}
	for which, s := range []*store{small, large} {
		before := s.vitals().processor
		began := time.Now()
		time.Sleep(o.idle / 2)
		f.idles[which] = (s.vitals().processor - before) / time.Since(began).Seconds()
	}
}

// lists reads pages of 1,000 and documents in turns, alone.
func (f *figures) lists(o shape, s *store) {
	ctx := s.t.Context()
	deep := s.middle()
	s.warmUp()
	var hot, lost, first, middle []time.Duration
	for n := range o.lists {
		a, tier, err := s.get(ctx, n%min(hotKeys, s.keys))
		if err == nil && tier == "hot" {
			hot = append(hot, a)
		}
		b, err2 := a, err
		for i := range 5 { // one that hot has lost: most of so many
			if b, tier, err2 = s.get(ctx, (s.keys/2+n*613+i)%s.keys); err2 != nil || tier == "warm" {
				break
			}
		}
		c, err3 := s.list(ctx, "")
		d, err4 := s.list(ctx, deep)
		for _, err := range []error{err, err2, err3, err4} {
			if err != nil {
				s.t.Fatal(err)
			}
		}
		lost, first, middle = append(lost, b), append(first, c), append(middle, d)
	}
	f.hot, f.lost, f.first, f.middle = quantile(hot, 0.5), quantile(lost, 0.5), quantile(first, 0.5), quantile(middle, 0.5)
}
