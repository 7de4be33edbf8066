package router

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A namespace is made by its first write, or with its policy; it is removed
// when it is empty, and its kind, class and versions stay.
func TestNamespaceLife(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1}`)
	n, err := w.r.Namespace(w.ctx, space)
	w.no(err)
	if n.Kind != tiering.KindState || n.Class != tiering.ClassPersistent || n.HotTTL.Std() != tiering.DefaultHotTTL {
		t.Errorf("a first write made %+v", n)
	}
	err = w.r.DeleteNamespace(w.ctx, space, nil)
	if tiering.CodeOf(err) != tiering.CodeWrongKind {
		t.Errorf("a namespace with a document is removed: %v", err)
	}
	tomb := w.delete("k")
	err = w.r.DeleteNamespace(w.ctx, space, &tiering.WriteOptions{If: tiering.IfVersion(n.Version + 1)})
	if tiering.CodeOf(err) != tiering.CodeVersionConflict {
		t.Errorf("a wrong version answers %v", err)
	}
	w.no(w.r.DeleteNamespace(w.ctx, space, &tiering.WriteOptions{If: tiering.IfVersion(n.Version)}))
	if err := w.r.DeleteNamespace(w.ctx, space, nil); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("removing it again answers %v", err)
	}
	if list, err := w.r.Namespaces(w.ctx); err != nil || len(list) != 0 {
		t.Errorf("the list is %v, %v", list, err)
	}
	_, err = w.r.SetNamespace(w.ctx, space, tiering.Policy{Class: tiering.ClassSession}, nil)
	if tiering.CodeOf(err) != tiering.CodeWrongKind {
		t.Errorf("another class for old keys answers %v", err)
	}
	again := w.put("k", `{"n":2}`)
	if again.Version <= tomb.Version {
		t.Errorf("made again as version %d, deleted as %d", again.Version, tomb.Version)
	}
}

// Kind and class are fixed once keys exist; before, they may change.
func TestClassIsFixed(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{Class: tiering.ClassSession})
	w.policy(space, tiering.Policy{Class: tiering.ClassPersistent})
	w.put("k", `1`)
	for _, p := range []tiering.Policy{{Class: tiering.ClassSession}, {Class: tiering.ClassEphemeral}, {Kind: tiering.KindLog}} {
		if _, err := w.r.SetNamespace(w.ctx, space, p, nil); tiering.CodeOf(err) != tiering.CodeWrongKind {
			t.Errorf("%s %s answers %v", p.Class, p.Kind, err)
		}
	}
	n, err := w.r.SetNamespace(w.ctx, space, tiering.Policy{TTL: tiering.Duration(time.Hour)}, nil)
	w.no(err)
	if n.Class != tiering.ClassPersistent || n.TTL.Std() != time.Hour {
		t.Errorf("a policy that names no class gave %+v", n)
	}
}

// A policy that was refused, or whose request came again when another one stood, leaves
// no kind and class behind: the first document would fix them, and no policy of the
// documents' own kind would ever be taken again.
func TestARefusedPolicyFixesNoClass(t *testing.T) {
	log := tiering.Policy{Kind: tiering.KindLog}
	for _, c := range []struct {
		name string
		then func(t *testing.T, w *world)
	}{
		{"refused", func(t *testing.T, w *world) {
			_, err := w.r.SetNamespace(w.ctx, space, log, &tiering.WriteOptions{If: tiering.IfAbsent()})
			code(t, "a policy for a namespace that is there", err, tiering.CodeVersionConflict)
		}},
		{"came again", func(_ *testing.T, w *world) {
			again := &tiering.WriteOptions{IdempotencyKey: "as a log"}
			_, err := w.r.SetNamespace(w.ctx, space, log, again)
			w.no(err)
			w.policy(space, tiering.Policy{Kind: tiering.KindState})
			_, err = w.r.SetNamespace(w.ctx, space, log, again)
			w.no(err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, setup{})
			w.policy(space, tiering.Policy{Kind: tiering.KindState})
			c.then(t, w)
			w.put("k", `1`)
			w.policy(space, tiering.Policy{Kind: tiering.KindState, TTL: tiering.Duration(time.Hour)})
		})
	}
}

// A policy is written under conditions, patched in place, and in force at once.
func TestPolicyWrites(t *testing.T) {
	w := open(t, setup{})
	n, err := w.r.SetNamespace(w.ctx, space, tiering.Policy{MaxSize: 100}, &tiering.WriteOptions{If: tiering.IfAbsent()})
	w.no(err)
	_, err = w.r.SetNamespace(w.ctx, space, tiering.Policy{}, &tiering.WriteOptions{If: tiering.IfAbsent()})
	if tiering.CodeOf(err) != tiering.CodeVersionConflict {
		t.Errorf("making it twice answers %v", err)
	}
	_, err = w.r.PatchNamespace(w.ctx, space, []byte(`{"require_version":true}`), &tiering.WriteOptions{If: tiering.IfVersion(n.Version + 1)})
	if tiering.CodeOf(err) != tiering.CodeVersionConflict {
		t.Errorf("a patch of another version answers %v", err)
	}
	n, err = w.r.PatchNamespace(w.ctx, space, []byte(`{"require_version":true}`), &tiering.WriteOptions{If: tiering.IfVersion(n.Version)})
	w.no(err)
	if n.MaxSize != 100 || !n.RequireVersion {
		t.Errorf("the patched policy is %+v", n)
	}
	_, err = w.r.Put(w.ctx, space, "k", []byte(`1`), nil)
	if tiering.CodeOf(err) != tiering.CodePreconditionRequired {
		t.Errorf("the new policy is not in force: %v", err)
	}
	w.no(w.r.DeleteNamespace(w.ctx, space, nil))
	_, err = w.r.SetNamespace(w.ctx, space, tiering.Policy{}, &tiering.WriteOptions{If: tiering.IfAbsent()})
	w.no(err) // one that was removed counts as absent
}

// Without auto-create a first write is refused.
func TestNoAutoCreate(t *testing.T) {
	w := open(t, setup{config: func(c *Config) { c.NoAutoCreate = true }})
	for _, v := range verbs() {
		_, err := v.run(w.ctx, w.r, space, "k", tiering.WriteOptions{})
		if want := tiering.CodeNotFound; v.name != "delete" && tiering.CodeOf(err) != want {
			t.Errorf("%s answers %v", v.name, err)
		}
	}
	w.policy(space, tiering.Policy{})
	w.put("k", `1`)
}

// Racing first writes make one namespace and are all kept.
func TestRacingFirstWrites(t *testing.T) {
	w := open(t, setup{})
	var waits []func() (*tiering.Receipt, error)
	for i := range 16 {
		waits = append(waits, w.startPut(fmt.Sprint("k-", i), `1`, tiering.Condition{}))
	}
	for _, wait := range waits {
		_, err := wait()
		w.no(err)
	}
	n, err := w.r.Namespace(w.ctx, space)
	w.no(err)
	if n.Version != 1 {
		t.Errorf("the policy is at version %d", n.Version)
	}
	page, err := w.r.List(w.ctx, space, nil)
	if err != nil || len(page.Items) != 16 {
		t.Errorf("%d documents, %v", len(page.Items), err)
	}
}

// A read of a policy that began before another policy was written is not kept
// behind it: a policy is in force at once.
func TestStalePolicyIsNotKept(t *testing.T) {
	w := open(t, setup{})
	// What any call does first, up to the answer of warm.
	k := policyKey(tiering.DefaultTenant, space)
	_, _, gen := w.r.policies.get(k)
	unknown, err := w.r.loadPolicy(w.ctx, k)
	w.no(err)
	w.policy(space, tiering.Policy{RequireVersion: true, MaxSize: 10})
	w.r.policies.put(k, unknown, w.clock.Now(), gen)
	if p, err := w.r.policyOf(w.ctx, tiering.DefaultTenant, space); err != nil || !p.RequireVersion {
		t.Errorf("the policy in force is %+v, %v", p, err)
	}
}

// Half way to the end of its age a policy is read again by whoever asks first, and
// serves the others meanwhile; once it is old it serves nobody.
func TestPolicyIsReadAgainByOne(t *testing.T) {
	var c policyCache
	k := policyKey(tiering.DefaultTenant, space)
	began, ttl := time.Unix(1000, 0), time.Second
	for _, ask := range []struct {
		name         string
		at           time.Duration
		asked, serve int
	}{
		{"new", 0, 3, 3},
		{"in its first half", ttl/2 - 1, 3, 3},
		{"in its second half", ttl / 2, 3, 2},
		{"just before its end", ttl - 1, 3, 3},
		{"old", ttl, 3, 0},
	} {
		if ask.at == 0 {
			c.put(k, &policy{known: true}, began, 0)
		}
		served := 0
		for range ask.asked {
			if p, ok, _ := c.get(k); ok && p.serves(began.Add(ask.at), ttl) {
				served++
			}
		}
		if served != ask.serve {
			t.Errorf("%s it serves %d of %d, want %d", ask.name, served, ask.asked, ask.serve)
		}
	}
}

// A namespace that another node made a moment ago is not taken for absent by
// an acknowledged delete, a touch or a rollback.
func TestNamespaceOfAnotherNode(t *testing.T) {
	for _, v := range verbs() {
		switch v.name {
		case "delete", "touch", "pin", "rollback":
		default:
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			w := open(t, setup{})
			other := New(Config{Hot: w.hot, Warm: w.warm})
			t.Cleanup(other.Close)
			if got := w.get("k"); got != "" { // this node now knows that there is no such namespace
				t.Fatal(got)
			}
			_, err := other.Put(context.Background(), space, "k", []byte(`{"n":1}`), nil)
			w.no(err)
			_, err = v.run(w.ctx, w.r, space, "k", tiering.WriteOptions{})
			w.no(err)
			if got := w.strong("k"); v.name == "delete" && got != "" {
				t.Errorf("an acknowledged delete left %s", got)
			}
		})
	}
}

// stopping is a store that notes when an index is stopped, and by which policy
// the namespace goes at that moment.
type stopping struct {
	warm.Store
	versions []int64
}

func (s *stopping) ListEverywhere(context.Context, string, tiering.Key, int) ([]warm.Current, error) {
	return nil, nil
}
func (s *stopping) IndexQueries(context.Context, []tiering.Key) error          { return nil }
func (s *stopping) QueryIndexed(context.Context, string, string) (bool, error) { return true, nil }

func (s *stopping) StopQueryIndex(ctx context.Context, tenant, namespace string) error {
	cur, err := s.Head(ctx, policyKey(tenant, namespace))
	s.versions = append(s.versions, cur.Head.Version)
	return err
}

// Queries stop using an index before the first document can come that it does
// not know, and once more behind the policy: a daemon may have begun it anew.
func TestAnIndexIsStoppedBeforeItsPolicyEnds(t *testing.T) {
	no := false
	for name, p := range map[string]tiering.Policy{"no index": {}, "no projections": {QueryIndex: true, Query: &no}} {
		t.Run(name, func(t *testing.T) {
			w := open(t, setup{})
			store := &stopping{Store: w.r.Warm}
			w.r.Warm = store
			n, err := w.r.SetNamespace(w.ctx, space, tiering.Policy{QueryIndex: true}, nil)
			w.no(err)
			same, err := w.r.SetNamespace(w.ctx, space, tiering.Policy{QueryIndex: true, TTL: tiering.Duration(time.Hour)}, nil)
			w.no(err)
			if len(store.versions) != 0 {
				t.Errorf("stopped at versions %d, while the policy asks for it", store.versions)
			}
			end, err := w.r.SetNamespace(w.ctx, space, p, nil)
			w.no(err)
			if want := []int64{same.Version, end.Version}; n.Version == 0 || !slices.Equal(store.versions, want) {
				t.Errorf("stopped at versions %d of the policy, want %d", store.versions, want)
			}
		})
	}
}

// indexed is a store with indexes by content.
type indexed struct {
	warm.Store
	ready map[string]bool
	err   error
}

func (s *indexed) Unwrap() warm.Store { return s.Store }
func (s *indexed) ListEverywhere(context.Context, string, tiering.Key, int) ([]warm.Current, error) {
	return nil, nil
}
func (s *indexed) IndexQueries(context.Context, []tiering.Key) error { return nil }
func (s *indexed) StopQueryIndex(_ context.Context, _, ns string) error {
	s.ready[ns] = false
	return s.err
}
func (s *indexed) QueryIndexed(_ context.Context, _, ns string) (bool, error) {
	return s.ready[ns], s.err
}

// A namespace tells how far the index is that its policy asks for.
func TestANamespaceTellsHowFarItsIndexIs(t *testing.T) {
	store := &indexed{ready: map[string]bool{}}
	w := open(t, setup{config: func(c *Config) { store.Store, c.Warm = c.Warm, store }})
	state := func() tiering.QueryIndexState {
		t.Helper()
		n, err := w.r.Namespace(w.ctx, space)
		w.no(err)
		return n.QueryIndexState
	}
	set := func(p tiering.Policy, want tiering.QueryIndexState) {
		t.Helper()
		n, err := w.r.SetNamespace(w.ctx, space, p, nil)
		w.no(err)
		if n.QueryIndexState != want || state() != want {
			t.Errorf("with query_index %t: %q, then %q, want %q", p.QueryIndex, n.QueryIndexState, state(), want)
		}
	}
	set(tiering.Policy{}, "")
	set(tiering.Policy{QueryIndex: true}, tiering.QueryIndexBuilding)
	store.ready[space] = true
	set(tiering.Policy{QueryIndex: true, MaxSize: 1000}, tiering.QueryIndexReady)
	store.err = tiering.Errorf(tiering.CodeUnavailable, "away")
	if _, err := w.r.Namespace(w.ctx, space); !tiering.Retryable(err) {
		t.Errorf("where nobody knows it answers %v", err)
	}
	store.err = nil
	set(tiering.Policy{}, "")

	plain := open(t, setup{})
	plain.policy(space, tiering.Policy{QueryIndex: true})
	if n, err := plain.r.Namespace(plain.ctx, space); err != nil || n.QueryIndexState != "" {
		t.Errorf("where there are no indexes: %+v, %v", n, err)
	}
}

// Kind and class may change until there is a key. A daemon that has not heard of that
// must not write the first one by the policy of before: it would be acknowledged, and
// never be read again.
func TestTheFirstKeyIsOfTheKindThatStands(t *testing.T) {
	for _, p := range []tiering.Policy{{Kind: tiering.KindLog}, {Class: tiering.ClassEphemeral}} {
		t.Run(string(p.Kind)+string(p.Class), func(t *testing.T) {
			w := open(t, setup{})
			w.policy(space, tiering.Policy{Kind: tiering.KindState})
			late := w.node().As(tiering.Principal{Tenant: w.tenant})
			_, err := late.Get(w.ctx, space, "k", nil) // it knows the policy
			code(t, "a document that is not there", err, tiering.CodeNotFound)
			w.policy(space, p)
			_, err = late.Put(w.ctx, space, "k", []byte(`1`), nil)
			code(t, "a put by the policy of before", err, tiering.CodeWrongKind)
			w.policy(space, tiering.Policy{Kind: tiering.KindState, Class: tiering.ClassPersistent}) // no key has fixed them
			w.put("k", `1`)
			_, err = w.r.Get(w.ctx, space, "k", nil)
			w.no(err)
		})
	}
}

// The first ephemeral document fixes the class like any other, though hot alone has it:
// a daemon that has not heard that the namespace was made durable must not acknowledge
// one, and no reader of a durable namespace may be shown one.
func TestEphemeralDocumentsFixTheClass(t *testing.T) {
	ephemeral, durable := tiering.Policy{Class: tiering.ClassEphemeral}, tiering.Policy{Class: tiering.ClassPersistent}
	for _, v := range []struct {
		name string
		run  func(r *Router, ctx context.Context) error
	}{
		{"put", func(r *Router, ctx context.Context) error {
			_, err := r.Put(ctx, space, "k", []byte(`1`), nil)
			return err
		}},
		{"edit", func(r *Router, ctx context.Context) error {
			_, err := r.Apply(ctx, space, "k", increment, nil)
			return err
		}},
		{"delete", func(r *Router, ctx context.Context) error {
			_, err := r.Delete(ctx, space, "k", nil)
			return err
		}},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := open(t, setup{})
			w.policy(space, ephemeral)
			late := w.node().As(tiering.Principal{Tenant: w.tenant})
			_, err := late.Get(w.ctx, space, "k", nil) // it knows the policy
			code(t, "a document that is not there", err, tiering.CodeNotFound)
			w.policy(space, durable)
			code(t, "a write by the policy of before", v.run(late, w.ctx), tiering.CodeWrongKind)
			_, err = w.r.Get(w.ctx, space, "k", nil)
			code(t, "what it wrote", err, tiering.CodeNotFound)
			w.no(v.run(late, w.ctx)) // it has heard
			w.policy(space, durable)

			w = open(t, setup{})
			w.policy(space, ephemeral)
			w.no(v.run(w.r, w.ctx))
			_, err = w.r.SetNamespace(w.ctx, space, durable, nil)
			code(t, "durable, where there are ephemeral documents", err, tiering.CodeWrongKind)
		})
	}
}
