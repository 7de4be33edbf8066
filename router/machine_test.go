package router

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

// fields is a document of the machine: names with numbers.
type fields map[string]int

func (f fields) bytes() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return b
}

// modelDoc is what must stand under a key.
type modelDoc struct {
	version int64
	body    fields // nil when deleted
	history map[int64]fields
	expires time.Time
	ttl     time.Duration
	pinned  bool
}

// machine runs operations on a router and on a map, and compares.
type machine struct {
	*rapid.T
	w      *world
	ctx    context.Context
	prefix string // of the ids of this run
	docs   map[string]*modelDoc
}

var machineIDs = []string{"a", "b", "b/c", "d"}

func (m *machine) id() string { return m.prefix + rapid.SampledFrom(machineIDs).Draw(m.T, "id") }

func (m *machine) name() string { return rapid.SampledFrom([]string{"x", "y"}).Draw(m.T, "name") }

func (m *machine) body() fields {
	f := fields{}
	for _, n := range []string{"x", "y"} {
		if rapid.Bool().Draw(m.T, "has "+n) {
			f[n] = rapid.IntRange(0, 5).Draw(m.T, n)
		}
	}
	return f
}

func (m *machine) ttl() *tiering.TTL {
	switch rapid.IntRange(0, 4).Draw(m.T, "ttl") {
	case 0:
		return &tiering.TTL{Life: time.Duration(rapid.IntRange(1, 8).Draw(m.T, "minutes")) * time.Minute}
	case 1:
		return &tiering.TTL{None: true}
	}
	return nil
}

func (m *machine) doc(id string) *modelDoc {
	d := m.docs[id]
	if d == nil {
		d = &modelDoc{history: map[int64]fields{}}
		m.docs[id] = d
	}
	return d
}

func (m *machine) live(d *modelDoc) bool {
	return d.body != nil && (d.pinned || d.expires.IsZero() || m.w.clock.Now().Before(d.expires))
}

func (m *machine) standing(id string) int64 {
	if d := m.doc(id); m.live(d) {
		return d.version
	}
	return 0
}

// cond draws a condition, and whether it holds.
func (m *machine) cond(id string) (tiering.Condition, bool) {
	at := m.standing(id)
	var c tiering.Condition
	switch rapid.IntRange(0, 5).Draw(m.T, "condition") {
	case 0:
		c = tiering.IfAbsent()
	case 1:
		c = tiering.IfExists()
	case 2:
		c = tiering.IfVersion(at)
	case 3:
		c = tiering.IfVersion(m.doc(id).version + 1)
	}
	return c, c.Holds(at)
}

// store moves the model to the next version of a key.
func (m *machine) store(id string, body fields, ttl *tiering.TTL) {
	d := m.doc(id)
	if !m.live(d) {
		d.expires, d.ttl, d.pinned = time.Time{}, 0, false
	}
	d.version++
	d.body = body
	d.history[d.version] = body
	if ttl != nil {
		d.expire(*ttl, m.w.clock.Now())
	}
}

func (d *modelDoc) expire(ttl tiering.TTL, now time.Time) {
	d.expires, d.ttl = time.Time{}, 0
	if !ttl.None {
		d.expires, d.ttl = now.Add(ttl.Life), ttl.Life
	}
}

func (m *machine) remove(id string) {
	d := m.doc(id)
	if m.live(d) {
		d.version++
		d.body, d.history[d.version] = nil, nil
		d.expires, d.ttl, d.pinned = time.Time{}, 0, false
	}
}

// settled checks a write's answer against the model: err where ok is false.
func (m *machine) settled(id string, ok bool, code tiering.Code, rc *tiering.Receipt, err error) bool {
	if !ok {
		if tiering.CodeOf(err) != code {
			m.Fatalf("the answer is %+v, %v: want %s", rc, err, code)
		}
		return false
	}
	if err != nil {
		m.Fatal(err)
	}
	return true
}

func (m *machine) wrote(id string, rc *tiering.Receipt) {
	d := m.doc(id)
	if rc.Version != d.version || !rc.ExpiresAt.Equal(d.expires) || rc.Pinned != d.pinned {
		m.Fatalf("the receipt of %s says version %d, expiry %v, pinned %t: want %d, %v, %t",
			id, rc.Version, rc.ExpiresAt, rc.Pinned, d.version, d.expires, d.pinned)
	}
}

