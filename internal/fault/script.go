package fault

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Point is the moment of an exchange at which a script is asked.
type Point int

// The points, in the order in which an exchange passes them.
const (
	Request Point = iota // a request came from the client; the server has nothing of it
	Sent                 // the request was forwarded whole
	Reply                // the reply came from the server; the client has nothing of it
)

// Event is what a script decides on.
type Event struct {
	Point Point
	// Conn counts connections from 1, N the exchanges of this connection.
	Conn, N int
	// Text says what is asked for: the SQL that a batch executes, the Redis
	// command in capitals, "PUT /path", "" where nothing is known. A reply has the
	// text of its request.
	Text string
}

// Kind is what a proxy does to a connection.
type Kind string

// The kinds. One that ends a direction or a connection takes with it what would
// have come after: TCP has no holes, and neither has what the proxy does.
const (
	Pass      Kind = ""
	Slow      Kind = "slow"       // waits Action.Wait, then passes
	Trickle   Kind = "trickle"    // passes one byte every Action.Wait, from here on
	Drop      Kind = "drop"       // this message and all after it in its direction never arrive; the connection stays open
	BlackHole Kind = "black hole" // nothing arrives any more in either direction; the connection stays open
	Half      Kind = "half"       // half of the message arrives, then the connection ends
	HalfClose Kind = "half-close" // the direction of the message ends before it; the other goes on
	Cut       Kind = "cut"        // the connection ends in order (FIN) before the message
	Reset     Kind = "reset"      // the connection is reset (RST) before the message
)

// Action is the answer of a script. The zero value passes the message on.
type Action struct {
	Kind Kind
	// Wait is for Slow and Trickle; 0: a second.
	Wait time.Duration
}

// Script decides what happens at an event. It is called by several goroutines.
type Script func(Event) Action

// Match chooses events.
type Match func(Event) bool

// At matches a point whose text holds any of parts, or any text when there are
// none.
func At(p Point, parts ...string) Match {
	return func(e Event) bool {
		return e.Point == p && (len(parts) == 0 || containsAny(e.Text, parts))
	}
}

// Nth does a to the nth event that matches, counted from 1, and passes the rest.
func Nth(n int, m Match, a Action) Script {
	var mu sync.Mutex
	seen := 0
	return func(e Event) Action {
		if !m(e) {
			return Action{}
		}
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen != n {
			return Action{}
		}
		return a
	}
}

// Sometimes does one of actions to about one in every events that match. Which
// ones, counted in the order in which they come, follows from seed alone.
func Sometimes(seed uint64, every int, m Match, actions ...Action) Script {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, uint64(every)))
	return func(e Event) Action {
		if !m(e) {
			return Action{}
		}
		mu.Lock()
		defer mu.Unlock()
		hit, which := random.IntN(every) == 0, random.IntN(len(actions))
		if !hit {
			return Action{}
		}
		return actions[which]
	}
}

// First asks scripts in turn until one does not pass.
func First(scripts ...Script) Script {
	return func(e Event) Action {
		for _, s := range scripts {
			if a := s(e); a.Kind != Pass {
				return a
			}
		}
		return Action{}
	}
}
