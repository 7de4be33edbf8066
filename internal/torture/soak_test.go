package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// What a daemon under a steady load may do.
const (
	soakSlope  = 1.0              // MB an hour that memory grows by, once a quarter of the time is over
	soakLag    = 30 * time.Second // until a change is in the feed and in both buckets, 99 of 100 times
	soakHOT    = 0.9              // of the updates of heads that stay on their page
	soakRate   = 150              // calls a second
	soakJudges = time.Hour        // from here on a slope says something: below it is what the heap does between collections
)

// TestSoak loads a daemon on real servers steadily for as long as SOAK says, and
// compares what it holds with what it held before.
func TestSoak(t *testing.T) {
	text := os.Getenv("SOAK")
	if text == "" {
		t.Skip("SOAK says for how long: make soak TIME=1h")
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	schema, name := servicestest.Schema(t)
	d := daemontest.New(t, daemontest.Build(t), &daemontest.Options{Env: []string{
		"TIERD_HOT=" + servicestest.Variable(t, "TIERD_HOT"), "TIERD_WARM=" + schema,
		"TIERD_COLD=" + servicestest.Bucket(t, servicestest.Variable(t, "TIERD_COLD"), false), "TIERD_BACKUP=" + servicestest.Bucket(t, servicestest.Variable(t, "TIERD_BACKUP"), false),
	}})
	d.MustStart()
	s := &soak{t: t, daemon: d}
	s.load(min(lasts/10, 30*time.Second)) // pools, caches and namespaces are there before anything is counted
	before := s.quiet(func(vitals) bool { return true })
	s.lags, s.archived = nil, nil
	s.calls.Store(0)
	updates := func(which string) int64 {
		return servicestest.Number(t, schema, `SELECT `+which+` FROM pg_stat_user_tables WHERE relname = 'head' AND schemaname = '`+name+`'`)
	}
	hot, all := updates("n_tup_hot_upd"), updates("n_tup_upd")
	s.load(lasts)
	after := s.quiet(func(v vitals) bool { return v.within(before) })
	share := float64(updates("n_tup_hot_upd")-hot) / float64(max(1, updates("n_tup_upd")-all))

	live := s.trend(lasts, func(m sample) float64 { return m.live })
	own := s.trend(lasts, func(m sample) float64 { return m.own })
	lag, archive := p99(s.lags), p99(s.archived)
	t.Logf("\n%v, %d calls, %d failed\nlive heap: %v\nresident memory without files: %v\n%-12s %8s %8s\n%-12s %8d %8d\n%-12s %8d %8d\n%-12s %8d %8d\n"+
		"p99 until a change is in the feed %v, of the age of what is not archived %v\nHOT updates of heads %.1f%%",
		lasts, s.calls.Load(), s.failed.Load(), live, own, "", "start", "end", "goroutines", before.goroutines, after.goroutines,
		"descriptors", before.descriptors, after.descriptors, "connections", before.connections, after.connections,
		lag.Round(time.Millisecond), archive.Round(time.Millisecond), 100*share)
	for what, holds := range map[string]bool{
		"calls were made, and none failed":                      s.calls.Load() > 0 && s.failed.Load() == 0,
		"the live heap stays":                                   lasts < soakJudges || !live.exceeds(soakSlope),
		"resident memory stays":                                 lasts < soakJudges || !own.exceeds(soakSlope),
		"goroutines, descriptors and connections are as before": after.within(before),
		"a change is soon in the feed":                          len(s.lags) > 0 && lag < soakLag,
		"a change is soon in both buckets":                      len(s.archived) > 0 && archive < soakLag,
		"updates of heads stay on their pages":                  share >= soakHOT,
	} {
		if !holds {
			t.Errorf("it does not hold that %s", what)
		}
	}
	if lasts < soakJudges {
		t.Logf("the growth of memory is judged from %v on", soakJudges)
	}
}

type soak struct {
	t             *testing.T
	daemon        *daemontest.Daemon
	calls, failed atomic.Int64

	mu             sync.Mutex
	memory         []sample
	lags, archived []time.Duration
}

// sample is the memory at a moment of the load, in MB.
type sample struct {
	at        time.Duration
	live, own float64
}

// load makes calls at an even rate for a while, and looks at the daemon meanwhile.
func (s *soak) load(lasts time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), lasts)
	defer cancel()
	c := dial(s.t, s.daemon.URL(), patience)
	defer c.Close(s.t.Context())
	if err := prepare(ctx, c); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	s.memory = nil
	var all sync.WaitGroup
	const workers = 8
	for n := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			every := time.NewTicker(time.Second * workers / soakRate)
			defer every.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-every.C:
				}
				err := s.call(ctx, c, r)
				if ctx.Err() != nil {
					return
				}
				s.calls.Add(1)
				if err != nil {
					s.failed.Add(1)
					s.t.Logf("a call failed: %v", err)
				}
			}
		})
	}
	all.Go(func() { s.probe(ctx, c) })
	all.Go(func() {
		for ctx.Err() == nil {
			if v, err := s.vitals(); err == nil {
				s.mu.Lock()
				s.memory = append(s.memory, sample{time.Since(began), v.live, v.own})
				s.archived = append(s.archived, v.lag)
				s.mu.Unlock()
			}
			pause(ctx, time.Second)
		}
	})
	all.Wait()
}

