package replay_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/internal/servicestest"
)

// servers are a Redis and a PostgreSQL of this test's own, which it kills and
// freezes, and buckets of its own on the shared S3 servers, which it does not.
type servers struct {
	*servicestest.Services
	t            *testing.T
	hot, warm    string // URLs; warm without a schema
	cold, backup string
	redis        *goredis.Client
}

// startServers starts the two. The bucket that is the primary keeps versions of
// its objects, the backup does not.
func startServers(t *testing.T) *servers {
	t.Helper()
	cold, backup := servicestest.Variable(t, "TIERD_COLD"), servicestest.Variable(t, "TIERD_BACKUP")
	s := &servers{Services: servicestest.Start(t, "redis", "postgres"), t: t}
	s.hot, s.warm = s.Env("TIERD_HOT"), s.Env("TIERD_WARM")
	o, err := goredis.ParseURL(s.hot)
	if err != nil {
		t.Fatal(err)
	}
	s.redis = goredis.NewClient(o)
	t.Cleanup(func() { s.redis.Close() })
	s.cold = servicestest.Bucket(t, cold, true)
	s.backup = servicestest.Bucket(t, backup, false) + "&client=minio"
	return s
}

func placeOf(t *testing.T, bucket string) s3url.Place {
	t.Helper()
	p, err := s3url.Parse(bucket)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bucketBytes is what a bucket holds, old versions of objects aside.
func bucketBytes(t *testing.T, bucket string) (n int64) {
	t.Helper()
	p := placeOf(t, bucket)
	for o := range servicestest.Objects(t, p).ListObjects(t.Context(), p.Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		n += o.Size
	}
	return n
}

// schema makes an empty schema, and returns the URL that leads to it.
func (s *servers) schema(name string) string {
	s.t.Helper()
	s.sql(`DROP SCHEMA IF EXISTS ` + name + ` CASCADE; CREATE SCHEMA ` + name)
	return s.warm + "&search_path=" + name
}

func (s *servers) sql(statements string) {
	s.t.Helper()
	s.onWarm(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, statements)
		return err
	})
}

func (s *servers) onWarm(fn func(context.Context, *pgx.Conn) error) {
	s.t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.warm)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := fn(ctx, c); err != nil {
		s.t.Fatal(err)
	}
}

// schemaBytes is what the tables of a schema take on disk, indexes included.
func (s *servers) schemaBytes(name string) (n int64) {
	s.t.Helper()
	s.onWarm(func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, name).Scan(&n)
	})
	return n
}

func (s *servers) rows(table string) (n int64) {
	s.t.Helper()
	s.onWarm(func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n)
	})
	return n
}

// largest says what the largest tables of a schema take.
func (s *servers) largest(name string) (text string) {
	s.t.Helper()
	s.onWarm(func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT string_agg(relname || ' ' || pg_size_pretty(size), ', ' ORDER BY size DESC) FROM (
			SELECT c.relname, pg_total_relation_size(c.oid) AS size FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY 2 DESC LIMIT 6) AS t`, name).Scan(&text)
	})
	return text
}

// tables are those of a schema.
func (s *servers) tables(name string) (tables []string) {
	s.t.Helper()
	s.onWarm(func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1`, name)
		if err != nil {
			return err
		}
		tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return tables
}
