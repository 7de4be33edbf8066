package postgres_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
	"github.com/tierd/tierd/warm/warmtest"
)

// server is a database made for one test.
type server struct {
	url string // of the database
}

// database makes a database with a random name on the server of TIERD_WARM,
// and drops it at the end. Without a server the test is skipped; where
// continuous integration runs it fails.
func database(t testing.TB) server {
	t.Helper()
	base := servicestest.Variable(t, "TIERD_WARM")
	name := "tierd_test_" + ulid.Make().String()
	run := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, base)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, sql)
		return err
	}
	if err := run(`CREATE DATABASE "` + name + `" TEMPLATE template0 ENCODING 'UTF8'`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(`DROP DATABASE "` + name + `" WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return server{u.String()}
}

// schema makes a schema for a place, if it is not there, and returns the URL
// that leads to it.
func (s server) schema(t testing.TB, place string) string {
	t.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(place))
	name := fmt.Sprintf("s%016x", h.Sum64())
	c, err := pgx.Connect(context.Background(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(context.Background(), `CREATE SCHEMA IF NOT EXISTS `+name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// TestContract runs the conformance suite of the warm tier. A place is a
// schema of its own.
func TestContract(t *testing.T) {
	db := database(t)
	open := func(t *testing.T, place string, o warmtest.Options) (warm.Store, error) {
		return postgres.Open(t.Context(), db.schema(t, place), &postgres.Options{Clock: o.Clock, AfterCommit: o.AfterCommit, Restore: o.Restore})
	}
	warmtest.Run(t, warmtest.Harness{
		Capabilities: warm.Capabilities{Committers: 16, Shared: true},
		TryOpen:      open,
		Open: func(t *testing.T, place string, o warmtest.Options) warm.Store {
			t.Helper()
			s, err := open(t, place, o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Crash: func(t *testing.T, place string) string {
			t.Helper()
			crash(t, db.schema(t, place))
			return place
		},
		Settle: func(t *testing.T, s warm.Store) {
			t.Helper()
			settled, ok := s.(interface{ Settle(context.Context) error })
			if !ok {
				t.Fatal("the store has no Settle")
			}
			if err := settled.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// crash ends a daemon of the store in the middle of a commit: its statement
// hangs at a head, and the server ends all sessions.
func crash(t *testing.T, u string) {
	t.Helper()
	ctx := t.Context()
	victim, err := postgres.Open(ctx, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	// Another session looks on: what it sees stands still for a transaction.
	looks, err := pgx.Connect(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer looks.Close(context.WithoutCancel(ctx))
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var k tiering.Key
	var id []byte
	err = tx.QueryRow(ctx, `SELECT n.tenant, n.name, h.id FROM head h JOIN namespace n ON n.nid = h.nid WHERE h.op = 1 AND h.owner = '' LIMIT 1 FOR UPDATE OF h`).Scan(&k.Tenant, &k.Namespace, &id)
	if err != nil {
		t.Fatal(err)
	}
	k.ID = string(id)
	done := make(chan error, 1)
	go func() {
		body := []byte(`"lost"`)
		_, err := victim.Commit(context.WithoutCancel(ctx), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k,
			Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}}}}})
		done <- err
	}()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		select {
		case err := <-done:
			t.Fatalf("the commit did not wait: %v", err)
		default:
		}
		if err := looks.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid)))`, c.PgConn().PID()).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := looks.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1::int`, c.PgConn().PID()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a commit whose session was ended was acknowledged")
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := victim.Close(); err != nil {
		t.Fatal(err)
	}
}
