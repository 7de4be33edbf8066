package hottest

import (
	"context"
	"sync"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// Fault is one thing that a naive store leaves out.
type Fault string

// The faults. Each makes at least one of Races fail.
const (
	IgnoreLeases  Fault = "ignore leases"  // Fill stores whatever comes
	BlindSet      Fault = "blind set"      // Set stores whatever comes
	NoPending     Fault = "no pending"     // Mark and Unmark do nothing
	ForgetDeletes Fault = "forget deletes" // a delete only removes the value
)

// Faults lists them all.
func Faults() []Fault { return []Fault{IgnoreLeases, BlindSet, NoPending, ForgetDeletes} }

// Naive returns s with a fault, for tests that must fail on it. What s refuses
// and the fault stores is kept beside s, without end of life and unknown to
// Scan and Stats.
func Naive(s hot.Store, f Fault) hot.Store {
	return &naive{Store: s, fault: f, forced: map[tiering.Key]hot.Lookup{}}
}

type naive struct {
	hot.Store
	fault Fault

	mu     sync.Mutex
	forced map[tiering.Key]hot.Lookup
}

func (n *naive) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	n.mu.Lock()
	l, ok := n.forced[key]
	n.mu.Unlock()
	if ok {
		return l, ctx.Err()
	}
	return n.Store.Get(ctx, key, lease)
}

func (n *naive) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	if n.fault == NoPending {
		return ctx.Err()
	}
	n.unforce(key)
	return n.Store.Mark(ctx, key, token)
}

func (n *naive) Unmark(ctx context.Context, key tiering.Key, token hot.Token) error {
	if n.fault == NoPending {
		return ctx.Err()
	}
	return n.Store.Unmark(ctx, key, token)
}

func (n *naive) Set(ctx context.Context, s hot.Set) (bool, error) {
	switch {
	case n.fault == NoPending:
		s.Token = 0
	case n.fault == ForgetDeletes && s.Deleted:
		if err := n.Store.Unmark(ctx, s.Key, s.Token); err != nil {
			return false, err
		}
		return true, n.Store.Drop(ctx, s.Key, 0, 0)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	stored, err := n.Store.Set(ctx, s)
	switch {
	case err != nil:
	case stored:
		delete(n.forced, s.Key)
	case n.fault == BlindSet:
		state := hot.Present
		if s.Deleted {
			state = hot.Deleted
		}
		n.forced[s.Key] = hot.Lookup{State: state, Entry: s.Entry}
		stored = true
	}
	return stored, err
}

func (n *naive) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, ttl time.Duration) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	stored, err := n.Store.Fill(ctx, key, lease, e, ttl)
	if err == nil && !stored && n.fault == IgnoreLeases {
		n.forced[key] = hot.Lookup{State: hot.Present, Entry: e}
		stored = true
	}
	return stored, err
}

func (n *naive) Drop(ctx context.Context, key tiering.Key, version, revision int64) error {
	n.mu.Lock()
	if m := n.forced[key].Entry.Meta; version == 0 || (m.Version == version && m.Revision == revision) {
		delete(n.forced, key)
	}
	n.mu.Unlock()
	return n.Store.Drop(ctx, key, version, revision)
}

func (n *naive) unforce(key tiering.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.forced, key)
}
