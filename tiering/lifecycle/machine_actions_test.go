package lifecycle_test

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// What happens to the machine by day: writes, moves, recovery and erasing.

func (m *machine) Put(rt *rapid.T) {
	k := m.id(rt)
	m.write(k, m.newRow(rt, k))
}

func (m *machine) PutMortal(rt *rapid.T) {
	k := m.id(rt)
	r := m.newRow(rt, k)
	r.Expiry = ttlOf(drawLife(rt))
	m.write(k, r)
}

func drawLife(rt *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{time.Minute, 90 * time.Minute, 30 * time.Hour}).Draw(rt, "life")
}

func (m *machine) Delete(rt *rapid.T) {
	k, _ := m.living(rt)
	m.write(k, row(tiering.OpDelete))
}

func (m *machine) Touch(rt *rapid.T) {
	k, _ := m.living(rt)
	m.write(k, warm.Row{Op: tiering.OpTouch, Expiry: ttlOf(drawLife(rt)), Exact: rapid.Bool().Draw(rt, "exact")})
}

// Stale writes under a condition on a version that does not stand.
func (m *machine) Stale(rt *rapid.T) {
	k := m.id(rt)
	version := m.top[k]
	if version == 0 {
		rt.Skip("no version yet")
	}
	if c := m.standing()[k]; c.version == version {
		version += rapid.SampledFrom([]int64{-1, 1}).Draw(rt, "off")
	}
	if version < 1 {
		version = m.top[k] + 1
	}
	r, err := m.commit(k, tiering.IfVersion(version), put(m.body()))
	m.no(err)
	if r.Status != warm.Conflict {
		m.Fatalf("a put of %s if version %d: %+v", k, version, r)
	}
}

func (m *machine) Flush(*rapid.T) {
	m.no(m.engine.Flush(m.ctx))
	m.replicate()
}

// replicate makes missing copies, and notes what a rebuild now has to find.
func (m *machine) replicate() {
	m.no(m.engine.Replicate(m.ctx))
	all, err := m.store.Segments(m.ctx, "", tiering.SegmentFinished, "", 10_000)
	m.no(err)
	for _, s := range all {
		if s.Verified() != 2 {
			m.Fatalf("%s has %v, and both buckets answer", s.Name, s.Copies)
		}
	}
	_, last, err := m.store.FeedBounds(m.ctx)
	m.no(err)
	if pos, err := m.store.Position(m.ctx, lifecycle.ArchiveReader); err != nil || pos != last {
		m.Fatalf("archived up to %d of %d, %v", pos, last, err)
	}
	m.sure = [2]int{len(m.log), len(m.log)}
}

func (m *machine) Pass(rt *rapid.T) {
	m.clock.advance(rapid.SampledFrom([]time.Duration{2 * time.Minute, 61 * time.Minute, 3 * time.Hour, 31 * time.Hour, 4 * day}).Draw(rt, "pass"))
	m.no(m.engine.ConfirmClock(m.ctx))
}

func (m *machine) Sweep(*rapid.T) {
	m.no(m.engine.Sweep(m.ctx))
	m.expired()
	for _, c := range m.standing() {
		if c.version > 0 && !c.op.Deleting() && !c.live(m.clock.Now()) {
			m.Fatalf("%s expired at %s and a sweep left it", c.key, c.expires)
		}
	}
}

// Age archives everything, and has it leave warm.
func (m *machine) Age(rt *rapid.T) {
	m.Flush(rt)
	m.clock.advance(3 * time.Hour)
	m.no(m.engine.ConfirmClock(m.ctx))
	m.Sweep(rt)
	for _, c := range m.standing() {
		if cur, err := m.store.Head(m.ctx, c.key); err != nil || c.live(m.clock.Now()) && cur.Head.InWarm {
			m.Fatalf("%s is idle, archived twice and still in warm: %+v, %v; proven: %v", c.key, cur.Head, err, m.engine.Proven(m.ctx, c.key, c.version, cur.Head.Digest))
		}
	}
}

func (m *machine) Promote(rt *rapid.T) {
	k, c := m.living(rt)
	cur, err := m.store.Head(m.ctx, k)
	m.no(err)
	if cur.Head.InWarm {
		rt.Skip("in warm")
	}
	rec, _ := m.fromCold(k, c.version)
	if ok, err := m.store.Promote(m.ctx, k, c.version-1, rec.Body); ok || err != nil {
		m.Fatalf("a promotion of %s at another version: %t, %v", k, ok, err)
	}
	ok, err := m.store.Promote(m.ctx, k, c.version, rec.Body)
	m.no(err)
	if !ok {
		m.Fatalf("%s was not promoted at version %d", k, c.version)
	}
	m.counts.promoted.Add(1)
}

func (m *machine) Merge(*rapid.T) {
	m.mayGo()
	_, err := m.engine.MergeOnce(m.ctx)
	m.no(err)
}

