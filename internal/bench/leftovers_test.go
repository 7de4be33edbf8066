package bench_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/internal/bench"
)

// leftovers fails the test for everything a run has left on the servers.
func leftovers(t *testing.T, c bench.Config, id string) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, c.Warm)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var schemas int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, $1)`, id).Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas are left, %v", schemas, err)
	}

	o, err := goredis.ParseURL(c.Hot)
	if err != nil {
		t.Fatal(err)
	}
	r := goredis.NewClient(o)
	defer r.Close()
	for keys := r.Scan(ctx, 0, "*"+id+"*", 1000).Iterator(); keys.Next(ctx); {
		t.Errorf("Redis still has %s", keys.Val())
	}

	for _, place := range []string{c.Cold, c.Backup} {
		u, err := url.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = strings.TrimSuffix(u.Path, "/") + "/" + id
		b, err := s3.Open(ctx, u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for object, err := range b.List(ctx, "") {
			t.Errorf("%s is left in %s, %v", object.Name, u.Host, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
