package router

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// fate is what becomes of one transaction on a connection that is lost.
type fate int

const (
	lucky     fate = iota
	committed      // and the answer is lost
	sunk           // it never reached the server, which nobody knows
	voided         // likewise, and the driver settled by itself that it never will
)

// unlucky is a warm store that loses the connection at the next transaction, and once
// more at the first try to settle it.
type unlucky struct {
	warm.Store
	next atomic.Int64 // a fate
	deaf atomic.Bool
}

func (u *unlucky) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency, decide func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	switch f := fate(u.next.Swap(int64(lucky))); f {
	case sunk:
		u.deaf.Store(true)
		return nil, false, fmt.Errorf("%w: connection reset", warm.ErrOutcomeUnknown)
	case voided:
		return nil, false, nil
	case committed:
		if results, ok, err := u.Store.Atomic(ctx, id, keys, idem, decide); err != nil || !ok {
			return results, ok, err
		}
		u.deaf.Store(true)
		return nil, false, fmt.Errorf("%w: connection reset", warm.ErrOutcomeUnknown)
	}
	return u.Store.Atomic(ctx, id, keys, idem, decide)
}

func (u *unlucky) Resolve(ctx context.Context, b *warm.Batch) ([][]warm.Result, bool, error) {
	if u.deaf.Swap(false) {
		return nil, false, fmt.Errorf("connection refused")
	}
	return u.Store.Resolve(ctx, b)
}

// A change of a session whose commit was cut off is made once, and answered as if
// nothing had been.
func TestALostCommitOfASessionIsSettled(t *testing.T) {
	for name, f := range map[string]fate{"its answer was lost": committed, "it never came": sunk, "the driver voided it": voided} {
		t.Run(name, func(t *testing.T) {
			for _, place := range []place{embedded, servers} {
				t.Run(place.String(), func(t *testing.T) {
					u := &unlucky{}
					w := open(t, setup{place: place, warm: func(s warm.Store) warm.Store { u.Store = s; return u }})
					all := w.r.Sessions()
					w.session(tiering.NewSession{ID: "s"})
					u.next.Store(int64(f))
					a, err := all.Append(w.ctx, "s", numbers(1, 1), &tiering.SessionPatch{State: json.RawMessage(`{"n":1}`)}, nil)
					w.no(err)
					if a.FirstSeq != 2 || a.Version != 2 || w.sessionEvents("s") != "2=1" {
						t.Errorf("appended: %+v, %s", a, w.sessionEvents("s"))
					}
					u.next.Store(int64(f))
					l, err := all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "h"})
					w.no(err)
					u.next.Store(int64(f))
					fence := l.Fence()
					d, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{Fence: &fence}})
					w.no(err)
					if d.Version != 1 || w.strong("k") != `1` {
						t.Errorf("under the lease: %+v, %s", d, w.strong("k"))
					}
					u.next.Store(int64(f))
					w.no(all.ReleaseLease(w.ctx, "s", l.Token))
					if _, err = all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "another"}); err != nil {
						t.Errorf("behind the release: %v", err)
					}
					u.next.Store(int64(f))
					w.no(all.Delete(w.ctx, "s", nil))
					_, err = all.Get(w.ctx, "s")
					code(t, "the deleted session", err, tiering.CodeNotFound)
				})
			}
		})
	}
}

// manyParts makes a session with more parts than one page of them.
func (w *world) manyParts(id string) int {
	w.Helper()
	w.session(tiering.NewSession{ID: id, User: "ann", TTL: "59m"})
	const n = partsPage + 3
	body := []byte(`{"key":"k","done":true,"attempts":1,"output":1}`)
	keys, changes := make([]tiering.Key, n), make([]warm.Change, n)
	for i := range keys {
		keys[i] = tiering.Key{Tenant: w.tenant, Namespace: tiering.SessionPartsNamespace, ID: fmt.Sprintf("%s/steps/%04d", id, i)}
		changes[i] = warm.Change{Key: keys[i], Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), User: "ann"}}}
	}
	_, _, err := w.warm.Atomic(w.ctx, uuid.New(), keys, nil, func([]warm.Current) ([]warm.Change, error) { return changes, nil })
	w.no(err)
	return n
}

// A session has all of its parts in lists and exports, however many they are, and a
// delete takes all of them.
func TestManyPartsOfASession(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	n := w.manyParts("s")
	steps, err := all.Steps(w.ctx, "s")
	if err != nil || len(steps) != n {
		t.Fatalf("%d steps of %d are listed, %v", len(steps), n, err)
	}
	e, err := all.Export(w.ctx, "s")
	if err != nil || len(e.Steps) != n {
		t.Errorf("%d steps of %d are exported, %v", len(e.Steps), n, err)
	}
	l, err := all.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "h"})
	w.no(err)
	stale, fence, version, absent := tiering.Fence{Session: "s", Token: l.Token + 1}, l.Fence(), int64(1), int64(0)
	code(t, "a delete under another lease", all.Delete(w.ctx, "s", &tiering.SessionWrite{Fence: &stale}), tiering.CodeFenced)
	code(t, "a delete of no version", all.Delete(w.ctx, "s", &tiering.SessionWrite{IfVersion: &absent}), tiering.CodeVersionConflict)
	if steps, err = all.Steps(w.ctx, "s"); err != nil || len(steps) != n {
		t.Errorf("what was refused left %d steps, %v", len(steps), err)
	}
	w.no(all.Delete(w.ctx, "s", &tiering.SessionWrite{Fence: &fence, IfVersion: &version}))
	w.no(all.Delete(w.ctx, "s", &tiering.SessionWrite{Fence: &fence, IfVersion: &version})) // once more, nothing is there
	w.session(tiering.NewSession{ID: "s"})
	if steps, err = all.Steps(w.ctx, "s"); err != nil || len(steps) != 0 {
		t.Errorf("made anew it has %d steps, %v", len(steps), err)
	}
}

