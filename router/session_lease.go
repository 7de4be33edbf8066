package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A lease is a part with a life of its own. Its version when it was taken is the
// token: versions only grow and are never used again, also over a rebuild.
const (
	leasePart    = "lease"
	defaultLease = 30 * time.Second
)

type leaseDoc struct {
	Holder string `json:"holder"`
}

func errFenced() error {
	return tiering.Errorf(tiering.CodeFenced, "the lease of this token does not stand any more: nothing was done; acquire it anew")
}

func errLeaseHeld(l tiering.HeldLease) error {
	return &tiering.Error{Code: tiering.CodeLeaseHeld, Lease: &l,
		Detail: "the lease is held by " + l.Holder + " until " + l.ExpiresAt.UTC().Format(time.RFC3339Nano)}
}

// AcquireLease takes the session's lease, or renews it for the same holder.
func (s sessions) AcquireLease(ctx context.Context, id string, r *tiering.LeaseRequest) (*tiering.SessionLease, error) {
	l, err := s.acquire(ctx, id, orZero(r))
	return l, tiering.Wrap(err, "acquire lease", "", s.docKey(id))
}

func (s sessions) acquire(ctx context.Context, id string, r tiering.LeaseRequest) (*tiering.SessionLease, error) {
	if err := s.admitSession(tiering.VerbWrite, id); err != nil {
		return nil, err
	}
	if err := tiering.ValidateOwner("holder", r.Holder); err != nil {
		return nil, err
	}
	ttl := &tiering.TTL{Life: defaultLease}
	if r.TTL != "" {
		var err error
		if ttl, err = tiering.ParseTTL(r.TTL); err != nil || ttl.None {
			return nil, tiering.Invalidf("ttl %q: a lease ends, use whole seconds above 0, or 30s, 5m", r.TTL)
		}
	}
	if _, err := s.sessionSpaces(ctx); err != nil {
		return nil, err
	}
	key := s.partKey(id, leasePart)
	results, committed, err := s.transact(ctx, []tiering.Key{s.logKey(id), key}, nil, func(current []warm.Current) ([]warm.Change, error) {
		log, held := current[0], current[1] // in the order of their keys
		if !log.Head.Live(log.Now) || !s.mayRead(log.Head.User) {
			return nil, noSession()
		}
		// Whoever holds the lease uses the session, which outlives it.
		life := warm.Expiry{TTL: ttl}
		var changes []warm.Change
		if log.Head.TTL > 0 {
			life.TTL = &tiering.TTL{Life: min(ttl.Life, log.Head.TTL)}
			changes = append(changes, warm.Change{Key: s.logKey(id), Rows: []warm.Row{{Op: tiering.OpTouch, Expiry: warm.Expiry{Slide: true}}}})
		}
		if held.Head.Live(held.Now) {
			if held.Body == nil {
				return nil, errBaseInCold
			}
			var d leaseDoc
			if err := decodeDoc(held.Body, &d); err != nil {
				return nil, err
			}
			if d.Holder != r.Holder {
				return nil, errLeaseHeld(tiering.HeldLease{Session: id, Holder: d.Holder, ExpiresAt: held.Head.ExpiresAt})
			}
			return append(changes, warm.Change{Key: key, Rows: []warm.Row{{Op: tiering.OpTouch, Expiry: life, Exact: true}}}), nil
		}
		body, err := encodeDoc(leaseDoc{r.Holder})
		return append(changes, warm.Change{Key: key, Rows: []warm.Row{{
			Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), User: log.Head.User, Expiry: life,
		}}}), err
	})
	if err != nil {
		return nil, err
	}
	if !committed || len(results) == 0 {
		return nil, tiering.Errorf(tiering.CodeUnavailable, "the lease was not taken: try again")
	}
	h := results[len(results)-1][0].Head // tierd.events is before tierd.parts
	return &tiering.SessionLease{Session: id, Holder: r.Holder, Token: h.Version, ExpiresAt: h.ExpiresAt}, nil
}

// ReleaseLease gives a lease up.
func (s sessions) ReleaseLease(ctx context.Context, id string, token int64) error {
	return tiering.Wrap(s.release(ctx, id, token), "release lease", "", s.docKey(id))
}

func (s sessions) release(ctx context.Context, id string, token int64) error {
	if err := s.admitSession(tiering.VerbWrite, id); err != nil {
		return err
	}
	if _, err := s.sessionSpaces(ctx); err != nil {
		return err
	}
	key := s.partKey(id, leasePart)
	_, committed, err := s.transact(ctx, []tiering.Key{key}, nil, func(current []warm.Current) ([]warm.Change, error) {
		held := current[0]
		switch {
		case !held.Head.Live(held.Now) || !s.mayRead(held.Head.User):
			return nil, nil // it ended by itself, or is none for the caller
		case held.Head.Version != token:
			return nil, errFenced()
		}
		return []warm.Change{{Key: key, Rows: []warm.Row{{Op: tiering.OpDelete}}}}, nil
	})
	if err == nil && !committed {
		err = tiering.Errorf(tiering.CodeUnavailable, "the lease was not released: try again")
	}
	return err
}
