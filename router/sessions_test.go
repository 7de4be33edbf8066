package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

func (w *world) session(n tiering.NewSession) *tiering.Session {
	w.Helper()
	s, err := w.r.Sessions().Create(w.ctx, &n)
	w.no(err)
	return s
}

// sessionEvents are the callers' events of a session, as text.
func (w *world) sessionEvents(id string) string {
	w.Helper()
	page, err := w.r.Sessions().Events(w.ctx, id, &tiering.EntriesOptions{Limit: 1000})
	w.no(err)
	page.Entries = slices.DeleteFunc(page.Entries, func(e tiering.Entry) bool { return whatOf(e.Data) != "event" })
	return shown(page)
}

func code(t *testing.T, what string, err error, want tiering.Code) {
	t.Helper()
	if tiering.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestTheLifeOfASession(t *testing.T) {
	for _, place := range []place{embedded, shared, servers} {
		t.Run(place.String(), func(t *testing.T) {
			w := open(t, setup{place: place})
			all := w.r.Sessions()
			s := w.session(tiering.NewSession{User: "ann", Agent: "planner", State: json.RawMessage(`{"step":1,"temp:x":1}`), Events: numbers(1, 1)})
			if s.ID == "" || s.Version != 1 || s.LastSeq != 2 || string(s.State) != `{"step":1}` || s.ExpiresAt.IsZero() {
				t.Errorf("created: %+v", s)
			}
			a, err := all.Append(w.ctx, s.ID, numbers(2, 3), nil, nil)
			w.no(err)
			if a.FirstSeq != 3 || a.LastSeq != 4 {
				t.Errorf("events alone: %+v", a)
			}
			one := int64(1)
			a, err = all.Append(w.ctx, s.ID, numbers(4, 4), &tiering.SessionPatch{State: json.RawMessage(`{"step":2,"gone":null}`)}, &tiering.SessionWrite{IfVersion: &one})
			w.no(err)
			if a.FirstSeq != 5 || a.LastSeq != 5 || a.Version != 2 {
				t.Errorf("events with state: %+v", a)
			}
			_, err = all.Append(w.ctx, s.ID, numbers(5, 5), &tiering.SessionPatch{State: json.RawMessage(`{"step":3}`)}, &tiering.SessionWrite{IfVersion: &one})
			code(t, "another version", err, tiering.CodeVersionConflict)
			_, err = all.Append(w.ctx, s.ID, numbers(5, 5), nil, &tiering.SessionWrite{ExpectSeq: &one})
			code(t, "another last number", err, tiering.CodeSeqConflict)
			status, half := "running", 0.5
			s, err = all.Patch(w.ctx, s.ID, &tiering.SessionPatch{Status: &status, Progress: &half}, nil)
			w.no(err)
			if s.Status != "running" || *s.Progress != 0.5 || string(s.State) != `{"step":2}` || s.Version != 3 {
				t.Errorf("patched: %+v", s)
			}
			if got := w.sessionEvents(s.ID); got != "2=1 3=2 4=3 5=4" {
				t.Errorf("the events are %s", got)
			}
			_, err = all.Create(w.ctx, &tiering.NewSession{ID: s.ID})
			code(t, "a session that exists", err, tiering.CodeVersionConflict)
			_, err = all.Append(w.ctx, s.ID, []json.RawMessage{[]byte(`{"type":"tierd.resumed"}`)}, nil, nil)
			code(t, "an event like tierd's own", err, tiering.CodeInvalid)
			_, err = all.Append(w.ctx, "nobody", numbers(1, 1), nil, nil)
			code(t, "a session that never was", err, tiering.CodeNotFound)
			w.no(all.Delete(w.ctx, s.ID, nil))
			_, err = all.Get(w.ctx, s.ID)
			code(t, "the deleted session", err, tiering.CodeNotFound)
			_, err = all.Append(w.ctx, s.ID, numbers(1, 1), nil, nil)
			code(t, "an append to it", err, tiering.CodeNotFound)
			again := w.session(tiering.NewSession{ID: s.ID})
			if got := w.sessionEvents(s.ID); got != "" || again.LastSeq <= 5 {
				t.Errorf("made anew it has %s up to %d", got, again.LastSeq)
			}
		})
	}
}

// Everything slides the one life of a session, and when it is over nothing of it is
// found; the sweep then takes all of it.
func TestASessionHasOneLife(t *testing.T) {
	a := openArchived(t)
	all := a.r.Sessions()
	a.session(tiering.NewSession{ID: "s", TTL: "1h", User: "ann"})
	_, err := all.Checkpoint(a.ctx, "s", "c", nil)
	a.no(err)
	for name, use := range map[string]func() error{
		"events": func() error { _, err := all.Append(a.ctx, "s", numbers(1, 1), nil, nil); return err },
		"state": func() error {
			_, err := all.Patch(a.ctx, "s", &tiering.SessionPatch{State: json.RawMessage(`{"n":1}`)}, nil)
			return err
		},
		"a step": func() error { _, err := all.Step(a.ctx, "s", "x", nil, nil); return err },
		"a lease": func() error {
			l, err := all.AcquireLease(a.ctx, "s", &tiering.LeaseRequest{Holder: "h", TTL: "2h"})
			if err == nil && !l.ExpiresAt.Equal(a.clock.Now().Add(time.Hour)) {
				t.Errorf("the session lives for an hour, the lease until %v", l.ExpiresAt)
			}
			return err
		},
		"a read of events": func() error { _, err := all.Events(a.ctx, "s", nil); return err },
		"a context": func() error {
			_, err := all.Context(a.ctx, "s", &tiering.ContextOptions{Budget: 1000})
			return err
		},
		"a timeline":            func() error { _, err := all.Timeline(a.ctx, "s", nil); return err },
		"an export":             func() error { _, err := all.Export(a.ctx, "s"); return err },
		"a list of steps":       func() error { _, err := all.Steps(a.ctx, "s"); return err },
		"a list of checkpoints": func() error { _, err := all.Checkpoints(a.ctx, "s"); return err },
	} {
		a.clock.advance(50 * time.Minute)
		a.no(use())
		a.r.background.Wait()
		a.clock.advance(50 * time.Minute)
		s, err := all.Get(a.ctx, "s")
		if err != nil || !s.ExpiresAt.After(a.clock.Now()) {
			t.Fatalf("after %s: %+v, %v", name, s, err)
		}
		a.r.background.Wait() // for the slide of the get
	}
	a.clock.advance(61 * time.Minute)
	for name, use := range map[string]func() error{
		"get":    func() error { _, err := all.Get(a.ctx, "s"); return err },
		"events": func() error { _, err := all.Events(a.ctx, "s", nil); return err },
		"append": func() error { _, err := all.Append(a.ctx, "s", numbers(1, 1), nil, nil); return err },
		"patch": func() error {
			_, err := all.Patch(a.ctx, "s", &tiering.SessionPatch{State: json.RawMessage(`{}`)}, nil)
			return err
		},
		"checkpoints": func() error { _, err := all.Checkpoints(a.ctx, "s"); return err },
		"steps":       func() error { _, err := all.Steps(a.ctx, "s"); return err },
		"lease":       func() error { _, err := all.AcquireLease(a.ctx, "s", &tiering.LeaseRequest{Holder: "h"}); return err },
	} {
		code(t, name+" of an expired session", use(), tiering.CodeNotFound)
	}
	page, err := all.List(a.ctx, nil)
	if err != nil || len(page.Sessions) != 0 {
		t.Errorf("the list shows %+v, %v", page, err)
	}
	a.no(a.engine.Sweep(a.ctx))
	for _, ns := range []string{tiering.SessionNamespace, tiering.SessionEventsNamespace, tiering.SessionPartsNamespace} {
		if left, err := a.r.List(a.ctx, ns, nil); err != nil || len(left.Items) != 0 {
			t.Errorf("%s holds %+v, %v", ns, left, err)
		}
	}
}

// 64 appenders to one session: nothing is lost, and the numbers are dense.
func TestManyAppendToOneSession(t *testing.T) {
	for _, place := range []place{shared, servers} {
		t.Run(place.String(), func(t *testing.T) {
			w := open(t, setup{place: place})
			w.session(tiering.NewSession{ID: "s"})
			var wg sync.WaitGroup
			for n := range 64 {
				wg.Go(func() {
					all := []*Router{w.r, w.writer}[n%2].Sessions()
					for i := range 4 {
						var p *tiering.SessionPatch
						if i == 3 {
							p = &tiering.SessionPatch{State: json.RawMessage(fmt.Sprintf(`{"n%d":1}`, n))}
						}
						if _, err := all.Append(w.ctx, "s", numbers(n*10+i, n*10+i), p, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			page, err := w.r.Sessions().Events(w.ctx, "s", &tiering.EntriesOptions{Limit: 1000})
			w.no(err)
			seen := map[string]bool{}
			for i, e := range page.Entries {
				if e.Seq != int64(i+1) {
					t.Fatalf("entry %d has number %d", i+1, e.Seq)
				}
				seen[string(e.Data)] = true
			}
			if len(seen) != 64*4+1 {
				t.Errorf("%d entries of %d are there", len(seen), 64*4+1)
			}
			s, err := w.r.Sessions().Get(w.ctx, "s")
			if err != nil || strings.Count(string(s.State), ":1") != 64 {
				t.Errorf("the state is %s, %v", s.State, err)
			}
		})
	}
}

func TestSharedState(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.session(tiering.NewSession{ID: "a", User: "ann/x", App: "..", State: json.RawMessage(`{"user:lang":"pt","app:theme":"dark","own":1}`)})
	w.session(tiering.NewSession{ID: "b", User: "ann/x", App: "desk"})
	w.session(tiering.NewSession{ID: "c", App: ".."})
	for id, want := range map[string]string{
		"a": `{"own":1,"user:lang":"pt","app:theme":"dark"}`, "b": `{"user:lang":"pt"}`, "c": `{"app:theme":"dark"}`,
	} {
		s, err := all.Get(w.ctx, id)
		w.no(err)
		if string(s.State) != want {
			t.Errorf("%s has %s, want %s", id, s.State, want)
		}
	}
	_, err := all.Patch(w.ctx, "c", &tiering.SessionPatch{State: json.RawMessage(`{"user:x":1}`)}, nil)
	code(t, "a user's key without a user", err, tiering.CodeInvalid)
}

func TestSessionsAreListedNewestFirst(t *testing.T) {
	w := open(t, setup{})
	for i, id := range []string{"a", "b", "c", "d"} {
		w.session(tiering.NewSession{ID: id, User: []string{"ann", "bob"}[i%2], Agent: "planner", Status: []string{"", "done"}[i/2]})
		w.advance(time.Second)
	}
	list := func(q tiering.SessionQuery) string {
		t.Helper()
		page, err := w.r.Sessions().List(w.ctx, &q)
		w.no(err)
		var ids []string
		for _, s := range page.Sessions {
			ids = append(ids, s.ID)
		}
		return strings.Join(ids, " ")
	}
	for _, c := range []struct {
		q    tiering.SessionQuery
		want string
	}{{tiering.SessionQuery{}, "d c b a"}, {tiering.SessionQuery{User: "ann"}, "c a"}, {tiering.SessionQuery{Status: "done"}, "d c"}, {tiering.SessionQuery{Limit: 2}, "d c"}, {tiering.SessionQuery{Agent: "nobody"}, ""}} {
		if got := list(c.q); got != c.want {
			t.Errorf("%+v lists %s, want %s", c.q, got, c.want)
		}
	}
	bob := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "bob"}}).Sessions()
	page, err := bob.List(w.ctx, nil)
	if err != nil || len(page.Sessions) != 2 {
		t.Errorf("bob sees %+v, %v", page, err)
	}
	_, err = bob.Get(w.ctx, "a")
	code(t, "another user's session", err, tiering.CodeNotFound)
	if _, err := bob.Append(w.ctx, "a", numbers(1, 1), nil, nil); err == nil {
		t.Error("bob appends to ann's session")
	}
}

// A holder that was stopped past the end of its lease is fenced when it wakes,
// whatever it writes; tokens only grow.
func TestAStaleHolderIsFenced(t *testing.T) {
	for _, place := range []place{embedded, servers} {
		t.Run(place.String(), func(t *testing.T) {
			w := open(t, setup{place: place})
			all := w.r.Sessions()
			w.session(tiering.NewSession{ID: "s", TTL: "1h"})
			w.session(tiering.NewSession{ID: "of another"})
			ttl := tiering.Duration(w.unit).String()
			first, err := all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "one", TTL: ttl})
			w.no(err)
			renewed, err := all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "one", TTL: ttl})
			w.no(err)
			if renewed.Token != first.Token {
				t.Errorf("renewed under token %d, was %d", renewed.Token, first.Token)
			}
			_, err = all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "two", TTL: ttl})
			var e *tiering.Error
			if !errors.As(err, &e) || e.Code != tiering.CodeLeaseHeld || e.Lease == nil || e.Lease.Holder != "one" || e.Lease.ExpiresAt.IsZero() {
				t.Errorf("a held lease: %v", err)
			}
			fence := first.Fence()
			writes := map[string]func(f *tiering.Fence) error{
				"put": func(f *tiering.Fence) error {
					_, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{Fence: f}})
					return err
				},
				"edit": func(f *tiering.Fence) error {
					_, err := w.r.Apply(w.ctx, space, "e", increment, &tiering.WriteOptions{Fence: f})
					return err
				},
				"append to a log": func(f *tiering.Fence) error {
					_, err := w.r.Append(w.ctx, logs, "c", numbers(1, 2), &tiering.AppendOptions{Fence: f})
					return err
				},
				"append": func(f *tiering.Fence) error {
					_, err := all.Append(w.ctx, "s", numbers(1, 1), nil, &tiering.SessionWrite{Fence: f})
					return err
				},
				"delete": func(f *tiering.Fence) error {
					if err := all.Delete(w.ctx, "of another", &tiering.SessionWrite{Fence: f}); err != nil {
						return err
					}
					_, err := all.Create(w.ctx, &tiering.NewSession{ID: "of another"})
					return err
				},
				"step": func(f *tiering.Fence) error {
					_, err := all.Step(w.ctx, "s", "x", nil, &tiering.SessionWrite{Fence: f})
					return err
				},
			}
			for name, write := range writes {
				if err := write(&fence); err != nil {
					t.Errorf("%s under the lease: %v", name, err)
				}
			}
			w.advance(w.unit)
			for name, write := range writes {
				code(t, name+" after its end", write(&fence), tiering.CodeFenced)
			}
			second, err := all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "two", TTL: ttl})
			w.no(err)
			if second.Token <= first.Token {
				t.Errorf("token %d follows %d", second.Token, first.Token)
			}
			for name, write := range writes {
				code(t, name+" while another holds it", write(&fence), tiering.CodeFenced)
			}
			code(t, "a release of another's", all.ReleaseLease(w.ctx, "s", first.Token), tiering.CodeFenced)
			w.no(all.ReleaseLease(w.ctx, "s", second.Token))
			third, err := all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "one", TTL: ttl})
			if err != nil || third.Token <= second.Token {
				t.Errorf("after the release: %+v, %v", third, err)
			}
			d, err := w.r.Get(w.ctx, space, "e", &tiering.GetOptions{Strong: true})
			if err != nil || string(d.Body) != `{"n":1}` || d.Version != 1 {
				t.Errorf("the edited document: %+v, %v", d, err)
			}
		})
	}
}

