package rank

import (
	"math"
	"time"
)

// Signals are what a memory's final score is made of besides its relevance.
type Signals struct {
	// Ageless memories do not age, such as facts: they count as made just now.
	Ageless  bool
	Created  time.Time // zero: not known, and infinitely long ago
	LastUsed time.Time // last confirmed use, not retrieval; zero: never
	Uses     int64     // confirmed uses
	// Importance is 0 to 1; what lies outside counts as the nearer of the two.
	Importance float64
}

// Parts is a final score with everything it is made of:
// Total = Relevance x (1 + Recency + Importance + Use).
type Parts struct {
	Total      float64
	Relevance  float64 // share of the best relevance of the answer, 0 to 1
	Recency    float64 // 0 to Options.Recency
	Importance float64 // 0 to Options.Importance
	Use        float64 // 0 to Options.Use
}

// Final weighs a relevance, which is positive, by the memory's signals. Best is
// the highest relevance of the answer. What the signals add is bounded, so that
// they order memories of like relevance and never bring up one that has little
// to do with the query. A time after now counts as now.
func Final(relevance, best float64, s Signals, now time.Time, o Options) Parts {
	o = o.WithDefaults()
	p := Parts{
		Recency:    on(o.Recency) * s.recency(now, o.HalfLife),
		Importance: on(o.Importance) * clamp(s.Importance),
		Use:        on(o.Use) * min(1, math.Log1p(float64(max(s.Uses, 0)))/math.Log(21)),
	}
	if best > 0 {
		p.Relevance = clamp(relevance / best)
	}
	p.Total = p.Relevance * (1 + p.Recency + p.Importance + p.Use)
	return p
}

// recency halves with every half-life since the later of creation and last use.
func (s Signals) recency(now time.Time, halfLife time.Duration) float64 {
	if s.Ageless {
		return 1
	}
	since := s.Created
	if s.LastUsed.After(since) {
		since = s.LastUsed
	}
	if since.IsZero() {
		return 0
	}
	age := max(now.Sub(since), 0)
	return math.Exp2(-float64(age) / float64(halfLife))
}

// clamp returns x within 0 and 1; what is no number is 0.
func clamp(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}
