package router

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

const scratch = "scratch"

// ephemeral is a world with an ephemeral namespace.
func ephemeral(t *testing.T, p tiering.Policy) *world {
	w := open(t, setup{})
	p.Class = tiering.ClassEphemeral
	w.policy(scratch, p)
	return w
}

func scratchKey(id string) tiering.Key {
	return tiering.Key{Tenant: tiering.DefaultTenant, Namespace: scratch, ID: id}
}

// An ephemeral namespace has put, patch, edit, delete and get, under
// conditions, and leaves nothing in warm.
func TestEphemeralVerbs(t *testing.T) {
	w := ephemeral(t, tiering.Policy{})
	var last int64
	for _, v := range verbs() {
		if v.name == "rollback" || v.name == "touch" || v.name == "pin" {
			continue
		}
		rc, err := v.run(w.ctx, w.r, scratch, "k", tiering.WriteOptions{})
		w.no(err)
		if rc.Version <= last && v.name != "delete" || !rc.Hot {
			t.Errorf("%s made version %d after %d, hot %t", v.name, rc.Version, last, rc.Hot)
		}
		last = rc.Version
		_, err = v.run(w.ctx, w.r, scratch, "k", tiering.WriteOptions{If: tiering.IfVersion(last + 1<<40)})
		if tiering.CodeOf(err) != tiering.CodeVersionConflict {
			t.Errorf("%s on a version that does not stand answers %v", v.name, err)
		}
		if v.name == "delete" {
			break
		}
		d, err := w.r.Get(w.ctx, scratch, "k", nil)
		w.no(err)
		if d.Version != last || d.Tier != tiering.Hot {
			t.Errorf("after %s a get answers version %d from %s", v.name, d.Version, d.Tier)
		}
	}
	if _, err := w.r.Get(w.ctx, scratch, "k", nil); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("a deleted document answers %v", err)
	}
	_, err := w.r.Patch(w.ctx, scratch, "nobody", tiering.JSONPatch, []byte(`[]`), nil)
	if tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("a JSON patch of nothing answers %v", err)
	}
	cur, err := w.warm.Head(w.ctx, scratchKey("k"))
	w.no(err)
	if cur.Head.Version != 0 {
		t.Errorf("warm has version %d", cur.Head.Version)
	}
}

// What needs a durable class is unsupported there, and says so.
func TestEphemeralRefusals(t *testing.T) {
	w := ephemeral(t, tiering.Policy{})
	_, err := w.r.Put(w.ctx, scratch, "k", []byte(`{"n":1}`), nil)
	w.no(err)
	refused := map[string]error{}
	for _, q := range requests() {
		switch q.name {
		case "rollback", "touch", "pin", "versions", "diff", "explain", "list", "query", "watch", "strong get", "get of a version",
			"batch check, atomic false", "batch get, atomic true", "batch check, atomic true", "batch put, atomic true",
			"batch patch, atomic true", "batch edit, atomic true", "batch delete, atomic true":
			refused[q.name] = q.run(w.ctx, w.r, scratch, "k")
		}
	}
	_, refused["a user"] = w.r.Put(w.ctx, scratch, "k", []byte(`1`), &tiering.PutOptions{User: "ann"})
	_, refused["an idempotency key"] = w.r.Put(w.ctx, scratch, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "once"}})
	_, refused["as_of"] = w.r.Get(w.ctx, scratch, "k", &tiering.GetOptions{AsOf: w.clock.Now()})
	_, refused["a key limited to a user"] = w.scoped(tiering.Scope{User: "ann"}).Apply(w.ctx, scratch, "k", increment, nil)
	if len(refused) < 22 {
		t.Fatalf("%d requests were made", len(refused))
	}
	for name, err := range refused {
		if tiering.CodeOf(err) != tiering.CodeUnsupported {
			t.Errorf("%s answers %v", name, err)
		}
	}
	for _, q := range requests() {
		if q.name == "batch put, atomic false" || q.name == "batch get, atomic false" {
			w.no(q.run(w.ctx, w.r, scratch, "k"))
		}
	}
}

// An ephemeral document lives for its ttl, else the policy's, on hot's clock.
func TestEphemeralLife(t *testing.T) {
	w := ephemeral(t, tiering.Policy{TTL: tiering.Duration(time.Minute)})
	put := func(id string, ttl *tiering.TTL) {
		_, err := w.r.Put(w.ctx, scratch, id, []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: ttl}})
		w.no(err)
	}
	put("policy", nil)
	put("hour", &tiering.TTL{Life: time.Hour})
	put("none", &tiering.TTL{None: true})
	for _, step := range []struct {
		pass time.Duration
		live map[string]bool
	}{
		{time.Minute - time.Second, map[string]bool{"policy": true, "hour": true, "none": true}},
		{time.Second, map[string]bool{"policy": false, "hour": true, "none": true}},
		{time.Hour, map[string]bool{"policy": false, "hour": false, "none": true}},
	} {
		w.clock.advance(step.pass)
		for id, want := range step.live {
			_, err := w.r.Get(w.ctx, scratch, id, nil)
			if live := err == nil; live != want {
				t.Errorf("at %v %s answers %v", w.clock.Now(), id, err)
			}
		}
	}
}

