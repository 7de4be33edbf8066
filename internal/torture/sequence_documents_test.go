package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// place is a key of a sequence.
type place struct {
	ns, id string
	owned  bool // by the sequence's user
}

var (
	documentPlaces = []place{{kept, "a", true}, {kept, "b", false}, {brief, "b/c", false}, {brief, "d", true}}
	logPlaces      = []place{{lines, "e", true}, {lines, "f", false}}
)

// fields is a document: names with numbers.
type fields map[string]int

func (f fields) bytes() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return b
}

// equal reports whether a document has these fields, in whatever order edits have left
// them.
func (f fields) equal(body json.RawMessage) bool {
	var g fields
	return json.Unmarshal(body, &g) == nil && maps.Equal(f, g)
}

// expected is what has to stand under a key.
type expected struct {
	version int64            // the last one
	body    fields           // nil: nothing stands
	past    map[int64]fields // what versions held, nil for a deletion
	ended   bool             // by itself: the store records that as a version
	erases  int64            // those that were done before the last version
}

func (d *expected) erased() { d.body, d.past = nil, map[int64]fields{} }

// next reports whether v may follow, where so many erases had begun. An erase has all
// versions of its namespace go on above the highest that it took.
func (d *expected) next(v, begun int64) bool {
	switch {
	case v <= d.version:
		return false
	case begun > d.erases:
		return true
	case d.ended:
		return v <= d.version+2
	}
	return v == d.version+1
}

func (d *expected) standing() int64 {
	if d.body == nil {
		return 0
	}
	return d.version
}

// edited is a copy of what stands, to be changed.
func (d *expected) edited() fields {
	if d.body == nil {
		return fields{}
	}
	return maps.Clone(d.body)
}

func (s *sequence) id(p place) string { return s.run + "/" + p.id }

func (s *sequence) place(rt *rapid.T) place {
	return rapid.SampledFrom(documentPlaces).Draw(rt, "place")
}

func (s *sequence) doc(p place) *expected {
	if s.docs[p] == nil {
		s.docs[p] = &expected{past: map[int64]fields{}}
	}
	return s.docs[p]
}

