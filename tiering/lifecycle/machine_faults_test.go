package lifecycle_test

import (
	"errors"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// What befalls the machine: restarts, failing buckets, and deaths halfway.

func (m *machine) Crash(*rapid.T) { m.restart() }

var errBroken = errors.New("connection reset")

// Fault has a bucket fail for a while, under everything that the engine does.
func (m *machine) Fault(rt *rapid.T) {
	which := rapid.IntRange(0, 1).Draw(rt, "bucket")
	fault := coldtest.Fault{
		Call:  rapid.SampledFrom([]coldtest.Call{coldtest.Create, coldtest.Read, coldtest.Delete, coldtest.List, ""}).Draw(rt, "call"),
		Times: rapid.IntRange(0, 3).Draw(rt, "times"),
	}
	if rapid.Bool().Draw(rt, "reply lost") {
		fault.After = errBroken
	} else {
		fault.Before = errBroken
	}
	m.faults[which].Inject(fault)
	m.interrupted(rt, m.engine, func() { m.faults[which].Clear() })
}

// Die has the process die within a move, at one of its changes.
func (m *machine) Die(rt *rapid.T) {
	l := &life{left: rapid.IntRange(0, 16).Draw(rt, "changes"), after: rapid.Bool().Draw(rt, "after")}
	archive := cold.NewArchive(mortalBucket{m.buckets[0], l}, mortalBucket{m.buckets[1], l}, nil)
	m.interrupted(rt, lifecycle.New(m.config(mortalStore{m.store, l}, archive)), func() {
		if l.dead {
			m.counts.died.Add(1)
		}
		m.restart()
	})
}

// interrupted has an engine do something that may fail anywhere, and a sound
// one go on.
func (m *machine) interrupted(rt *rapid.T, e *lifecycle.Engine, over func()) {
	what := rapid.SampledFrom([]string{"flush", "sweep", "merge", "collect", "orders", "erase"}).Draw(rt, "what")
	switch what {
	case "flush":
		_ = e.Flush(m.ctx)
	case "sweep":
		_ = e.Sweep(m.ctx)
	case "merge":
		m.mayGo()
		_, _ = e.MergeOnce(m.ctx)
	case "collect":
		m.mayGo()
		_, _ = e.GC(m.ctx, false)
	case "orders":
		_ = e.FinishOrders(m.ctx)
	case "erase":
		m.interruptedErase(rt, e, over)
		return
	}
	over()
	m.expired()
}

// interruptedErase: it may have been ordered or not, until it was done once more,
// perhaps by a store rebuilt meanwhile.
func (m *machine) interruptedErase(rt *rapid.T, e *lifecycle.Engine, over func()) {
	r := m.drawErase(rt)
	_, _ = e.Erase(m.ctx, tenant, r)
	over()
	m.doubt = &r
	if rapid.Bool().Draw(rt, "rebuild between") {
		m.Rebuild(rt)
	}
	m.engine = lifecycle.New(m.config(m.store, m.archive)) // forgets how long it wanted to wait
	under, err := m.store.Erasures(m.ctx)
	m.no(err)
	if len(under) > 0 {
		_, err = m.engine.EraseOnce(m.ctx)
		m.no(err)
		m.counts.resumed.Add(1)
	}
	m.erase(r)
	m.forget(r)
	m.doubt = nil
	m.hidden()
}
