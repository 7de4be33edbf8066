package warmtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// testMachine compares a store with a model in a map over random histories.
// All histories share one store, each in a namespace of its own.
func testMachine(t *testing.T, h Harness) {
	f := setup(t, h)
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		m := &machine{fixture: f, rt: rt, space: fmt.Sprint("m", histories), docs: map[string]*document{}}
		m.ensure(tenant, m.space)
		for range rapid.IntRange(5, 20).Draw(rt, "steps") {
			m.step()
		}
		m.compare()
	})
}

// document is what the model holds of a key.
type document struct {
	version, revision int64
	exists            bool // a put is the last version
	body, user        string
	created, updated  time.Time
	expires           time.Time
	ttl               time.Duration
	pinned            bool
}

func (d *document) live(now time.Time) bool {
	return d.exists && (d.pinned || d.expires.IsZero() || now.Before(d.expires))
}

func (d *document) standing(now time.Time) int64 {
	if d.live(now) {
		return d.version
	}
	return 0
}

// machine drives the store and the model.
type machine struct {
	*fixture
	rt    *rapid.T
	space string
	docs  map[string]*document
}

// failf stops the history, so that rapid makes it smaller.
func (m *machine) failf(format string, args ...any) {
	m.rt.Helper()
	m.rt.Fatalf(format, args...)
}

func (m *machine) doc(id string) *document {
	if m.docs[id] == nil {
		m.docs[id] = &document{}
	}
	return m.docs[id]
}

func (m *machine) step() {
	switch rapid.IntRange(0, 9).Draw(m.rt, "step") {
	case 0:
		m.clock.advance(time.Duration(rapid.IntRange(-1, 3).Draw(m.rt, "minutes")) * time.Minute)
	case 1, 2:
		m.atomic()
	default:
		var changes []warm.Change
		for _, id := range m.ids() {
			changes = append(changes, m.change(id))
		}
		results, err := m.store.Commit(m.ctx, batch(changes...))
		if err != nil {
			m.failf("Commit: %v", err)
		}
		for i, c := range changes {
			m.check(c, results[i], m.apply(c, m.doc(c.Key.ID)))
		}
	}
}

// ids draws one to three keys, in order.
func (m *machine) ids() []string {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID[string]).Draw(m.rt, "ids")
	slices.Sort(ids)
	return ids
}

// change draws a change of one key.
func (m *machine) change(id string) warm.Change {
	c := warm.Change{Key: tiering.Key{Tenant: tenant, Namespace: m.space, ID: id}}
	switch rapid.IntRange(0, 5).Draw(m.rt, "if") {
	case 0:
		c.If = tiering.IfAbsent()
	case 1:
		c.If = tiering.IfExists()
	case 2:
		c.If = tiering.IfVersion(m.doc(id).version)
	}
	o := rapid.SampledFrom([]tiering.Op{tiering.OpPut, tiering.OpPut, tiering.OpPut, tiering.OpDelete, tiering.OpExpire,
		tiering.OpTouch, tiering.OpPin, tiering.OpUnpin}).Draw(m.rt, "op")
	rows := 1
	if o == tiering.OpPut {
		rows = rapid.IntRange(1, 2).Draw(m.rt, "rows")
	}
	for range rows {
		row := op(o)
		if o == tiering.OpPut {
			row = put(rapid.StringMatching(`"[a-z]{0,8}"`).Draw(m.rt, "body"))
		}
		switch rapid.IntRange(0, 4).Draw(m.rt, "ttl") {
		case 0:
			row.Expiry = ttl(time.Duration(rapid.IntRange(1, 3).Draw(m.rt, "life")) * time.Minute)
		case 1:
			row.Expiry = warm.Expiry{TTL: &tiering.TTL{None: true}}
		case 2:
			row.Expiry.New, row.Expiry.Slide = time.Minute, true
		}
		row.Exact = rapid.Bool().Draw(m.rt, "exact")
		c.Rows = append(c.Rows, row)
	}
	return c
}

// apply makes a change in the model and returns the statuses.
func (m *machine) apply(c warm.Change, d *document) (want []warm.Status) {
	now := m.clock.Now()
	want = make([]warm.Status, len(c.Rows))
	if !c.If.Holds(d.standing(now)) {
		for i := range want {
			want[i] = warm.Conflict
		}
		return want
	}
	for i, row := range c.Rows {
		want[i] = d.row(row, now)
	}
	return want
}