// call is one of what agents do, on as many keys as there always are.
func (s *soak) call(ctx context.Context, c *client.Client, r *rand.Rand) error {
	id := fmt.Sprintf("soak/%d", r.IntN(3000))
	var err error
	switch n := r.IntN(100); {
	case n < 40:
		_, err = c.Get(ctx, documents, id, nil)
	case n < 70:
		_, err = c.Put(ctx, documents, id, fmt.Appendf(nil, `{"n":%d,"pad":%q}`, r.Int(), strings.Repeat("x", r.IntN(1500))), nil)
	case n < 82:
		_, err = c.Apply(ctx, documents, "soak/counters/"+id, []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil)
	case n < 92:
		_, err = c.Append(ctx, lines, fmt.Sprintf("soak/%d", r.IntN(300)), []json.RawMessage{json.RawMessage(`{"line":"of a log"}`)}, nil)
	case n < 95:
		_, err = c.Delete(ctx, documents, id, nil)
	case n < 98:
		_, err = c.List(ctx, documents, &tiering.ListOptions{Prefix: "soak/1", Limit: 50})
	default:
		_, err = c.Get(ctx, documents, id, &tiering.GetOptions{Strong: true})
	}
	if tiering.CodeOf(err) == tiering.CodeNotFound {
		return nil
	}
	return err
}

// probe measures how long a change takes until a watcher has it, again and again.
func (s *soak) probe(ctx context.Context, c *client.Client) {
	w, err := c.Watch(ctx, &tiering.WatchOptions{Namespace: documents, Prefix: "probe/"})
	if err != nil {
		s.t.Errorf("watch: %v", err)
		return
	}
	defer w.Close()
	for ctx.Err() == nil {
		began := time.Now()
		if _, err := c.Put(ctx, documents, "probe/1", []byte(`{}`), nil); err != nil {
			continue
		}
		if _, err := w.Next(ctx); err != nil {
			if ctx.Err() == nil {
				s.t.Errorf("watch: %v", err)
			}
			return
		}
		s.mu.Lock()
		s.lags = append(s.lags, time.Since(began))
		s.mu.Unlock()
		pause(ctx, time.Second)
	}
}

// pause waits, for no longer than ctx lasts.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// trendWindows is into how many windows a trend divides its time. Their medians say
// nothing of the collector's phase, nor of the run that the archive holds just then.
const trendWindows = 24

// trend is the growth of what samples hold, after the first quarter of the load.
func (s *soak) trend(lasts time.Duration, of func(sample) float64) trend {
	from := lasts / 4
	var windows [trendWindows][]float64
	for _, m := range s.memory {
		if n := int((m.at - from) * trendWindows / (lasts - from)); m.at >= from && n < trendWindows {
			windows[n] = append(windows[n], of(m))
		}
	}
	var hours, mb []float64
	for n, all := range windows {
		if len(all) > 0 {
			slices.Sort(all)
			hours = append(hours, (from + (lasts-from)*time.Duration(2*n+1)/(2*trendWindows)).Hours())
			mb = append(mb, all[len(all)/2])
		}
	}
	return fit(hours, mb)
}

// p99 is what one of a hundred is longer than.
func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)*99/100]
}
