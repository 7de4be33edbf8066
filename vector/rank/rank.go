// Package rank puts the lists of a recall together. All of it is arithmetic on
// numbers that the caller has read, so that every store ranks alike:
//
//	lexical scores -> Spread over the session -> Boost for a named speaker -+
//	                                                                         Fuse -> Final
//	vector similarities ----------------------------------------------------+
//
// Each step is an option whose zero value means the default, and each is left
// out where the memories have no sessions, speakers or vectors.
package rank

import "time"

// Options configure the ranking. The zero value means the defaults; a negative
// number switches its step off.
type Options struct {
	// Next and Previous are the shares of a memory's lexical score that the one
	// after it and the one before it in the same session get: an answer follows
	// its question, and often says little of what it is about. Defaults 0.3 and
	// 0.15.
	Next, Previous float64
	// Speaker multiplies the lexical score of a memory whose speaker the query
	// names. Default 1.25.
	Speaker float64
	// K is the constant of reciprocal rank fusion. Default 60.
	K float64
	// Depth is how many of each list take part in the fusion. Default 100.
	Depth int
	// Recency, Importance and Use are the most that each can add, as a share of
	// the relevance. Defaults 0.10, 0.10 and 0.05.
	Recency, Importance, Use float64
	// HalfLife is the age at which Recency has halved. Default 30 days.
	HalfLife time.Duration
}

// WithDefaults returns o with its zero fields set, and its negative ones at what
// switches the step off.
func (o Options) WithDefaults() Options {
	for _, f := range []struct {
		field          *float64
		standard, none float64
	}{
		{&o.Next, 0.3, 0}, {&o.Previous, 0.15, 0}, {&o.Speaker, 1.25, 1}, {&o.K, 60, 0},
		{&o.Recency, 0.10, 0}, {&o.Importance, 0.10, 0}, {&o.Use, 0.05, 0},
	} {
		switch {
		case *f.field == 0:
			*f.field = f.standard
		case *f.field < 0:
			*f.field = f.none
		}
	}
	if o.Depth <= 0 {
		o.Depth = 100
	}
	if o.HalfLife <= 0 {
		o.HalfLife = 30 * 24 * time.Hour
	}
	return o
}