func TestStepsRunOnce(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.session(tiering.NewSession{ID: "s"})
	do := func(what string, r *tiering.StepRequest, o *tiering.SessionWrite, status string, replayed bool, output string) *tiering.Step {
		t.Helper()
		st, err := all.Step(w.ctx, "s", "charge", r, o)
		w.no(err)
		if st.Status != status || st.Replayed != replayed || string(st.Output) != output {
			t.Errorf("%s: %+v, want %s, replayed %t, %s", what, st, status, replayed, output)
		}
		return st
	}
	_, err := all.Step(w.ctx, "s", "charge", &tiering.StepRequest{Output: json.RawMessage(`1`)}, nil)
	code(t, "completed before it was claimed", err, tiering.CodeInvalid)
	once := &tiering.SessionWrite{IdempotencyKey: "claim"}
	first := do("the claim", nil, once, tiering.StepClaimed, false, "")
	do("the same claim, whose answer was lost", nil, once, tiering.StepUnknown, true, "")
	unknown := do("claimed by another", nil, nil, tiering.StepUnknown, false, "")
	again := do("claimed once more", &tiering.StepRequest{Again: true}, nil, tiering.StepClaimed, false, "")
	if unknown.Key != first.Key || again.Key != first.Key || again.Attempts != 2 {
		t.Errorf("keys %s, %s, %s, attempts %d", first.Key, unknown.Key, again.Key, again.Attempts)
	}
	do("completed", &tiering.StepRequest{Output: json.RawMessage(` {"ok": true}`)}, nil, tiering.StepDone, false, `{"ok":true}`)
	do("claimed when it was done", nil, nil, tiering.StepDone, true, `{"ok":true}`)
	do("the claim by its key when it was done", nil, once, tiering.StepDone, true, `{"ok":true}`)
	do("completed again", &tiering.StepRequest{Output: json.RawMessage(`2`)}, nil, tiering.StepDone, true, `{"ok":true}`)
	steps, err := all.Steps(w.ctx, "s")
	if err != nil || len(steps) != 1 || steps[0].Status != tiering.StepDone {
		t.Errorf("the steps: %+v, %v", steps, err)
	}
}

