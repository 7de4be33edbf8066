package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// indexing is a store that notes which indexes are asked of it.
type indexing struct {
	warm.Store
	tenants []string
	wanted  []tiering.Key
}

func (s *indexing) ListEverywhere(ctx context.Context, namespace string, after tiering.Key, limit int) (out []warm.Current, err error) {
	for _, tenant := range s.tenants {
		if tenant < after.Tenant {
			continue
		}
		l := warm.List{Tenant: tenant, Namespace: namespace, Limit: limit - len(out), Bodies: true}
		if tenant == after.Tenant {
			l.After = after.ID
		}
		page, err := s.List(ctx, l)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
	}
	return out, nil
}

func (s *indexing) IndexQueries(_ context.Context, wanted []tiering.Key) error {
	s.wanted = wanted
	return nil
}
func (s *indexing) StopQueryIndex(context.Context, string, string) error       { return nil }
func (s *indexing) QueryIndexed(context.Context, string, string) (bool, error) { return false, nil }

// TestPoliciesAskForIndexes: an index is built once every daemon goes by the
// policy, and of namespaces whose documents all stay queryable.
func TestPoliciesAskForIndexes(t *testing.T) {
	s := newSite(t)
	store := &indexing{Store: s.warm, tenants: []string{"acme", "globex"}}
	e := lifecycle.New(lifecycle.Config{Warm: store, Archive: s.archive, Holder: "a"})
	no := false
	set := func(tenant, namespace string, p tiering.Policy) {
		body, err := json.Marshal(p)
		s.no(err)
		k := tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: namespace}
		_, err = s.warm.Commit(s.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}}}}})
		s.no(err)
	}
	wants := func(when string, want ...string) {
		t.Helper()
		s.no(e.IndexQueries(s.ctx))
		var got []string
		for _, k := range store.wanted {
			got = append(got, k.Tenant+"/"+k.Namespace)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s the indexes of %v are asked for, want %v", when, got, want)
		}
	}
	var all []string
	for i := range 600 { // more than a page
		name := fmt.Sprintf("n%03d", i)
		set("acme", name, tiering.Policy{QueryIndex: true})
		all = append(all, "acme/"+name)
	}
	set("globex", "on", tiering.Policy{QueryIndex: true})
	set("globex", "off", tiering.Policy{})
	set("globex", "unqueried", tiering.Policy{QueryIndex: true, Query: &no})
	set("globex", "ephemeral", tiering.Policy{QueryIndex: true, Class: tiering.ClassEphemeral})
	set("globex", "deleted", tiering.Policy{QueryIndex: true, Deleted: true})
	wants("at once")
	s.clock.advance(9 * time.Second)
	wants("while a daemon may go by another policy")
	s.clock.advance(2 * time.Second)
	all = append(all, "globex/on")
	wants("later", all...)
	set("acme", "n000", tiering.Policy{})
	wants("switched off", all[1:]...)
}

// TestWhatAnotherDaemonDoesIsSaid: a step by hand that did nothing is an error.
func TestWhatAnotherDaemonDoesIsSaid(t *testing.T) {
	s := newSite(t)
	other := lifecycle.New(lifecycle.Config{Warm: &indexing{Store: s.warm}, Archive: s.archive, Holder: "other"})
	s.no(other.Sweep(s.ctx))
	s.no(other.IndexQueries(s.ctx))
	mine := lifecycle.New(lifecycle.Config{Warm: &indexing{Store: s.warm}, Archive: s.archive, Holder: "mine"})
	for name, step := range map[string]func(context.Context) error{"sweep": mine.Sweep, "index": mine.IndexQueries} {
		if err := step(s.ctx); tiering.CodeOf(err) != tiering.CodeLeaseHeld {
			t.Errorf("%s beside another daemon: %v, want lease_held", name, err)
		}
	}
}
