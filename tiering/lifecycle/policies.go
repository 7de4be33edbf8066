package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
)

// sweeper is one sweep: one time, and the policies in force at it.
type sweeper struct {
	*Engine
	now      time.Time
	policies map[tiering.Key]tiering.Policy
	unread   map[tiering.Key]bool // policies that cannot be read
	due      map[tiering.Move]int64
	pass     *pass // of a sweep
}

func (e *Engine) newSweeper(now time.Time) *sweeper {
	return &sweeper{Engine: e, now: now, policies: map[tiering.Key]tiering.Policy{}, unread: map[tiering.Key]bool{}, due: map[tiering.Move]int64{}}
}

// policy returns the policy of a key's namespace. ok is false when its bytes are
// damaged in warm, and no copy in cold is left to mend them by: what becomes due
// in the namespace is not known, so that all of it stays where it is, and the
// other namespaces go on.
func (s *sweeper) policy(ctx context.Context, k tiering.Key) (p tiering.Policy, ok bool, err error) {
	at := tiering.Key{Tenant: k.Tenant, Namespace: tiering.PolicyNamespace, ID: k.Namespace}
	if p, ok := s.policies[at]; ok {
		return p, true, nil
	}
	if s.unread[at] {
		return p, false, nil
	}
	if !k.Reserved() {
		p, err = s.readPolicy(ctx, at)
		switch {
		case errors.Is(err, tiering.ErrCorrupt):
			s.unread[at] = true
			s.park("policy", at.Tenant+"/"+at.ID, parkAfter, err)
			s.Logger.Error("a policy cannot be read: nothing of its namespace moves", "tenant", at.Tenant, "namespace", at.ID, "err", err)
			return p, false, nil
		case err != nil:
			return p, false, err
		}
		s.unpark("policy", at.Tenant+"/"+at.ID)
	}
	p = p.WithDefaults()
	s.policies[at] = p
	return p, true, nil
}

// readPolicy reads a policy, whose bytes it mends from cold when they are
// damaged. One that was never set, or was deleted, is the zero Policy.
func (s *sweeper) readPolicy(ctx context.Context, at tiering.Key) (p tiering.Policy, err error) {
	cur, err := s.Warm.Load(ctx, at)
	if err != nil && !errors.Is(err, tiering.ErrCorrupt) {
		return p, err
	}
	if err == nil && !cur.Head.Live(cur.Now) {
		return p, nil
	}
	if err != nil || tiering.DigestOf(cur.Body) != cur.Head.Digest {
		if cur.Body, err = s.mendPolicy(ctx, at); err != nil {
			return p, err
		}
	}
	if err := json.Unmarshal(cur.Body, &p); err != nil {
		return p, tiering.Errorf(tiering.CodeCorrupt, "the policy of %s cannot be read: %v", at.ID, err)
	}
	return p, nil
}

// mendPolicy puts a policy right from cold, and returns its bytes.
func (s *sweeper) mendPolicy(ctx context.Context, at tiering.Key) ([]byte, error) {
	cur, err := s.Warm.Head(ctx, at)
	if err != nil {
		return nil, err
	}
	body, ok, err := s.fromCold(ctx, at, cur.Head.Version)
	if err != nil {
		return nil, err
	}
	if ok {
		ok, err = s.Warm.Mend(ctx, at, cur.Head.Version, body)
	}
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, tiering.Errorf(tiering.CodeCorrupt, "the policy of %s is damaged, and no copy of it is in cold: write it again", at.ID)
	}
	s.Logger.Warn("a damaged policy was mended from cold", "tenant", at.Tenant, "namespace", at.ID)
	return body, nil
}