// A delete of many pages that dies between two of them has ended the session with the
// first: nothing is taken from one that lives. What is left goes when it is repeated.
func TestADeleteDiesBetweenPages(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.manyParts("s")
	calls := 0
	w.fail("warm.Atomic", func() error {
		if calls++; calls == 2 {
			return errHotLost
		}
		return nil
	})
	code(t, "the delete that dies", all.Delete(w.ctx, "s", nil), tiering.CodeUnavailable)
	_, err := all.Get(w.ctx, "s")
	code(t, "a get", err, tiering.CodeNotFound)
	_, err = all.Step(w.ctx, "s", "0001", &tiering.StepRequest{}, nil)
	code(t, "a step of it", err, tiering.CodeNotFound)
	w.no(all.Delete(w.ctx, "s", nil))
	left, err := w.warm.List(w.ctx, warm.List{Tenant: w.tenant, Namespace: tiering.SessionPartsNamespace, Prefix: "s/", Limit: 10})
	if err != nil || len(left) != 0 {
		t.Errorf("%d parts are left, %v", len(left), err)
	}
}

// Who makes a session under the id of one that has expired, and was not swept yet,
// sees nothing of it.
func TestNothingOfAFormerLife(t *testing.T) {
	w := open(t, setup{})
	ann := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "ann"}}).Sessions()
	bob := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "bob"}}).Sessions()
	w.manyParts("s")
	_, err := ann.Append(w.ctx, "s", numbers(1, 3), &tiering.SessionPatch{State: json.RawMessage(`{"secret":1}`)}, nil)
	w.no(err)
	_, err = ann.Checkpoint(w.ctx, "s", "c", nil)
	w.no(err)
	w.advance(50 * time.Minute)
	_, err = ann.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "h", TTL: "3h"})
	w.no(err)
	w.no(bob.Delete(w.ctx, "s", nil)) // which is none for bob, and lives on
	if _, err = ann.Get(w.ctx, "s"); err != nil {
		t.Errorf("behind bob's delete: %v", err)
	}
	w.advance(90 * time.Minute)
	w.no(bob.Delete(w.ctx, "s", nil))

	s, err := bob.Create(w.ctx, &tiering.NewSession{ID: "s"})
	w.no(err)
	if s.User != "bob" || string(s.State) != `{}` || !s.ExpiresAt.Equal(w.clock.Now().Add(tiering.DefaultSessionTTL)) {
		t.Errorf("made anew: %+v", s)
	}
	e, err := bob.Export(w.ctx, "s")
	w.no(err)
	line, err := bob.Timeline(w.ctx, "s", nil)
	w.no(err)
	if len(e.Events) != 1 || len(e.Checkpoints) != 0 || len(e.Steps) != 0 || len(line.Items) != 2 {
		t.Errorf("it has %d events, %d checkpoints, %d steps, %d items of a timeline", len(e.Events), len(e.Checkpoints), len(e.Steps), len(line.Items))
	}
	for _, ns := range []string{tiering.SessionNamespace, tiering.SessionEventsNamespace} {
		h, err := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "bob"}}).History(w.ctx, ns, "s", nil)
		if err == nil && len(h.Versions) > 1 {
			t.Errorf("bob sees the versions %+v of %s", h.Versions, ns)
		}
	}
	if _, err = bob.AcquireLease(w.ctx, "s", &tiering.LeaseRequest{Holder: "another"}); err != nil {
		t.Errorf("the former lease: %v", err)
	}
	_, err = ann.Get(w.ctx, "s")
	code(t, "ann's get", err, tiering.CodeNotFound)
}

// Parts without a log, as a delete that died behind it leaves, are no parts of the
// session that is made then.
func TestOrphanedParts(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s"})
	key := tiering.Key{Tenant: w.tenant, Namespace: tiering.SessionPartsNamespace, ID: "t/steps/x"}
	body := []byte(`{"key":"k","done":true,"attempts":1,"output":1}`)
	_, _, err := w.warm.Atomic(w.ctx, uuid.New(), []tiering.Key{key}, nil, func([]warm.Current) ([]warm.Change, error) {
		return []warm.Change{{Key: key, Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}}}}, nil
	})
	w.no(err)
	w.session(tiering.NewSession{ID: "t"})
	steps, err := w.r.Sessions().Steps(w.ctx, "t")
	if err != nil || len(steps) != 0 {
		t.Errorf("it has the steps %+v, %v", steps, err)
	}
	st, err := w.r.Sessions().Step(w.ctx, "t", "x", nil, nil)
	if err != nil || st.Status != tiering.StepClaimed || strings.Contains(string(st.Output), "1") {
		t.Errorf("the step: %+v, %v", st, err)
	}
}
