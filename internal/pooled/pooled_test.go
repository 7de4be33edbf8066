package pooled_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
	"github.com/tierd/tierd/warm/warmtest"
)

// TestBehindATransactionPooler runs a part of warm's suite and a whole node through
// PgBouncer, which hands each transaction whichever of its few connections is
// free.
func TestBehindATransactionPooler(t *testing.T) {
	s := servers{servicestest.Start(t, "postgres", "pgbouncer")}
	t.Run("without the option it is refused", func(t *testing.T) {
		plain := strings.ReplaceAll(s.schema(t, "plain"), "&"+notPrepared, "")
		n, err := tierd.Open(t.Context(), tierd.Config{Data: t.TempDir(), Warm: plain})
		if err == nil {
			_ = n.Close(t.Context())
			t.Fatal("a node opened")
		}
		if !strings.Contains(err.Error(), notPrepared) || !strings.Contains(err.Error(), "statement_timeout") {
			t.Errorf("it does not say what to do: %v", err)
		}
	})
	t.Run("warm", func(t *testing.T) { s.warm(t) })
	t.Run("node", func(t *testing.T) { s.node(t) })
}

// notPrepared is what such a pooler needs in the URL.
const notPrepared = "default_query_exec_mode=cache_describe"

// servers are a PostgreSQL and a PgBouncer of the test's own.
type servers struct{ *servicestest.Services }

// schema makes a schema for a place, if it is not there, and returns the URL that
// leads to it through the pooler: the settings that tierd would make for a session
// are those of a role.
func (s servers) schema(t *testing.T, place string) string {
	t.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(place))
	name := fmt.Sprintf("p%016x", h.Sum64())
	direct := s.Env("TIERD_WARM")
	if servicestest.Number(t, direct, `SELECT count(*) FROM pg_roles WHERE rolname = '`+name+`'`) == 0 {
		servicestest.SQL(t, direct, strings.ReplaceAll(`CREATE ROLE @ LOGIN SUPERUSER; CREATE SCHEMA @;
			ALTER ROLE @ SET search_path = @; ALTER ROLE @ SET statement_timeout = '5s'`, "@", name))
	}
	u, err := url.Parse(s.Env("TIERD_WARM_POOLED"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(name)
	u.RawQuery += "&" + notPrepared
	return u.String()
}

func (s servers) warm(t *testing.T) {
	open := func(t *testing.T, place string, o warmtest.Options) (warm.Store, error) {
		return postgres.Open(t.Context(), s.schema(t, place), &postgres.Options{Clock: o.Clock, AfterCommit: o.AfterCommit, Restore: o.Restore})
	}
	warmtest.Run(t, warmtest.Harness{
		Capabilities: warm.Capabilities{Committers: 16, Shared: true},
		TryOpen:      open,
		Open: func(t *testing.T, place string, o warmtest.Options) warm.Store {
			t.Helper()
			store, err := open(t, place, o)
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
		Settle: func(t *testing.T, store warm.Store) {
			t.Helper()
			if err := store.(*postgres.Store).Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}, "atomic", "query index", "leases", "hot epochs")
}

// node has every kind of statement go through the pooler once.
func (s servers) node(t *testing.T) {
	ctx := t.Context()
	n, err := tierd.Open(ctx, tierd.Config{Data: t.TempDir(), Warm: s.schema(t, "node"), SegmentAge: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	no := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = n.SetNamespace(ctx, "notes", tiering.Policy{QueryIndex: true}, nil)
	no(err)
	for i := range 40 {
		_, err := n.Put(ctx, "notes", fmt.Sprint(i), fmt.Appendf(nil, `{"n":%d}`, i), &tiering.PutOptions{User: "ann"})
		no(err)
	}
	edited, err := n.Apply(ctx, "notes", "7", []tiering.EditOp{{Op: "increment", Pointer: "/n", By: []byte("100")}}, nil)
	no(err)
	_, err = n.Batch(ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
		{Op: "put", Namespace: "notes", ID: "a", Data: []byte(`{"n":1000}`)}, {Op: "delete", Namespace: "notes", ID: "3"},
	}})
	no(err)
	page, err := n.Query(ctx, "notes", &tiering.Query{Filter: []byte(`{"n":107}`), Limit: 10})
	no(err)
	if len(page.Items) != 1 || page.Items[0].ID != "7" {
		t.Errorf("the query found %+v", page.Items)
	}
	until(t, "an index that is ready", func() (bool, string) {
		info, err := n.Namespace(ctx, "notes")
		return err == nil && info.QueryIndexState == tiering.QueryIndexReady, fmt.Sprint(info, err)
	})
	until(t, "the bytes to leave warm", func() (bool, string) {
		e, err := n.Demote(ctx, "notes", "7")
		return err == nil, fmt.Sprint(e, err)
	})
	d, err := n.Get(ctx, "notes", "7", nil)
	no(err)
	if d.Tier != tiering.Cold || string(d.Body) != `{"n":107}` || d.Version != edited.Version {
		t.Errorf("from %s: %s, version %d", d.Tier, d.Body, d.Version)
	}
	_, errs, err := n.Remember(ctx, "facts", []tiering.NewMemory{about("Ann keeps bees on the roof"), about("Bob paints boats")}, nil)
	no(errors.Join(append(errs, err)...))
	found, err := n.Recall(ctx, &tiering.Recall{Namespaces: []string{"facts"}, Query: "who has bees?", K: 1})
	no(err)
	if len(found.Matches) != 1 || !strings.Contains(found.Matches[0].Text, "bees") {
		t.Errorf("recalled %+v", found)
	}
	run := false
	receipt, err := n.Erase(ctx, tiering.EraseRequest{User: "ann", DryRun: &run})
	no(err)
	until(t, "the erase to be done", func() (bool, string) {
		receipt, err = n.Erasure(ctx, receipt.ID)
		return err == nil && receipt.State == "done", fmt.Sprint(receipt, err)
	})
	left, err := n.List(ctx, "notes", &tiering.ListOptions{})
	no(err)
	if len(left.Items) != 1 || left.Items[0].ID != "a" {
		t.Errorf("after the erase %d documents are left", len(left.Items))
	}
}

func about(text string) tiering.NewMemory {
	return tiering.NewMemory{MemoryBody: tiering.MemoryBody{Text: text}}
}

// until waits for something that happens in the background.
func until(t *testing.T, what string, done func() (ok bool, now string)) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ok, now := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %s", what, now)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
