package warm

import "context"

// Remote is a store on a server that can go away while the program runs.
type Remote interface {
	// Away reports whether the server is known not to answer. While it is away
	// calls fail at once, as unavailable, and those that were on their way have
	// ended; the store finds out by itself when it is back.
	Away() bool
}

// Settler is a store in which a committed change may wait for its place in the
// feed.
type Settler interface {
	// Settle gives everything that was committed before the call its place.
	Settle(ctx context.Context) error
	// Unsettled is how many changes wait.
	Unsettled(ctx context.Context) (int64, error)
}

// As returns s, or the store that it wraps, as a T: a Remote, say. A wrapper
// says what it wraps by a method Unwrap() Store.
func As[T any](s Store) (t T, ok bool) {
	for s != nil {
		if t, ok = s.(T); ok {
			return t, true
		}
		wrapper, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			break
		}
		s = wrapper.Unwrap()
	}
	return t, false
}
