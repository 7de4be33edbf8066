package tierd

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/postgres"
)

// gate is a hot tier that serves only while this daemon has its part in the lease
// of a shared warm store: when others may write there without telling
// this hot tier, its calls fail and everything goes to warm.
type gate struct {
	store atomic.Pointer[hot.Store]
	until atomic.Int64 // nanoseconds on the clock of start
	start time.Time
}

func newGate(s hot.Store) *gate {
	g := &gate{start: time.Now()}
	g.store.Store(&s)
	return g
}

// open lets calls through until a time; close until it is opened again.
func (g *gate) open(until time.Time) { g.until.Store(int64(until.Sub(g.start))) }
func (g *gate) openForever()         { g.until.Store(math.MaxInt64) }
func (g *gate) close()               { g.until.Store(0) }

func (g *gate) closed() bool { return int64(time.Since(g.start)) >= g.until.Load() }

var errGate = tiering.Errorf(tiering.CodeUnavailable, "this daemon may not use its hot tier: it could not renew its part in the warm store's lease, or daemons with another hot tier hold it")

// inner is the store, while calls may reach it.
func (g *gate) inner() (hot.Store, error) {
	if g.closed() {
		return nil, errGate
	}
	return *g.store.Load(), nil
}

func (g *gate) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	s, err := g.inner()
	if err != nil {
		return hot.Lookup{}, err
	}
	return s.Get(ctx, key, lease)
}

func (g *gate) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	s, err := g.inner()
	if err != nil {
		return err
	}
	return s.Mark(ctx, key, token)
}

func (g *gate) Unmark(ctx context.Context, key tiering.Key, token hot.Token) error {
	s, err := g.inner()
	if err != nil {
		return err
	}
	return s.Unmark(ctx, key, token)
}

func (g *gate) Set(ctx context.Context, set hot.Set) (bool, error) {
	s, err := g.inner()
	if err != nil {
		return false, err
	}
	return s.Set(ctx, set)
}

func (g *gate) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, ttl time.Duration) (bool, error) {
	s, err := g.inner()
	if err != nil {
		return false, err
	}
	return s.Fill(ctx, key, lease, e, ttl)
}

func (g *gate) Drop(ctx context.Context, key tiering.Key, version, revision int64) error {
	s, err := g.inner()
	if err != nil {
		return err
	}
	return s.Drop(ctx, key, version, revision)
}

func (g *gate) Swap(ctx context.Context, key tiering.Key, cond tiering.Condition, body []byte, ttl time.Duration) (hot.Entry, bool, error) {
	s, err := g.inner()
	if err != nil {
		return hot.Entry{}, false, err
	}
	return s.Swap(ctx, key, cond, body, ttl)
}

func (g *gate) Scan(ctx context.Context, tenant, namespace, prefix string, fn func(tiering.Key) bool) error {
	s, err := g.inner()
	if err != nil {
		return err
	}
	return s.Scan(ctx, tenant, namespace, prefix, fn)
}

// Unwrap is the store, whether or not calls may pass.
func (g *gate) Unwrap() hot.Store { return *g.store.Load() }

// Stats are told whether or not calls may pass.
func (g *gate) Stats(ctx context.Context) (hot.Stats, error) { return g.Unwrap().Stats(ctx) }

func (g *gate) Ping(ctx context.Context) error {
	s, err := g.inner()
	if err != nil {
		return err
	}
	return s.Ping(ctx)
}

func (g *gate) Close() error { return g.Unwrap().Close() }

// replace puts a new store in place of one that may hold old values.
func (g *gate) replace(s hot.Store) error {
	old := g.store.Swap(&s)
	return (*old).Close()
}

// keep renews this daemon's part in the lease and opens and closes the gate with it, until
// ctx ends. Behind a gate that was closed values may have grown old: renewed
// makes the hot tier begin anew before it opens.
func (g *gate) keep(ctx context.Context, m *membership, renewed func(context.Context) error, log *slog.Logger) {
	atRenewals(ctx, func() { g.renew(ctx, m, renewed, log) })
}

func (g *gate) renew(ctx context.Context, m *membership, renewed func(context.Context) error, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, daemonsRenew)
	defer cancel()
	asked := time.Now()
	if err := m.take(ctx); err != nil {
		if tiering.CodeOf(err) == tiering.CodeLeaseHeld || errors.Is(err, postgres.ErrAnotherLife) {
			g.close()
		}
		log.Error("the lease of the warm store's daemons was not renewed", "err", err)
		return
	}
	if g.closed() {
		if err := renewed(ctx); err != nil {
			log.Error("the hot tier could not begin anew", "err", err)
			return
		}
		log.Warn("the hot tier began anew: this daemon had lost its part in the warm store's lease")
	}
	g.admit(asked, m)
}

// admit opens the gate for as long as a lease taken at a time is surely held. A
// shared hot tier stays in use while warm does not answer: who took the lease
// meanwhile shares it, or is met at the next renewal.
func (g *gate) admit(taken time.Time, m *membership) {
	if m.alone {
		g.open(taken.Add(daemonsExpiry))
	} else {
		g.openForever()
	}
}
