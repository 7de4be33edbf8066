package router

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// prepared is a batch turned into changes, sorted by key.
type prepared struct {
	chains  []*preparedChain
	changes []warm.Change
}

// preparedChain is one chain with the rows it sends. rows[i] belongs to sent[i].
type preparedChain struct {
	*chain
	sent  []*mutation
	bases []base // after each row, for the next commit
	known bool   // the rows were computed on a base that has to stand
	fresh bool   // that base was read from warm in this round
}

// prepare computes every chain's rows. Mutations that cannot go on are
// decided here.
func (q *queue) prepare(ctx context.Context, b *batch) *prepared {
	slices.SortFunc(b.chains, func(x, y *chain) int { return x.key.Compare(y.key) })
	p := &prepared{chains: make([]*preparedChain, 0, len(b.chains)), changes: make([]warm.Change, 0, len(b.chains))}
	all := make([]preparedChain, len(b.chains))
	for i, c := range b.chains {
		pc := &all[i]
		pc.chain = c
		change, ok := q.compute(ctx, pc)
		if !ok {
			continue
		}
		p.chains = append(p.chains, pc)
		p.changes = append(p.changes, change)
	}
	return p
}

// compute makes the change of one chain; ok is false when nothing is left of it.
func (q *queue) compute(ctx context.Context, pc *preparedChain) (warm.Change, bool) {
	first := pc.all[0]
	if first.eval == nil {
		change := first.policy.change(pc.key, first.cond, nil)
		if first.probe {
			change.If = tiering.IfVersion(math.MaxInt64)
		}
		pc.sent = pc.all
		for _, m := range pc.all {
			change.Rows = append(append(change.Rows, m.row), m.more...)
		}
		return change, true
	}
	if pc.base == nil {
		pc.base = newestHint(pc.all)
	}
	if pc.base == nil && !q.reload(ctx, pc) {
		return warm.Change{}, false
	}
	rows := pc.evaluate()
	if len(rows) < len(pc.all) && !pc.fresh {
		// Something failed on a base that may be old: judge on warm's own.
		if !q.reload(ctx, pc) {
			return warm.Change{}, false
		}
		rows = pc.evaluate()
	}
	pc.refuseFailed()
	if len(rows) == 0 {
		return warm.Change{}, false
	}
	pc.known = true
	return first.policy.change(pc.key, tiering.IfVersion(pc.base.version), rows), true
}

// reload reads what stands from warm, after every mutation of the chain
// arrived. On an error all of the chain fails.
func (q *queue) reload(ctx context.Context, pc *preparedChain) bool {
	cur, err := q.store.Load(ctx, pc.key)
	if err != nil {
		pc.chain.fail(err)
		return false
	}
	if cur.Head.Live(cur.Now) && cur.Body == nil {
		// The bytes lie in cold: the caller brings them as its hint.
		if h := newestHint(pc.all); h != nil && h.version == cur.Head.Version {
			pc.base, pc.fresh = h, true
			return true
		}
		pc.chain.fail(errBaseInCold)
		return false
	}
	pc.base, pc.fresh = baseOf(cur), true
	return true
}

// errBaseInCold tells the writer to fetch the base from cold and come again.
var errBaseInCold = errors.New("the document's bytes are in cold")

func baseOf(cur warm.Current) *base {
	if !cur.Head.Live(cur.Now) {
		return &base{}
	}
	return &base{version: cur.Head.Version, body: cur.Body, user: cur.Head.User}
}

func newestHint(ms []*mutation) *base {
	var best *base
	for _, m := range ms {
		if m.hint != nil && (best == nil || m.hint.version > best.version) {
			best = m.hint
		}
	}
	return best
}

// evaluate computes the rows on the chain's base, each on the one before. A
// mutation that fails keeps its error and is left out.
func (pc *preparedChain) evaluate() []warm.Row {
	pc.sent, pc.bases = nil, nil
	at := *pc.base
	var rows []warm.Row
	for _, m := range pc.all {
		m.probeErr = nil
		row := m.row
		if !m.cond.Holds(at.version) {
			m.probeErr = anotherStands(at.version)
			if m.foreign(at.version, at.user) {
				m.probeErr = errForeign()
			}
			continue
		}
		if m.eval != nil {
			var err error
			if row, err = m.eval(at); err != nil {
				m.probeErr = err
				continue
			}
			m.row, m.before = row, at.body
		}
		if at.version == 0 {
			at.user = row.User
		}
		at = base{version: at.version + 1, body: row.Body, user: at.user}
		pc.add(m, at)
		rows = append(rows, row)
	}
	return rows
}

// anotherStands refuses a write whose condition names another version than
// stands.
func anotherStands(version int64) *tiering.Error {
	return &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: version, Detail: "another version stands: read it and try again"}
}

// refuseFailed decides the mutations that failed on a base read from warm.
// One with an idempotency key asks warm first: its own earlier try may be what
// makes it fail now.
func (pc *preparedChain) refuseFailed() {
	for _, m := range pc.all {
		switch {
		case m.probeErr == nil:
		case m.row.Idempotency != nil:
			m.probe = true
			m.eval = nil
			pc.again = append(pc.again, m)
		default:
			pc.decide(m, warm.Result{}, m.probeErr)
		}
	}
}

func (pc *preparedChain) add(m *mutation, after base) {
	pc.sent = append(pc.sent, m)
	pc.bases = append(pc.bases, after)
}

// deal hands the results out. What has to be computed again goes round.
func (pc *preparedChain) deal(results []warm.Result) {
	pc.base = nil
	for i, m := range pc.sent {
		r := m.outcome(results)
		results = results[m.rows():]
		switch {
		case r.Status == warm.Again,
			r.Status == warm.Conflict && pc.known: // the base moved: compute again
			m.hint = nil
			pc.again = append(pc.again, m)
		case m.probe && r.Status == warm.Conflict:
			pc.decide(m, warm.Result{}, m.withCurrent(m.probeErr, r.Head))
		default:
			if pc.known && r.Status == warm.Done {
				pc.base = &base{version: r.Head.Version, body: pc.bases[i].body, user: r.Head.User}
			}
			pc.decide(m, r, r.Err)
		}
	}
}

func (m *mutation) withCurrent(err error, h warm.Head) error {
	var e *tiering.Error
	if !errors.As(err, &e) || e.Code != tiering.CodeVersionConflict || h.Op.Deleting() || m.foreign(h.Version, h.User) {
		return err
	}
	c := *e
	c.CurrentVersion = h.Version
	return &c
}

// fail decides every mutation of a chain that never got to rows.
func (c *chain) fail(err error) {
	for _, m := range c.all {
		c.decide(m, warm.Result{}, err)
	}
}

// refuse decides the mutations whose rows warm refused. Where the data of one
// of several is at fault they go round again, each alone.
func (pc *preparedChain) refuse(err error) {
	pc.base = nil
	if len(pc.sent) > 1 && onesOwnFault(err) {
		for _, m := range pc.sent {
			m.alone, m.hint = true, nil
			pc.again = append(pc.again, m)
		}
		return
	}
	for _, m := range pc.sent {
		pc.decide(m, warm.Result{}, err)
	}
}

func (p *prepared) refuse(err error) {
	for _, pc := range p.chains {
		pc.refuse(err)
	}
}