func (m *machine) Put(*rapid.T) {
	id, body, ttl := m.id(), m.body(), m.ttl()
	c, holds := m.cond(id)
	created := m.standing(id) == 0
	rc, err := m.w.r.Put(m.ctx, space, id, body.bytes(), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: c, TTL: ttl}})
	if m.settled(id, holds, tiering.CodeVersionConflict, rc, err) {
		m.store(id, body, ttl)
		m.wrote(id, rc)
		if rc.Created != created {
			m.Fatalf("created is %t", rc.Created)
		}
	}
}

func (m *machine) Patch(*rapid.T) {
	id, name, n, drop := m.id(), m.name(), rapid.IntRange(0, 5).Draw(m.T, "n"), rapid.Bool().Draw(m.T, "drop")
	c, holds := m.cond(id)
	patch, next := fmt.Sprintf(`{%q:%d}`, name, n), m.copyOf(id)
	next[name] = n
	if drop {
		patch = fmt.Sprintf(`{%q:null}`, name)
		delete(next, name)
	}
	rc, err := m.w.r.Patch(m.ctx, space, id, tiering.MergePatch, []byte(patch), &tiering.WriteOptions{If: c})
	if m.settled(id, holds, tiering.CodeVersionConflict, rc, err) {
		m.store(id, next, nil)
		m.wrote(id, rc)
	}
}

// copyOf is the live body, or an empty one.
func (m *machine) copyOf(id string) fields {
	if d := m.doc(id); m.live(d) {
		return maps.Clone(d.body)
	}
	return fields{}
}

func (m *machine) Edit(*rapid.T) {
	id, name, by := m.id(), m.name(), rapid.IntRange(-2, 3).Draw(m.T, "by")
	c, holds := m.cond(id)
	next := m.copyOf(id)
	next[name] += by
	e, err := m.w.r.Apply(m.ctx, space, id, []tiering.EditOp{{Op: "increment", Pointer: "/" + name, By: json.RawMessage(fmt.Sprint(by))}}, &tiering.WriteOptions{If: c})
	if !m.settled(id, holds, tiering.CodeVersionConflict, nil, err) {
		return
	}
	m.store(id, next, nil)
	m.wrote(id, &e.Receipt)
	if string(e.Values[0]) != fmt.Sprint(next[name]) {
		m.Fatalf("the edit answers %s, want %d", e.Values, next[name])
	}
}

func (m *machine) Delete(*rapid.T) {
	id := m.id()
	c, holds := m.cond(id)
	rc, err := m.w.r.Delete(m.ctx, space, id, &tiering.WriteOptions{If: c})
	if m.settled(id, holds, tiering.CodeVersionConflict, rc, err) {
		m.remove(id)
	}
}

func (m *machine) Rollback(*rapid.T) {
	id := m.id()
	d := m.doc(id)
	target := rapid.Int64Range(1, d.version+1).Draw(m.T, "target")
	body, known := d.history[target]
	rc, err := m.w.r.Rollback(m.ctx, space, id, target, nil)
	switch {
	case !known:
		m.settled(id, false, tiering.CodeNotFound, rc, err)
	case body == nil:
		m.settled(id, false, tiering.CodeInvalid, rc, err)
	case m.settled(id, true, "", rc, err):
		m.store(id, body, nil)
		m.wrote(id, rc)
	}
}

func (m *machine) Touch(*rapid.T) {
	id, ttl, exact := m.id(), m.ttl(), rapid.Bool().Draw(m.T, "exact")
	d := m.doc(id)
	live := m.live(d)
	rc, err := m.w.r.Touch(m.ctx, space, id, &tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: ttl}, Exact: exact})
	if !m.settled(id, live, tiering.CodeNotFound, rc, err) {
		return
	}
	if ttl == nil && d.ttl > 0 {
		ttl = &tiering.TTL{Life: d.ttl}
	}
	if ttl != nil {
		asked := *d
		asked.expire(*ttl, m.w.clock.Now())
		longer := asked.expires.IsZero() || !d.expires.IsZero() && !asked.expires.Before(d.expires)
		if exact || longer {
			d.expires, d.ttl = asked.expires, asked.ttl
		}
	}
	m.wrote(id, rc)
}

