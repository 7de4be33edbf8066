package postgres_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

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
	base := os.Getenv("TIERD_WARM")
	if base == "" {
		const how = `no PostgreSQL: run "deploy/local/services up postgres", then eval "$(deploy/local/services env)"`
		if os.Getenv("CI") != "" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	name := "tierd_test_" + ulid.Make().String()
	run := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
