package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/cold/minio"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
	"github.com/tierd/tierd/warm/sqlite"
)

// place is where a race is run.
type place string

const (
	embedded place = "embedded" // SQLite and two buckets in memory
	servers  place = "servers"  // PostgreSQL and two S3 servers, one by each client
)

func places() []place { return []place{embedded, servers} }

// rawBucket is a bucket below all faults, which a test changes behind the engine's
// back.
type rawBucket interface {
	cold.Bucket
	// Replace puts other bytes where an object may be.
	Replace(name string, data []byte)
}

// tiersOf are an empty warm store and two empty buckets; clock may be nil. dump
// reads all rows of warm as text; it is nil for SQLite, whose files can be read.
type tiersOf struct {
	warm    warm.Store
	buckets [2]rawBucket
	dump    func() []string
}

func (p place) open(t testing.TB, dir string, clock func() time.Time) tiersOf {
	t.Helper()
	if p == servers {
		return openServers(t, clock)
	}
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "warm.db"), &sqlite.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return tiersOf{warm: store, buckets: [2]rawBucket{&coldtest.Memory{}, &coldtest.Memory{}}}
}

func openServers(t testing.TB, clock func() time.Time) tiersOf {
	t.Helper()
	prefix := "lifecycle-" + uuid.NewString()
	primary, err := s3.Open(t.Context(), beneath(t, "TIERD_COLD", prefix), nil)
	if err != nil {
		t.Fatal(err)
	}
	backup, err := minio.Open(t.Context(), beneath(t, "TIERD_BACKUP", prefix), nil)
	if err != nil {
		t.Fatal(err)
	}
	schema, name := servicestest.Schema(t)
	store, err := postgres.Open(t.Context(), schema, &postgres.Options{Clock: clock, Committers: 2, Readers: 4, StatementTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		for _, b := range []cold.Bucket{primary, backup} {
			clear(b)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return tiersOf{
		warm: settled{store}, buckets: [2]rawBucket{onServer{t, primary}, onServer{t, backup}},
		dump: func() []string { return dump(t, schema, name) },
	}
}

// beneath is the bucket of a variable under a prefix.
func beneath(t testing.TB, variable, prefix string) string {
	t.Helper()
	p, err := s3url.Parse(servicestest.Variable(t, variable))
	if err != nil {
		t.Fatal(err)
	}
	p.Prefix = prefix
	return p.String()
}

// clear leaves nothing of a test in a bucket that all share.
func clear(b cold.Bucket) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for info, err := range b.List(ctx, "") {
		if err != nil {
			return
		}
		_ = b.Delete(ctx, info.Name)
	}
}

// settled is a store whose commits are in the feed when they return.
type settled struct{ *postgres.Store }

func (s settled) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	r, err := s.Store.Commit(ctx, b)
	if err == nil {
		err = s.Settle(ctx)
	}
	return r, err
}

// onServer is a bucket on a server.
type onServer struct {
	testing.TB
	cold.Bucket
}

func (b onServer) Replace(name string, data []byte) {
	b.Helper()
	ctx := context.Background()
	if err := b.Delete(ctx, name); err != nil {
		b.Fatal(err)
	}
	if err := b.Create(ctx, name, bytes.NewReader(data), int64(len(data))); err != nil {
		b.Fatal(err)
	}
}

// dump reads every row of a schema.
func dump(t testing.TB, schema, name string) (rows []string) {
	t.Helper()
	ctx := t.Context()
	c, err := pgx.Connect(ctx, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	strings := func(query string, args ...any) []string {
		t.Helper()
		found, err := c.Query(ctx, query, args...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, table := range strings(`SELECT tablename::text FROM pg_tables WHERE schemaname = $1`, name) {
		for _, r := range strings(fmt.Sprintf(`SELECT t::text FROM %s t`, pgx.Identifier{table}.Sanitize())) {
			rows = append(rows, table+" "+r)
		}
	}
	return rows
}

// mentions finds the rows that hold a word, as text or as bytes.
func mentions(rows []string, word string) (places []string) {
	inBytes := hex.EncodeToString([]byte(word))
	for _, r := range rows {
		if strings.Contains(r, word) || strings.Contains(r, inBytes) {
			table, _, _ := strings.Cut(r, " ")
			places = append(places, "table "+table)
		}
	}
	return places
}
