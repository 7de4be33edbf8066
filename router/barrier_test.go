package router

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// patience bounds every wait of a test: what takes longer hangs.
const patience = 20 * time.Second

// errKilled is what a call answers whose caller died before it: nothing ran.
var errKilled = errors.New("killed before the call")

// gates stand before and behind the calls to the tiers. A call is named
// "hot.Set", or "hot.Set/after" once it ran; calls for tierd's own documents
// pass unseen.
type gates struct {
	mu     sync.Mutex
	holds  map[string][]*hold
	made   []*hold
	faults map[string]func() error
	every  func(call string) error
	seen   map[string]int
}

func newGates() *gates {
	return &gates{holds: map[string][]*hold{}, faults: map[string]func() error{}, seen: map[string]int{}}
}

// hold stops one call at its gate.
type hold struct {
	call string
	at   chan struct{}
	open chan struct{}
	once sync.Once
}

// hold stops the next call of that name.
func (g *gates) hold(call string) *hold {
	h := &hold{call: call, at: make(chan struct{}), open: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds[call] = append(g.holds[call], h)
	g.made = append(g.made, h)
	return h
}

// releaseAll lets everything go on, when a test ends early.
func (g *gates) releaseAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.made {
		h.release()
	}
}

// reached waits until the call has come.
func (h *hold) reached(t testing.TB) {
	t.Helper()
	select {
	case <-h.at:
	case <-time.After(patience):
		t.Fatalf("%s was never called", h.call)
	}
}

// release lets the call go on.
func (h *hold) release() { h.once.Do(func() { close(h.open) }) }

// fail makes every call of that name fail with what err returns, where that is
// not nil; a nil err lets them pass again.
func (g *gates) fail(call string, err func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults[call] = err
}

// kill makes the next call of that name fail, once.
func (g *gates) kill(call string) {
	var once sync.Once
	g.fail(call, func() (err error) {
		once.Do(func() { err = errKilled })
		return err
	})
}

// failAll makes every call fail with what err returns for its name.
func (g *gates) failAll(err func(call string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.every = err
}

// count is how often a call has come.
func (g *gates) count(call string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[call]
}

func (g *gates) pass(ctx context.Context, call string, key tiering.Key) error {
	if key.Reserved() {
		return nil
	}
	g.mu.Lock()
	g.seen[call]++
	var h *hold
	if waiting := g.holds[call]; len(waiting) > 0 {
		h, g.holds[call] = waiting[0], waiting[1:]
	}
	fault, every := g.faults[call], g.every
	g.mu.Unlock()
	if h != nil {
		close(h.at)
		select {
		case <-h.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fault != nil {
		if err := fault(); err != nil {
			return err
		}
	}
	if every != nil {
		return every(call)
	}
	return nil
}

// gated runs call between its gates.
func gated[T any](ctx context.Context, g *gates, name string, key tiering.Key, call func() (T, error)) (T, error) {
	var zero T
	if err := g.pass(ctx, name, key); err != nil {
		return zero, err
	}
	v, err := call()
	if err != nil {
		return v, err
	}
	if err := g.pass(ctx, name+"/after", key); err != nil {
		return zero, err
	}
	return v, nil
}

// gatedHot is a hot store behind gates.
type gatedHot struct {
	hot.Store
	g *gates
}

func (h gatedHot) Unwrap() hot.Store { return h.Store }

type none struct{}

func (h gatedHot) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	return gated(ctx, h.g, "hot.Get", key, func() (hot.Lookup, error) { return h.Store.Get(ctx, key, lease) })
}

func (h gatedHot) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	_, err := gated(ctx, h.g, "hot.Mark", key, func() (none, error) { return none{}, h.Store.Mark(ctx, key, token) })
	return err
}

func (h gatedHot) Unmark(ctx context.Context, key tiering.Key, token hot.Token) error {
	_, err := gated(ctx, h.g, "hot.Unmark", key, func() (none, error) { return none{}, h.Store.Unmark(ctx, key, token) })
	return err
}

func (h gatedHot) Set(ctx context.Context, s hot.Set) (bool, error) {
	return gated(ctx, h.g, "hot.Set", s.Key, func() (bool, error) { return h.Store.Set(ctx, s) })
}

// Together lets each step pass the gates of its call, one after the other, and
// carries those that passed out as the driver does.
func (h gatedHot) Together(ctx context.Context, steps []hot.Step) []error {
	names := map[hot.Act]string{hot.ToMark: "hot.Mark", hot.ToUnmark: "hot.Unmark", hot.ToSet: "hot.Set"}
	errs := make([]error, len(steps))
	var passed []hot.Step
	for i, st := range steps {
		if errs[i] = h.g.pass(ctx, names[st.Act], st.Set.Key); errs[i] == nil {
			passed = append(passed, st)
		}
	}
	done := hot.Together(ctx, h.Store, passed)
	for i, st := range steps {
		if errs[i] != nil {
			continue
		}
		if errs[i], done = done[0], done[1:]; errs[i] == nil {
			errs[i] = h.g.pass(ctx, names[st.Act]+"/after", st.Set.Key)
		}
	}
	return errs
}

func (h gatedHot) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, ttl time.Duration) (bool, error) {
	return gated(ctx, h.g, "hot.Fill", key, func() (bool, error) { return h.Store.Fill(ctx, key, lease, e, ttl) })
}