func (m *machine) Collect(*rapid.T) {
	m.mayGo()
	r, err := m.engine.GC(m.ctx, false)
	m.no(err)
	if r.Blocked != "" || len(r.Left) > 0 {
		m.Fatalf("a collection left %+v, %s", r.Left, r.Blocked)
	}
	m.counts.merged.Add(int64(len(r.Rewritten)))
	for _, n := range r.Dropped {
		m.counts.collected.Add(n)
	}
}

// Rebuild lets warm die with what was not archived.
func (m *machine) Rebuild(rt *rapid.T) {
	from := tiering.Copy(rapid.IntRange(0, 1).Draw(rt, "from"))
	m.no(m.store.Close())
	m.fresh(true)
	report, err := lifecycle.Rebuild(m.ctx, lifecycle.RebuildOptions{Archive: m.archive, From: from, Warm: m.store, Now: m.clock.Now()})
	m.no(err)
	m.adopt(m.sure[from], report)
	m.counts.rebuilt.Add(1)
	// The copies in the other bucket are found by looking.
	_, err = m.engine.Verify(m.ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthHash, Repair: true})
	m.no(err)
	m.Orders(rt)
	m.replicate()
}

// Orders has the erase orders carried out that warm knows nothing of: of those
// from earlier lives of the store nothing is left.
func (m *machine) Orders(*rapid.T) {
	m.no(m.engine.FinishOrders(m.ctx))
	epoch, err := m.store.Epoch(m.ctx)
	m.no(err)
	var orders []lifecycle.Order
	for _, b := range m.buckets {
		all, err := lifecycle.ReadOrders(m.ctx, b)
		m.no(err)
		orders = append(orders, slices.DeleteFunc(all, func(o lifecycle.Order) bool { return o.Epoch == epoch })...)
	}
	m.eachRecord(func(where, epoch string, r cold.Record) {
		for _, o := range orders {
			if o.Takes(&lifecycle.Lineage{}, epoch, r) {
				m.Fatalf("%s holds %s version %d, which order %s takes", where, r.Key, r.Version, o.ID)
			}
		}
	})
}

func (m *machine) drawErase(rt *rapid.T) tiering.EraseRequest {
	no := false
	r := tiering.EraseRequest{DryRun: &no}
	switch rapid.IntRange(0, 2).Draw(rt, "subject") {
	case 0:
		r.Namespace, r.ID = "notes", m.id(rt).ID
	case 1:
		r.Namespace, r.Prefix = "notes", rapid.SampledFrom([]string{"a/", "b/"}).Draw(rt, "prefix")
	default:
		r.User = rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "who")
	}
	return r
}

// inherit has a key end by itself under one user, unrecorded, and go on under
// another.
func (m *machine) inherit(rt *rapid.T, from, to string) {
	k := m.id(rt)
	if m.standing()[k].live(m.clock.Now().Add(time.Second)) {
		m.write(k, row(tiering.OpDelete))
	}
	first, second := m.newRow(rt, k), m.newRow(rt, k)
	first.User, first.Expiry, second.User = from, ttlOf(time.Minute), to
	m.write(k, first)
	if rapid.Bool().Draw(rt, "apart") {
		m.Flush(rt)
	}
	m.clock.advance(2 * time.Minute)
	m.write(k, second)
	m.Flush(rt)
}

// LoseErase orders an erase and loses warm before more of it is done: the order
// alone finishes it, and that brings nothing back.
func (m *machine) LoseErase(rt *rapid.T) {
	r := m.drawErase(rt)
	if r.User != "" && rapid.Bool().Draw(rt, "inherited") {
		m.inherit(rt, map[string]string{"ann": "bob", "bob": "ann"}[r.User], r.User)
	}
	epoch, err := m.store.Epoch(m.ctx)
	m.no(err)
	_, last, err := m.store.FeedBounds(m.ctx)
	m.no(err)
	sel := warm.Selector{Tenant: tenant, Namespace: r.Namespace, ID: r.ID, Prefix: r.Prefix, User: r.User}
	o := lifecycle.NewOrder(strconv.Itoa(m.stores)+"-order", sel, epoch, last, m.clock.Now())
	m.no(errors.Join(firstOf(m.archive.WriteBoth(m.ctx, o.Name(), o.Encode()))...))
	m.doubt = &r
	m.Rebuild(rt)
	m.doubt = nil
	m.forget(r)
	m.hidden()
	m.Check(rt)
	m.Rebuild(rt)
	m.Check(rt)
	m.counts.lostErases.Add(1)
}

func (m *machine) Erase(rt *rapid.T) {
	r := m.drawErase(rt)
	m.erase(r)
	m.forget(r)
	m.hidden()
}

func (m *machine) erase(r tiering.EraseRequest) {
	m.Helper()
	receipt, err := m.engine.Erase(m.ctx, tenant, r)
	m.no(err)
	if receipt.State != "done" {
		m.Fatalf("erase: %+v", receipt)
	}
	m.counts.erased.Add(1)
}
