package fault

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Point is the moment of an exchange at which a script is asked.
type Point int

// The points, in the order in which an exchange passes them.
const (
	Sent  Point = iota // the request is forwarded whole; no reply to it passes before the script was asked
	Reply              // the reply came from the server; the client has nothing of it
)

// Event is what a script decides on.
type Event struct {
	Point Point
	// Text says what is asked for: the SQL that a batch executes, "PUT /path", ""
	// where nothing is known. A reply has the text of its request.
	Text string
}

// Kind is what a proxy does to a connection.
type Kind string

// The kinds. One that ends a direction or a connection takes with it what would
// have come after: TCP has no holes, and neither has what the proxy does.
const (
	Pass      Kind = ""
	Half      Kind = "half"       // half of the message arrives, then the connection ends
	Cut       Kind = "cut"        // the connection ends in order (FIN) before the message
	Reset     Kind = "reset"      // the connection is reset (RST) before the message
	HalfClose Kind = "half-close" // the direction of the message ends (FIN) before a reply, or behind a request; the other one goes on
	Hole      Kind = "black hole" // nothing arrives any more, in either direction, and the connection stays open
	Drip      Kind = "drip"       // the message arrives one byte a second
	Slow      Kind = "slow"       // the message arrives half a second late
)

// How late what is late comes.
const (
	dripEvery = time.Second
	slowBy    = 500 * time.Millisecond
)

// silences reports whether no reply passes behind a request that k was done to.
func (k Kind) silences() bool { return k.ends() || k == Hole }

// ends reports whether k ends a connection.
func (k Kind) ends() bool { return k == Half || k == Cut || k == Reset }

// Script decides what happens at an event. It is called by several goroutines.
type Script func(Event) Kind

// Match chooses events.
type Match func(Event) bool

// At matches a point whose text holds any of parts, or any text when there are
// none.
func At(p Point, parts ...string) Match {
	return func(e Event) bool {
		return e.Point == p && (len(parts) == 0 || containsAny(e.Text, parts))
	}
}

// Sometimes does one of kinds to about one in every events that match. Which
// ones, counted in the order in which they come, follows from seed alone.
func Sometimes(seed uint64, every int, m Match, kinds ...Kind) Script {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, uint64(every)))
	return func(e Event) Kind {
		if !m(e) {
			return Pass
		}
		mu.Lock()
		defer mu.Unlock()
		hit, which := random.IntN(every) == 0, random.IntN(len(kinds))
		if !hit {
			return Pass
		}
		return kinds[which]
	}
}

// Nth does k to the nth event that matches, from 1.
func Nth(n int64, m Match, k Kind) Script {
	var seen atomic.Int64
	return func(e Event) Kind {
		if !m(e) || seen.Add(1) != n {
			return Pass
		}
		return k
	}
}

// First asks scripts in turn until one does not pass.
func First(scripts ...Script) Script {
	return func(e Event) Kind {
		for _, s := range scripts {
			if k := s(e); k != Pass {
				return k
			}
		}
		return Pass
	}
}