// lives draws a key under which something stands.
func (s *sequence) lives(rt *rapid.T) (place, *expected) {
	var all []place
	for _, p := range documentPlaces {
		if s.doc(p).body != nil {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		rt.Skip("nothing stands")
	}
	p := rapid.SampledFrom(all).Draw(rt, "place")
	return p, s.doc(p)
}

func (s *sequence) user(p place) string {
	if p.owned {
		return s.run
	}
	return ""
}

func drawFields(rt *rapid.T) fields {
	f := fields{}
	for _, name := range []string{"x", "y"} {
		if rapid.Bool().Draw(rt, "has "+name) {
			f[name] = rapid.IntRange(0, 5).Draw(rt, name)
		}
	}
	return f
}

// condition draws one, and whether it holds.
func (s *sequence) condition(rt *rapid.T, d *expected) (tiering.Condition, bool) {
	var c tiering.Condition
	switch rapid.IntRange(0, 6).Draw(rt, "condition") {
	case 0:
		c = tiering.IfAbsent()
	case 1:
		c = tiering.IfExists()
	case 2:
		c = tiering.IfVersion(d.standing())
	case 3:
		c = tiering.IfVersion(d.version + 1<<40)
	case 4:
		if d.version > 1 {
			c = tiering.IfVersion(d.version - 1)
		}
	}
	return c, c.Holds(d.standing())
}

// unheeded is said of a write that was carried out, or refused for something else.
const unheeded = "a condition that does not hold was not heeded"

// write makes a call that stores body, under a condition that holds or does not.
func (s *sequence) write(d *expected, holds bool, body fields, do func(c *client.Client) (*tiering.Receipt, error)) {
	s.Helper()
	var rc *tiering.Receipt
	erases := s.w.done.Load()
	err := s.call(func(c *client.Client) (err error) {
		rc, err = do(c)
		return err
	})
	switch {
	case !holds:
		if tiering.CodeOf(err) != tiering.CodeVersionConflict {
			s.Fatalf("%s, at version %d: %+v, %v", unheeded, d.standing(), rc, err)
		}
		s.w.counts.refused.Add(1)
		return
	case err != nil:
		s.Fatalf("%+v", err)
	case !d.next(rc.Version, s.w.begun.Load()):
		s.Fatalf("%s got version %d after %d", rc.ID, rc.Version, d.version)
	case body != nil && rc.Created != (d.body == nil):
		s.Fatalf("%s version %d: created is %t", rc.ID, rc.Version, rc.Created)
	}
	d.version, d.body, d.ended, d.erases = rc.Version, body, false, erases
	d.past[d.version] = body
}

func (s *sequence) Put(rt *rapid.T) {
	p, body := s.place(rt), drawFields(rt)
	d := s.doc(p)
	cond, holds := s.condition(rt, d)
	s.write(d, holds, body, func(c *client.Client) (*tiering.Receipt, error) {
		return c.Put(s.ctx, p.ns, s.id(p), body.bytes(), &tiering.PutOptions{User: s.user(p), WriteOptions: tiering.WriteOptions{If: cond}})
	})
}

func (s *sequence) Patch(rt *rapid.T) {
	p, d := s.lives(rt)
	name, n := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name"), rapid.IntRange(0, 5).Draw(rt, "n")
	cond, holds := s.condition(rt, d)
	patch, next := fmt.Sprintf(`{%q:%d}`, name, n), d.edited()
	next[name] = n
	if rapid.Bool().Draw(rt, "drop") {
		patch = fmt.Sprintf(`{%q:null}`, name)
		delete(next, name)
	}
	s.write(d, holds, next, func(c *client.Client) (*tiering.Receipt, error) {
		return c.Patch(s.ctx, p.ns, s.id(p), tiering.MergePatch, []byte(patch), &tiering.WriteOptions{If: cond})
	})
}

func (s *sequence) Edit(rt *rapid.T) {
	p, d := s.lives(rt)
	by := rapid.IntRange(-2, 3).Draw(rt, "by")
	cond, holds := s.condition(rt, d)
	next := d.edited()
	next["x"] += by
	s.write(d, holds, next, func(c *client.Client) (*tiering.Receipt, error) {
		e, err := c.Apply(s.ctx, p.ns, s.id(p), []tiering.EditOp{{Op: "increment", Pointer: "/x", By: json.RawMessage(fmt.Sprint(by))}}, &tiering.WriteOptions{If: cond})
		if err != nil {
			return nil, err
		}
		return &e.Receipt, nil
	})
}

func (s *sequence) Delete(rt *rapid.T) {
	p, d := s.lives(rt)
	cond, holds := s.condition(rt, d)
	s.write(d, holds, nil, func(c *client.Client) (*tiering.Receipt, error) {
		return c.Delete(s.ctx, p.ns, s.id(p), &tiering.WriteOptions{If: cond})
	})
}

func (s *sequence) Rollback(rt *rapid.T) {
	p := s.place(rt)
	d := s.doc(p)
	var targets []int64
	for v, body := range d.past {
		if body != nil {
			targets = append(targets, v)
		}
	}
	if len(targets) == 0 {
		rt.Skip("there is no version")
	}
	slices.Sort(targets)
	target := rapid.SampledFrom(targets).Draw(rt, "target")
	s.write(d, true, maps.Clone(d.past[target]), func(c *client.Client) (*tiering.Receipt, error) {
		return c.Rollback(s.ctx, p.ns, s.id(p), target, nil)
	})
	s.w.counts.rolledBack.Add(1)
}

// life is the shortest that there is.
var life = &tiering.TTL{Life: time.Millisecond}

// Expire writes what has ended when anybody looks.
func (s *sequence) Expire(rt *rapid.T) {
	p, body := s.place(rt), drawFields(rt)
	d := s.doc(p)
	s.write(d, true, body, func(c *client.Client) (*tiering.Receipt, error) {
		return c.Put(s.ctx, p.ns, s.id(p), body.bytes(), &tiering.PutOptions{User: s.user(p), WriteOptions: tiering.WriteOptions{TTL: life}})
	})
	s.outlive(d)
}

func (s *sequence) ExpireByTouch(rt *rapid.T) {
	p, d := s.lives(rt)
	s.must(func(c *client.Client) error {
		_, err := c.Touch(s.ctx, p.ns, s.id(p), &tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: life}, Exact: true})
		return err
	})
	s.outlive(d)
}

func (s *sequence) outlive(d *expected) {
	time.Sleep(2 * life.Life)
	d.body, d.ended = nil, true
	s.w.counts.expired.Add(1)
}

func (s *sequence) Demote(rt *rapid.T) {
	p, _ := s.lives(rt)
	s.must(func(c *client.Client) error {
		for {
			_, err := c.Demote(s.ctx, p.ns, s.id(p))
			if err == nil || !tiering.Retryable(err) { // else the copies are not there yet
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	s.w.counts.demoted.Add(1)
}

func (s *sequence) Promote(rt *rapid.T) {
	p, _ := s.lives(rt)
	s.must(func(c *client.Client) error {
		_, err := c.Promote(s.ctx, p.ns, s.id(p))
		return err
	})
	s.w.counts.promoted.Add(1)
}
