package router

import (
	"context"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// onceFenced is once for a write under a lease. It goes on when its caller leaves.
func (r *core) onceFenced(ctx context.Context, p *policy, m *mutation) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.background.Done()
	var mark hotMark
	if !m.warmOnly {
		mark = r.markHot(ctx, m.key)
	}
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.CommitTimeout)
	defer cancel()
	id := r.fenced(dctx, m)
	if m.unknown() && !m.warmOnly {
		r.doubtAtomic(id, map[tiering.Key]hotMark{m.key: mark}, m.err)
	}
	m.hotOK = r.settle(dctx, p, m, mark)
	return nil
}

// fenced commits m under a lease: in one transaction with a look at the lease, in
// place of the queue. Its result is in m then, as if it had been through the
// queue. It returns the id of its batch.
func (r *core) fenced(ctx context.Context, m *mutation) (id uuid.UUID) {
	lease := tiering.Key{Tenant: m.key.Tenant, Namespace: tiering.SessionPartsNamespace, ID: m.fence.Session + "/" + leasePart}
	idem := m.row.Idempotency
	m.result, m.err = warm.Result{}, nil
	decide := func(current []warm.Current) ([]warm.Change, error) {
		var held, stands warm.Current
		for _, cur := range current {
			if cur.Head.Key == lease {
				held = cur
			}
			if cur.Head.Key == m.key {
				stands = cur
			}
		}
		if !held.Head.Live(held.Now) || held.Head.Version != m.fence.Token && !failpoint.Skips(failpoint.FenceCheck) {
			return nil, errFenced()
		}
		return m.onto(stands)
	}
	var results [][]warm.Result
	var err error
	for tries := 0; err == nil && len(results) == 0 && tries < lostTries; tries++ { // a lost commit has none
		id = uuid.New()
		results, _, err = r.transactOnce(ctx, id, []tiering.Key{lease, m.key}, idem, decide)
	}
	switch {
	case err != nil:
		m.err = err
	case len(results) == 0 || len(results[0]) == 0:
		m.err = tiering.Errorf(tiering.CodeUnavailable, "the write was not settled: try again")
	case results[0][0].Status == warm.Mismatch || results[0][0].Status == warm.Replayed:
		m.result = results[0][len(results[0])-1]
		m.result.Created = results[0][0].Created
	default: // what was not committed says why
		m.result = m.outcome(results[0])
	}
	return id
}

// onto is m as a change of what stands under locks.
func (m *mutation) onto(stands warm.Current) ([]warm.Change, error) {
	if m.eval == nil {
		rows := m.run()
		rows[0].Idempotency = nil // it covers the transaction
		return []warm.Change{m.policy.change(m.key, m.cond, rows)}, nil
	}
	at := baseOf(stands)
	if !m.cond.Holds(at.version) {
		if m.foreign(at.version, at.user) {
			return nil, errForeign()
		}
		return nil, anotherStands(at.version)
	}
	if at.version != 0 && at.body == nil {
		if m.hint == nil || m.hint.version != at.version {
			return nil, errBaseInCold
		}
		at = m.hint
	}
	row, err := m.eval(*at)
	if err != nil {
		return nil, err
	}
	row.Idempotency = nil
	m.row, m.before = row, at.body
	return []warm.Change{m.policy.change(m.key, tiering.IfVersion(at.version), []warm.Row{row})}, nil
}

// checkFence refuses a fence that can not be one.
func checkFence(f *tiering.Fence) error {
	if f == nil {
		return nil
	}
	if err := tiering.ValidateSessionID(f.Session); err != nil || f.Token <= 0 {
		return tiering.Invalidf("Tierd-Fence: want a session, a slash, and the token of its lease")
	}
	return nil
}