// Edits of an ephemeral document are not lost, however many come at once.
func TestEphemeralCounter(t *testing.T) {
	w := ephemeral(t, tiering.Policy{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if _, err := w.r.Apply(w.ctx, scratch, "n", increment, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d, err := w.r.Get(w.ctx, scratch, "n", nil)
	w.no(err)
	if string(d.Body) != `{"n":64}` {
		t.Errorf("64 increments made %s", d.Body)
	}
}

// damaged is a hot store in which a value of key was changed by nobody.
type damaged struct {
	hot.Store
	key tiering.Key
	on  *bool
}

func (d damaged) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	l, err := d.Store.Get(ctx, key, lease)
	if *d.on && key == d.key && l.State == hot.Present {
		l.Entry.Body = []byte(`{"n":666}`)
	}
	return l, err
}

// Damaged bytes in hot are served to nobody: a durable document comes from
// warm, an ephemeral one is lost, and can be made again.
func TestDamagedInHot(t *testing.T) {
	for _, ns := range []string{space, scratch} {
		t.Run(ns, func(t *testing.T) {
			on := false
			k := tiering.Key{Tenant: tiering.DefaultTenant, Namespace: ns, ID: "k"}
			w := open(t, setup{hot: func(s hot.Store) hot.Store { return damaged{s, k, &on} }})
			w.policy(scratch, tiering.Policy{Class: tiering.ClassEphemeral})
			_, err := w.r.Put(w.ctx, ns, "k", []byte(`{"n":1}`), nil)
			w.no(err)
			on = true
			d, err := w.r.Get(w.ctx, ns, "k", nil)
			switch ns {
			case space:
				w.no(err)
				if string(d.Body) != `{"n":1}` || d.Tier != tiering.Warm {
					t.Errorf("the answer is %s from %s", d.Body, d.Tier)
				}
			default:
				if tiering.CodeOf(err) != tiering.CodeNotFound {
					t.Errorf("the answer is %+v, %v", d, err)
				}
			}
			ctx, cancel := context.WithTimeout(w.ctx, patience)
			defer cancel()
			e, err := w.r.Apply(ctx, ns, "k", increment, nil)
			w.no(err)
			if want := map[string]string{space: "2", scratch: "1"}[ns]; string(e.Values[0]) != want {
				t.Errorf("an edit answers %s, want %s", e.Values, want)
			}
		})
	}
}

// hanging is a hot store that answers nothing until its caller gives up.
type hanging struct{ hot.Store }

func (hanging) Get(ctx context.Context, _ tiering.Key, _ bool) (hot.Lookup, error) {
	<-ctx.Done()
	return hot.Lookup{}, ctx.Err()
}

func (hanging) Mark(ctx context.Context, _ tiering.Key, _ hot.Token) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Set(ctx context.Context, _ hot.Set) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func (hanging) Swap(ctx context.Context, _ tiering.Key, _ tiering.Condition, _ []byte, _ time.Duration) (hot.Entry, bool, error) {
	<-ctx.Done()
	return hot.Entry{}, false, ctx.Err()
}

// With hot down, failing or hanging, every durable operation works in bounded
// time and says that hot did not take it; ephemeral documents are unavailable.
func TestHotDown(t *testing.T) {
	for name, s := range map[string]setup{
		"failing": {},
		"hanging": {
			hot:    func(s hot.Store) hot.Store { return hanging{s} },
			config: func(c *Config) { c.HotTimeout = time.Millisecond },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, s)
			w.policy(scratch, tiering.Policy{Class: tiering.ClassEphemeral})
			if name == "failing" {
				w.failAll(func(call string) error {
					if call[:4] == "hot." {
						return errHotLost
					}
					return nil
				})
			}
			began := time.Now()
			for _, v := range verbs() {
				w.put("k/"+v.name, `{"n":1}`)
				rc, err := v.run(w.ctx, w.r, space, "k/"+v.name, tiering.WriteOptions{})
				w.no(err)
				if rc.Hot {
					t.Errorf("%s says that hot took it", v.name)
				}
			}
			for _, q := range requests() {
				if q.verb != tiering.VerbRead {
					continue
				}
				id := "r/" + q.name
				w.put(id, `{"n":1}`)
				if err := q.run(w.ctx, w.r, space, id); err != nil {
					t.Errorf("%s answers %v", q.name, err)
				}
			}
			res, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
				{Op: "put", Namespace: space, ID: "batch", Data: json.RawMessage(`1`)}, {Op: "edit", Namespace: space, ID: "k/put", Ops: increment},
			}})
			w.no(err)
			if res.Results[0].Receipt.Hot {
				t.Error("a batch says that hot took it")
			}
			for _, o := range []*tiering.GetOptions{nil, {Strong: true}, {MinVersion: 3}} {
				if got := w.read("k/put", o); got != `{"n":10}` {
					t.Errorf("a get with %+v answers %s", o, got)
				}
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("all of it took %v", took)
			}
			for _, v := range verbs()[:5] {
				if _, err := v.run(w.ctx, w.r, scratch, "k", tiering.WriteOptions{}); tiering.CodeOf(err) != tiering.CodeUnavailable {
					t.Errorf("an ephemeral %s answers %v", v.name, err)
				}
			}
			if d, err := w.r.Get(w.ctx, scratch, "k", &tiering.GetOptions{Default: []byte(`1`)}); tiering.CodeOf(err) != tiering.CodeUnavailable {
				t.Errorf("an ephemeral get answers %+v, %v", d, err)
			}
			e, err := w.r.Explain(w.ctx, space, "k/put")
			w.no(err)
			if got := fmt.Sprint(e.Copies[0].Tier, " ", e.Copies[0].State); got != "hot unreachable" {
				t.Errorf("explain says %s", got)
			}
		})
	}
}