func (h gatedHot) Drop(ctx context.Context, key tiering.Key, version, revision int64) error {
	_, err := gated(ctx, h.g, "hot.Drop", key, func() (none, error) { return none{}, h.Store.Drop(ctx, key, version, revision) })
	return err
}

func (h gatedHot) Swap(ctx context.Context, key tiering.Key, cond tiering.Condition, body []byte, ttl time.Duration) (e hot.Entry, ok bool, err error) {
	if err := h.g.pass(ctx, "hot.Swap", key); err != nil {
		return hot.Entry{}, false, err
	}
	return h.Store.Swap(ctx, key, cond, body, ttl)
}

// gatedWarm is a warm store behind gates.
type gatedWarm struct {
	warm.Store
	g *gates
}

// subject is the first key of a batch that is not tierd's own.
func subject(b *warm.Batch) tiering.Key {
	for _, c := range b.Changes {
		if !c.Key.Reserved() {
			return c.Key
		}
	}
	return b.Changes[0].Key
}

func (w gatedWarm) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	return gated(ctx, w.g, "warm.Commit", subject(b), func() ([][]warm.Result, error) { return w.Store.Commit(ctx, b) })
}

func (w gatedWarm) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	return gated(ctx, w.g, "warm.Load", key, func() (warm.Current, error) { return w.Store.Load(ctx, key) })
}

func (w gatedWarm) Head(ctx context.Context, key tiering.Key) (warm.Current, error) {
	return gated(ctx, w.g, "warm.Head", key, func() (warm.Current, error) { return w.Store.Head(ctx, key) })
}

func (w gatedWarm) Version(ctx context.Context, key tiering.Key, version int64) (v warm.Version, ok bool, err error) {
	if err := w.g.pass(ctx, "warm.Version", key); err != nil {
		return warm.Version{}, false, err
	}
	if v, ok, err = w.Store.Version(ctx, key, version); err == nil {
		err = w.g.pass(ctx, "warm.Version/after", key)
	}
	return v, ok, err
}

// Atomic has a gate where decide has decided: the store has yet to write.
func (w gatedWarm) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency,
	decide func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	if err := w.g.pass(ctx, "warm.Atomic", keys[0]); err != nil {
		return nil, false, err
	}
	return w.Store.Atomic(ctx, id, keys, idem, func(cur []warm.Current) ([]warm.Change, error) {
		changes, err := decide(cur)
		if err == nil {
			err = w.g.pass(ctx, "warm.Atomic/decided", keys[0])
		}
		return changes, err
	})
}
