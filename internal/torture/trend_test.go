package torture

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// trend is a line through figures over hours, by least squares.
type trend struct {
	first, last float64 // figures
	slope       float64 // an hour
	give        float64 // the slope's standard error
}

// fit needs three points or more; of fewer it knows no slope.
func fit(hours, y []float64) (t trend) {
	if len(y) == 0 {
		return trend{give: math.Inf(1)}
	}
	t.first, t.last, t.give = y[0], y[len(y)-1], math.Inf(1)
	n := float64(len(y))
	var mx, my float64
	for i := range y {
		mx, my = mx+hours[i]/n, my+y[i]/n
	}
	var xx, xy, left float64
	for i := range y {
		xx, xy = xx+(hours[i]-mx)*(hours[i]-mx), xy+(hours[i]-mx)*(y[i]-my)
	}
	if len(y) < 3 || xx == 0 {
		return t
	}
	t.slope = xy / xx
	for i := range y {
		d := y[i] - my - t.slope*(hours[i]-mx)
		left += d * d
	}
	t.give = math.Sqrt(left / (n - 2) / xx)
	return t
}

// exceeds reports whether the figures grow by more than most an hour, and would not
// seem to by chance but one time in forty.
func (t trend) exceeds(most float64) bool { return t.slope-2*t.give > most }

func (t trend) String() string {
	return fmt.Sprintf("%.1f MB at first, %.1f MB at last, %+.1f MB/h after the first quarter, give or take %.1f", t.first, t.last, t.slope, 2*t.give)
}

func TestATrendSeesALeakThroughNoise(t *testing.T) {
	for _, c := range []struct {
		name        string
		leak, noise float64 // MB an hour; MB
		exceeds     bool
	}{
		{"nothing", 0, 0, false},
		{"noise alone", 0, 2, false},
		{"a slow leak below the bound", 0.5, 0.2, false},
		{"a leak", 5, 0.5, true},
		{"a leak in noise", 12, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var hours, mb []float64
			for n := range trendWindows {
				h := 0.25 + 0.75*float64(n)/trendWindows
				hours, mb = append(hours, h), append(mb, 30+c.leak*h+c.noise*(2*r.Float64()-1))
			}
			if got := fit(hours, mb); got.exceeds(1) != c.exceeds {
				t.Errorf("exceeds 1 MB/h: %t, want %t: %v", !c.exceeds, c.exceeds, got)
			}
		})
	}
}

func TestATrendOfTooFewFiguresSaysNothing(t *testing.T) {
	for n := range 3 {
		if got := fit([]float64{1, 2, 3}[:n], []float64{1, 50, 100}[:n]); got.exceeds(1) {
			t.Errorf("of %d figures: %v", n, got)
		}
	}
}
