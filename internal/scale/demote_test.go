package scale

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
)

// How demotion is measured.
const (
	putRate   = 120 // a second, while documents are demoted and while they are not
	pollEvery = 250 * time.Millisecond
	lull      = 3 * time.Second // without a move: the pass is over
	patience  = 5 * time.Minute // until a pass begins, or ends
)

// pass is what happened to puts while documents were demoted, and while not.
type pass struct {
	during, beside []time.Duration // of puts
	moved          float64         // documents
	over           time.Duration   // in which they moved
	resident       float64         // MB, at most
}

// demotion makes all documents old and young again in turns, each for as long as
// turn says, and puts at an even rate meanwhile. A put counts by whether documents
// moved in the quarter of a second in which it began. demoted is how many had before.
func (s *store) demotion(turns int, turn time.Duration, demoted float64) (p pass) {
	s.t.Helper()
	w := &watch{store: s, pass: &p, last: demoted}
	ctx, stop := context.WithCancel(s.t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		s.each(ctx, putRate, 1, func(ctx context.Context, r *rand.Rand) error {
			began := time.Now()
			took, err := s.put(ctx, r.IntN(s.keys), r)
			w.add(began, took)
			return err
		})
	})
	defer writers.Wait()
	defer stop()
	for range turns {
		s.policy(tiering.Policy{DemoteAfter: old})
		w.until("documents move", func() bool { return w.moving > 0 && (w.moving >= turn || w.still >= lull) })
		s.policy(tiering.Policy{DemoteAfter: young})
		w.until("no document moves", func() bool { return w.still > 0 && w.still >= turn })
	}
	return p
}

// watch tells puts beside moves from puts beside none.
type watch struct {
	*store
	pass          *pass
	last          float64       // documents demoted when it was looked at last
	moving, still time.Duration // in the phase that runs; still since the last move

	mu   sync.Mutex
	puts []sample // since it was looked at last
}

// sample is one put.
type sample struct {
	at   time.Time
	took time.Duration
}

func (w *watch) add(began time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts = append(w.puts, sample{began, took})
}

// until looks at the daemon again and again until over holds.
func (w *watch) until(what string, over func() bool) {
	w.t.Helper()
	w.moving, w.still = 0, 0
	for ends := time.Now().Add(patience); !over(); {
		if time.Now().After(ends) {
			w.t.Fatalf("it took more than %v until %s", patience, what)
		}
		began := time.Now()
		time.Sleep(pollEvery)
		w.look(time.Since(began))
	}
}

// look sorts the puts that ended since the last look.
func (w *watch) look(slot time.Duration) {
	v := w.vitals()
	w.mu.Lock()
	puts := w.puts
	w.puts = nil
	w.mu.Unlock()
	moved := v.demoted - w.last
	w.last = v.demoted
	w.pass.resident = max(w.pass.resident, v.resident)
	to := &w.pass.beside
	if moved > 0 {
		to = &w.pass.during
		w.moving, w.still = w.moving+slot, 0
		w.pass.moved, w.pass.over = w.pass.moved+moved, w.pass.over+slot
	} else {
		w.still += slot
	}
	for _, p := range puts {
		*to = append(*to, p.took)
	}
}
