package telemetry

import (
	"context"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// hotStore measures a hot.Store. What it does not override is not worth
// measuring.
type hotStore struct {
	hot.Store
	get, mark, unmark, set, fill, drop, swap, scan, ping *op
}

// Hot returns s, measured. Unwrap() on the result gives s back.
func (t *Telemetry) Hot(s hot.Store) hot.Store {
	o := func(name string) *op { return t.op(tiering.Hot, "", name) }
	return &hotStore{
		Store: s,
		get:   o("get"), mark: o("mark"), unmark: o("unmark"), set: o("set"), fill: o("fill"),
		drop: o("drop"), swap: o("swap"), scan: o("scan"), ping: o("ping"),
	}
}

// Unwrap returns the store within.
func (s *hotStore) Unwrap() hot.Store { return s.Store }

func (s *hotStore) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	ctx, c := s.get.begin(ctx)
	l, err := s.Store.Get(ctx, key, lease)
	c.end(err)
	return l, err
}

func (s *hotStore) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	ctx, c := s.mark.begin(ctx)
	err := s.Store.Mark(ctx, key, token)
	c.end(err)
	return err
}

func (s *hotStore) Unmark(ctx context.Context, key tiering.Key, token hot.Token) error {
	ctx, c := s.unmark.begin(ctx)
	err := s.Store.Unmark(ctx, key, token)
	c.end(err)
	return err
}

func (s *hotStore) Set(ctx context.Context, set hot.Set) (bool, error) {
	ctx, c := s.set.begin(ctx)
	stored, err := s.Store.Set(ctx, set)
	c.end(err)
	return stored, err
}

func (s *hotStore) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, ttl time.Duration) (bool, error) {
	ctx, c := s.fill.begin(ctx)
	stored, err := s.Store.Fill(ctx, key, lease, e, ttl)
	c.end(err)
	return stored, err
}

func (s *hotStore) Drop(ctx context.Context, key tiering.Key, version, revision int64) error {
	ctx, c := s.drop.begin(ctx)
	err := s.Store.Drop(ctx, key, version, revision)
	c.end(err)
	return err
}

func (s *hotStore) Swap(ctx context.Context, key tiering.Key, cond tiering.Condition, body []byte, ttl time.Duration) (hot.Entry, bool, error) {
	ctx, c := s.swap.begin(ctx)
	e, ok, err := s.Store.Swap(ctx, key, cond, body, ttl)
	c.end(err)
	return e, ok, err
}

// Scan counts the time that fn takes too.
func (s *hotStore) Scan(ctx context.Context, tenant, namespace, prefix string, fn func(tiering.Key) bool) error {
	ctx, c := s.scan.begin(ctx)
	err := s.Store.Scan(ctx, tenant, namespace, prefix, fn)
	c.end(err)
	return err
}

func (s *hotStore) Ping(ctx context.Context) error {
	ctx, c := s.ping.begin(ctx)
	err := s.Store.Ping(ctx)
	c.end(err)
	return err
}

// Together counts each step as the call that it is, for as long as all took.
func (s *hotStore) Together(ctx context.Context, steps []hot.Step) []error {
	calls := make([]call, len(steps))
	for i, st := range steps {
		_, calls[i] = s.opOf(st.Act).begin(ctx)
	}
	errs := hot.Together(ctx, s.Store, steps)
	for i, c := range calls {
		c.end(errs[i])
	}
	return errs
}

func (s *hotStore) opOf(act hot.Act) *op {
	switch act {
	case hot.ToMark:
		return s.mark
	case hot.ToUnmark:
		return s.unmark
	}
	return s.set
}
