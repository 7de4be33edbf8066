package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"time"
)

// sample is what one contestant did in one slice.
type sample struct {
	n        int
	rate     float64 // operations a second
	p50, p99 time.Duration
	spent    spent         // by all of its operations
	over     time.Duration // between the readings that spent comes from
}

// micros is processor time an operation, in microseconds.
func (s sample) micros() float64 { return s.spent.total() * 1e6 / float64(max(1, s.n)) }

func (s sample) String() string {
	each := 1e6 / float64(max(1, s.n))
	return fmt.Sprintf("%s/s p50 %s p99 %s cpu %.0f+%.0f+%.0f us", thousands(s.rate), short(s.p50), short(s.p99),
		s.spent.own*each, s.spent.postgres*each, s.spent.redis*each)
}

// errNoMore is what an op answers that has nothing left to do: its worker stops.
var errNoMore = errors.New("nothing is left")

// slice runs op in a closed loop from a number of workers for about d. The
// first error ends it, but for errNoMore. name labels what it costs in a processor profile.
func (b *bench) slice(ctx context.Context, name string, workers int, d time.Duration, op func(ctx context.Context, worker, i int) error) (sample, error) {
	return b.settled(ctx, name, workers, d, op, nil)
}

// settled is slice with what the workers leave behind, on their time.
func (b *bench) settled(ctx context.Context, name string, workers int, d time.Duration, op func(ctx context.Context, worker, i int) error, settle func(context.Context) error) (sample, error) {
	runtime.GC() // nobody pays for the garbage of the one before
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	took := make([][]time.Duration, workers)
	var wg sync.WaitGroup
	asked := time.Now()
	before := b.processors.read()
	began := time.Now()
	for w := range workers {
		wg.Go(func() {
			pprof.Do(ctx, pprof.Labels("contestant", name), func(ctx context.Context) {
				own := make([]time.Duration, 0, 1<<12)
				for i, at := 0, time.Now(); ctx.Err() == nil && at.Sub(began) < d; i++ {
					if err := op(ctx, w, i); errors.Is(err, errNoMore) {
						break
					} else if err != nil {
						fail(fmt.Errorf("%s: %w", name, err))
						break
					}
					now := time.Now()
					own = append(own, now.Sub(at))
					at = now
				}
				took[w] = own
			})
		})
	}
	wg.Wait()
	if settle != nil && ctx.Err() == nil {
		if err := settle(ctx); err != nil {
			fail(fmt.Errorf("%s: %w", name, err))
		}
	}
	elapsed := time.Since(began)
	over := time.Since(asked) // each program is read again after about as long
	after := b.processors.read()
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	s := sample{n: len(all), rate: float64(len(all)) / elapsed.Seconds(), spent: b.processors.between(before, after), over: over}
	if s.n > 0 {
		s.p50, s.p99 = all[s.n/2], all[min(s.n-1, s.n*99/100)]
	}
	return s, nil
}

// ratios are x over y, slice by slice.
func ratios(x, y []sample, of func(sample) float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = of(x[i]) / of(y[i])
	}
	return out
}

func rate(s sample) float64   { return s.rate }
func thrift(s sample) float64 { return 1 / max(s.micros(), 1e-9) }
func p50(s sample) float64    { return s.p50.Seconds() }
func p99(s sample) float64    { return s.p99.Seconds() }

// middle is the sample of median rate.
func middle(of []sample) sample {
	sorted := slices.SortedFunc(slices.Values(of), func(a, b sample) int {
		if a.rate < b.rate {
			return -1
		}
		return 1
	})
	return sorted[len(sorted)/2]
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func short(d time.Duration) string {
	switch {
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// thousands writes a count with a comma before every three digits.
func thousands(x float64) string {
	n := int64(x + 0.5)
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(float64(n/1000)) + fmt.Sprintf(",%03d", n%1000)
}