func (d *document) row(row warm.Row, now time.Time) warm.Status {
	live := d.live(now)
	next := func() {
		at := now
		if d.version > 0 && !at.After(d.updated) {
			at = d.updated.Add(time.Microsecond)
		}
		d.version++
		d.revision, d.updated = 0, at
	}
	switch row.Op {
	case tiering.OpPut:
		next()
		if !live {
			d.created, d.expires, d.ttl, d.pinned, d.user = d.updated, time.Time{}, 0, false, row.User
		}
		d.exists, d.body = true, string(row.Body)
		switch e := row.Expiry; {
		case e.TTL != nil && e.TTL.None:
			d.expires, d.ttl = time.Time{}, 0
		case e.TTL != nil:
			d.expires, d.ttl = now.Add(e.TTL.Life), e.TTL.Life
		case !live && e.New > 0:
			d.expires, d.ttl = now.Add(e.New), e.New
		case live && e.Slide && d.ttl > 0:
			d.expires = now.Add(d.ttl)
		}
	case tiering.OpDelete, tiering.OpExpire:
		due := d.exists && !d.pinned && !d.expires.IsZero() && !now.Before(d.expires)
		if row.Op == tiering.OpDelete && !live || row.Op == tiering.OpExpire && !due {
			return warm.NoChange
		}
		next()
		d.exists, d.body, d.pinned, d.expires, d.ttl = false, "", false, time.Time{}, 0
	case tiering.OpTouch:
		if !live {
			return warm.Conflict
		}
		d.revision++
		at, life := time.Time{}, time.Duration(0)
		switch t := row.Expiry.TTL; {
		case t == nil && d.ttl == 0:
			return warm.Done
		case t == nil:
			at, life = now.Add(d.ttl), d.ttl
		case !t.None:
			at, life = now.Add(t.Life), t.Life
		}
		if shorter := !at.IsZero() && (d.expires.IsZero() || at.Before(d.expires)); row.Exact || !shorter {
			d.expires, d.ttl = at, life
		}
	default:
		pin := row.Op == tiering.OpPin
		if !live {
			return warm.Conflict
		}
		if d.pinned == pin {
			return warm.NoChange
		}
		d.pinned = pin
		d.revision++
	}
	return warm.Done
}

// check compares the results of a change, and what stands after it.
func (m *machine) check(c warm.Change, results []warm.Result, want []warm.Status) {
	for i, r := range results {
		if r.Status != want[i] {
			m.failf("%s of %s, row %d: status %s, want %s", c.Rows[i].Op, c.Key, i, name(r.Status), name(want[i]))
		}
	}
	m.same(c.Key.ID)
}

// same compares one key with the model.
func (m *machine) same(id string) {
	cur, err := m.store.Load(m.ctx, tiering.Key{Tenant: tenant, Namespace: m.space, ID: id})
	if err != nil {
		m.failf("Load: %v", err)
	}
	h, d := cur.Head, m.doc(id)
	got := document{version: h.Version, revision: h.Revision, exists: h.Op == tiering.OpPut, user: h.User, created: h.CreatedAt,
		updated: h.UpdatedAt, expires: h.ExpiresAt, ttl: h.TTL, pinned: h.Pinned, body: string(cur.Body)}
	want := *d
	if !want.live(m.clock.Now()) {
		want.body = ""
	}
	if !want.exists {
		// Contract says nothing of a tombstone's created_at.
		got.created, want.created = time.Time{}, time.Time{}
	}
	if got != want {
		m.failf("%s stands as\n%+v\nwant\n%+v", id, got, want)
	}
}

// atomic draws a transaction of which all or nothing may happen.
func (m *machine) atomic() {
	var keys []tiering.Key
	var changes []warm.Change
	after := map[string]*document{}
	ok := true
	var want [][]warm.Status
	for _, id := range m.ids() {
		c := m.change(id)
		d := *m.doc(id)
		after[id] = &d
		keys, changes, want = append(keys, c.Key), append(changes, c), append(want, m.apply(c, &d))
		for _, s := range want[len(want)-1] {
			ok = ok && (s == warm.Done || s == warm.NoChange)
		}
	}
	results, committed, err := m.store.Atomic(m.ctx, uuid.New(), keys, nil, func([]warm.Current) ([]warm.Change, error) { return changes, nil })
	if err != nil {
		m.failf("Atomic: %v", err)
	}
	if committed != ok {
		m.failf("committed %v, want %v: %+v", committed, ok, results)
	}
	for id, d := range after {
		if ok {
			m.docs[id] = d
		}
		m.same(id)
	}
	if ok {
		for i, c := range changes {
			m.check(c, results[i], want[i])
		}
	}
}

// compare compares the whole namespace with the model.
func (m *machine) compare() {
	var want []string
	for _, id := range []string{"a", "b", "c"} {
		m.same(id)
		if m.doc(id).live(m.clock.Now()) {
			want = append(want, id)
		}
	}
	page, err := m.store.List(m.ctx, warm.List{Tenant: tenant, Namespace: m.space, Limit: 10})
	if err != nil {
		m.failf("List: %v", err)
	}
	if got := ids(page); got != strings.Join(want, " ") {
		m.failf("listed %q, want %q", got, strings.Join(want, " "))
	}
	for _, cur := range page {
		last, err := m.store.Versions(m.ctx, cur.Head.Key, 0, 1)
		if err != nil || len(last) != 1 || last[0].Version != cur.Head.Version || !last[0].At.Equal(cur.Head.UpdatedAt) {
			m.failf("the newest version row of %s is %+v, %v; its head %+v", cur.Head.Key, last, err, cur.Head)
		}
	}
}