func (m *machine) Pin(*rapid.T) {
	id, pin := m.id(), rapid.Bool().Draw(m.T, "pin")
	live := m.live(m.doc(id))
	rc, err := m.w.r.Pin(m.ctx, space, id, pin, nil)
	if m.settled(id, live, tiering.CodeNotFound, rc, err) {
		m.doc(id).pinned = pin
		m.wrote(id, rc)
	}
}

func (m *machine) Batch(*rapid.T) {
	isAtomic := rapid.Bool().Draw(m.T, "atomic")
	ids := slices.Clone(machineIDs)[:rapid.IntRange(1, len(machineIDs)).Draw(m.T, "keys")]
	var ops []tiering.BatchOp
	var apply []func()
	failed := -1
	var holds []bool
	for i, short := range ids {
		id := m.prefix + short
		op := tiering.BatchOp{Namespace: space, ID: id}
		ok := true
		if rapid.Bool().Draw(m.T, "guarded") {
			v := m.standing(id)
			if rapid.IntRange(0, 3).Draw(m.T, "wrong") == 0 {
				v = m.doc(id).version + 1
			}
			op.IfVersion, ok = &v, v == m.standing(id)
		}
		switch op.Op = rapid.SampledFrom([]string{"put", "edit", "delete", "check"}).Draw(m.T, "op"); op.Op {
		case "put":
			body := m.body()
			op.Data = body.bytes()
			apply = append(apply, func() { m.store(id, body, nil) })
		case "edit":
			next := m.copyOf(id)
			next["x"]++
			op.Ops = []tiering.EditOp{{Op: "increment", Pointer: "/x"}}
			apply = append(apply, func() { m.store(id, next, nil) })
		case "delete":
			apply = append(apply, func() { m.remove(id) })
		default:
			ok = ok && (op.IfVersion != nil || m.standing(id) != 0)
			apply = append(apply, func() {})
		}
		if !ok && failed < 0 {
			failed = i
		}
		holds = append(holds, ok)
		ops = append(ops, op)
	}
	res, err := m.w.r.Batch(m.ctx, &tiering.Batch{Atomic: isAtomic, Ops: ops})
	if isAtomic {
		m.atomicAnswer(failed, res, err, apply)
		return
	}
	if err != nil {
		m.Fatal(err)
	}
	for i := range ops {
		if got := res.Results[i].Status < http.StatusBadRequest; got != holds[i] {
			m.Fatalf("operation %d answers %+v, want success %t", i, res.Results[i], holds[i])
		}
		if holds[i] {
			apply[i]()
		}
	}
}

func (m *machine) atomicAnswer(failed int, res *tiering.BatchResult, err error, apply []func()) {
	p := tiering.ProblemOf(err)
	switch {
	case failed < 0 && err != nil, failed >= 0 && err == nil:
		m.Fatalf("the batch answers %+v, %v: operation %d had to fail it", res, err, failed)
	case failed >= 0 && (p.FailedOp == nil || *p.FailedOp != failed):
		m.Fatalf("the batch answers %v: operation %d failed it", err, failed)
	case failed < 0:
		for _, do := range apply {
			do()
		}
	}
}

func (m *machine) Pass(*rapid.T) {
	m.w.clock.advance(time.Duration(rapid.IntRange(1, 360).Draw(m.T, "seconds")) * time.Second)
}

func (m *machine) Evict(*rapid.T) {
	if err := m.w.hot.Drop(m.ctx, key(m.id()), 0, 0); err != nil {
		m.Fatal(err)
	}
}

// Whatever is done, in whatever order, reads answer what a map would.
func TestOperationsAgainstAModel(t *testing.T) {
	w := open(t, setup{})
	w.put("first", `0`) // the namespace
	var run atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{T: rt, w: w, ctx: w.ctx, prefix: fmt.Sprintf("run-%d/", run.Add(1)), docs: map[string]*modelDoc{}}
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.Put, "patch": m.Patch, "edit": m.Edit, "delete": m.Delete, "rollback": m.Rollback,
			"touch": m.Touch, "pin": m.Pin, "batch": m.Batch, "pass": m.Pass, "evict": m.Evict, "": m.Check,
		})
	})
}
