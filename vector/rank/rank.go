// Package rank puts the arms of a recall together. All of it is arithmetic on
// numbers that the caller has read, so that every store ranks alike. Rank does
// the whole; its steps are there to be measured one by one:
//
//	lexical scores ------- InContext -+
//	                                   Fuse -> Final
//	vector similarities -- InContext -+
//
// Context is what conversations have: the turns beside a memory (Spread), who
// speaks (Speakers), what the rest of the session is about (Session). Memories
// without any are ranked by themselves. Every step is an option whose zero value
// means the default.
package rank

import "time"

// Options configure the ranking. The zero value means the defaults; a negative
// number switches its step off.
type Options struct {
	// Next and Previous are the shares of a memory's score that the one
	// after it and the one before it in the same session get: an answer follows
	// its question, and often says little of what it is about. Defaults 0.3 and
	// 0.15.
	Next, Previous float64
	// Session is the share of the best score of a session that each of its
	// memories with a score gets: what is said where the matter was discussed is
	// likelier meant. Default 0.3.
	Session float64
	// Speaker multiplies the score of a memory whose speaker the query
	// names. Default 1.25.
	Speaker float64
	// Fusion says how the arms are joined. Default Scores.
	Fusion Fusion
	// K is the constant of reciprocal rank fusion. Default 60.
	K float64
	// Depth is how many of each list Fuse joins, and how many of the nearest are
	// near for Rank: the similarity of the last of them counts as none. Default
	// 100.
	Depth int
	// Recency, Importance and Use are the most that each can add, as a share of
	// the relevance. Defaults 0.10, 0.10 and 0.05.
	Recency, Importance, Use float64
	// HalfLife is the age at which Recency has halved. Default 30 days.
	HalfLife time.Duration
}

// WithDefaults returns o with its zero fields set. What is negative stays so: it
// is off.
func (o Options) WithDefaults() Options {
	for _, f := range []struct {
		field    *float64
		standard float64
	}{
		{&o.Next, 0.3}, {&o.Previous, 0.15}, {&o.Session, 0.3}, {&o.Speaker, 1.25}, {&o.K, 60},
		{&o.Recency, 0.10}, {&o.Importance, 0.10}, {&o.Use, 0.05},
	} {
		if *f.field == 0 {
			*f.field = f.standard
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

// on is an option's value, 0 where it is off.
func on(x float64) float64 { return max(x, 0) }
