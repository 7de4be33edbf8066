package scale

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	callers  = 4
	callRate = 240 // calls a second of all callers together: a light load
	hotKeys  = 500 // documents that are read again and again
	hotGet   = "get, hot has it"
	warmGet  = "get, hot has lost it"
	anyPut   = "put"
)

// load makes calls of all kinds at an even rate for a while, and returns how long
// they took, by kind. A get counts as what it was: which tier served it tells.
func (s *store) load(lasts time.Duration, seed uint64) map[string][]time.Duration {
	s.t.Helper()
	took := map[string][]time.Duration{}
	var mu sync.Mutex
	ctx, cancel := context.WithTimeout(s.t.Context(), lasts)
	defer cancel()
	s.each(ctx, callRate, seed, func(ctx context.Context, r *rand.Rand) error {
		kind := anyPut
		var d time.Duration
		var tier string
		var err error
		switch r.IntN(3) {
		case 0:
			d, err = s.put(ctx, r.IntN(s.keys), r)
		case 1:
			d, tier, err = s.get(ctx, r.IntN(s.keys))
		default:
			d, tier, err = s.get(ctx, r.IntN(min(hotKeys, s.keys)))
		}
		switch tier {
		case "hot":
			kind = hotGet
		case "warm":
			kind = warmGet
		}
		mu.Lock()
		defer mu.Unlock()
		took[kind] = append(took[kind], d)
		return err
	})
	return took
}

// warmUp makes hot hold what is read again and again.
func (s *store) warmUp() {
	s.t.Helper()
	for n := range min(hotKeys, s.keys) {
		if _, _, err := s.get(s.t.Context(), n); err != nil {
			s.t.Fatal(err)
		}
	}
}

// each calls do at an even rate until ctx ends, from several callers, and lets the
// last calls end. One that fails fails the test.
func (s *store) each(ctx context.Context, rate int, seed uint64, do func(context.Context, *rand.Rand) error) {
	errs := make([]error, callers)
	var all sync.WaitGroup
	for w := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			every := time.NewTicker(time.Second * callers / time.Duration(rate))
			defer every.Stop()
			for errs[w] == nil {
				select {
				case <-every.C:
					errs[w] = do(s.t.Context(), r)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Errorf("a call failed: %v", err)
	}
}

// vitals are what the daemon says of itself.
type vitals struct {
	resident  float64 // MB
	processor float64 // seconds
	waiting   float64 // changes that are not archived
	demoted   float64 // documents, since it started
}

func (s *store) vitals() vitals {
	s.t.Helper()
	res, err := s.plain.Get(s.daemon.URL() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 {
			if n, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
				found[lines.Text()[:at]] = n
			}
		}
	}
	if lines.Err() != nil || res.StatusCode != http.StatusOK || found["process_resident_memory_bytes"] == 0 {
		s.t.Fatalf("the metrics answered %d: %v", res.StatusCode, lines.Err())
	}
	v := vitals{
		resident: found["process_resident_memory_bytes"] / 1e6, processor: found["process_cpu_seconds_total"],
		waiting: found["tierd_archive_lag_entries"] + found["tierd_feed_lag_entries"],
	}
	for name, n := range found {
		if strings.HasPrefix(name, "tierd_moves_total{") && strings.Contains(name, `move="demote"`) && strings.Contains(name, `outcome="done"`) {
			v.demoted = n
		}
	}
	return v
}

// archived waits until nothing waits for the archive.
func (s *store) archived() {
	s.t.Helper()
	for ends := time.Now().Add(30 * time.Minute); s.vitals().waiting > 0; time.Sleep(pollEvery) {
		if time.Now().After(ends) {
			s.t.Fatalf("the archive does not come to its end: %+v", s.vitals())
		}
	}
}

// quantile is what a share of all is no longer than; 0 of none.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[min(len(all)-1, int(share*float64(len(all))))]
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