func TestCheckpoints(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	say := func(id, text string) {
		t.Helper()
		_, err := all.Append(w.ctx, id, []json.RawMessage{[]byte(`{"role":"user","content":"` + text + `"}`)}, &tiering.SessionPatch{State: json.RawMessage(`{"said":"` + text + `"}`)}, nil)
		w.no(err)
		w.advance(time.Second)
	}
	w.session(tiering.NewSession{ID: "s", User: "ann"})
	say("s", "one")
	c, err := all.Checkpoint(w.ctx, "s", "before", nil)
	w.no(err)
	if c.Version != 2 || c.Seq != 2 {
		t.Errorf("the checkpoint: %+v", c)
	}
	w.advance(time.Second)
	say("s", "two")
	s, err := all.Resume(w.ctx, "s", "before", nil)
	w.no(err)
	if string(s.State) != `{"said":"one"}` {
		t.Errorf("resumed to %s", s.State)
	}
	w.advance(time.Second)
	say("s", "three")
	got, err := all.Context(w.ctx, "s", &tiering.ContextOptions{Budget: 100})
	w.no(err)
	if text := fmt.Sprintf("%s", got.Messages); strings.Contains(text, "two") || !strings.Contains(text, "one") || !strings.Contains(text, "three") {
		t.Errorf("the context holds %s", text)
	}
	if all := w.sessionEvents("s"); !strings.Contains(all, "two") {
		t.Errorf("the events hold %s", all)
	}
	b, err := all.Branch(w.ctx, "s", "before", &tiering.NewSession{ID: "t"})
	w.no(err)
	if b.User != "ann" || string(b.State) != `{"said":"one"}` || w.sessionEvents("t") != `2={"role":"user","content":"one"}` {
		t.Errorf("the branch: %+v with %s", b, w.sessionEvents("t"))
	}
	_, err = all.Resume(w.ctx, "s", "never", nil)
	code(t, "a checkpoint that never was", err, tiering.CodeNotFound)

	line, err := all.Timeline(w.ctx, "s", nil)
	w.no(err)
	var what []string
	for _, i := range line.Items {
		what = append(what, i.What)
	}
	if got := strings.Join(what, " "); got != "created version event version checkpoint event version resumed version event version" {
		t.Errorf("the timeline is %s", got)
	}
	if diff := string(line.Items[3].Diff); !strings.Contains(diff, `"/state/said"`) {
		t.Errorf("the first change is %s", diff)
	}

	e, err := all.Export(w.ctx, "s")
	w.no(err)
	w.no(all.Delete(w.ctx, "s", nil))
	back, err := all.Import(w.ctx, e)
	w.no(err)
	cs, err := all.Checkpoints(w.ctx, "s")
	w.no(err)
	if string(back.State) != `{"said":"three"}` || len(cs) != 1 || strings.Count(w.sessionEvents("s"), "role") != 3 {
		t.Errorf("imported: %+v, %+v, %s", back, cs, w.sessionEvents("s"))
	}
}

// A watch of a session sees its events and changes, and nobody else's.
func TestWatchOfASession(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "other"})
	w.session(tiering.NewSession{ID: "s"})
	_, err := w.r.Sessions().Append(w.ctx, "s", numbers(1, 2), &tiering.SessionPatch{State: json.RawMessage(`{"n":1}`)}, nil)
	w.no(err)
	var got []string
	for _, e := range w.watched(w.r, &tiering.WatchOptions{Session: "s", From: "start", Data: true}) {
		got = append(got, fmt.Sprintf("%s %d", e.Type, e.Version))
	}
	if want := "log.appended 1, session.put 1, log.appended 2, log.appended 3, session.put 2"; strings.Join(got, ", ") != want {
		t.Errorf("it saw %s, want %s", strings.Join(got, ", "), want)
	}
}
