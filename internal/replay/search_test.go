package replay_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"
	"github.com/minio/minio-go/v7"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/internal/servicestest"
)

// canaries are texts that must be nowhere after an erase.
type canaries struct {
	texts  [][]byte
	values int // how many of the texts are in values, the first ones; the others are names
	zstd   *zstd.Decoder
}

func newCanaries(t *testing.T, values, names []string) *canaries {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	c := &canaries{zstd: d, values: len(values)}
	for _, text := range append(slices.Clone(values), names...) {
		c.texts = append(c.texts, []byte(text))
	}
	return c
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// in returns the first canary that b holds as it is, as hexadecimal digits, or
// within a zstd frame anywhere in it.
func (c *canaries) in(b []byte) string {
	for _, text := range c.texts {
		if bytes.Contains(b, text) || bytes.Contains(b, []byte(hex.EncodeToString(text))) {
			return string(text)
		}
	}
	for at := bytes.Index(b, zstdMagic); at >= 0; {
		if plain := c.frame(b[at:]); plain != nil {
			if found := c.in(plain); found != "" {
				return found
			}
		}
		next := bytes.Index(b[at+1:], zstdMagic)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return ""
}

// inValues is in without the texts that names consist of.
func (c *canaries) inValues(b []byte) string {
	return (&canaries{texts: c.texts[:c.values], zstd: c.zstd}).in(b)
}

// frame decodes the frame that b begins with, as far as it can be.
func (c *canaries) frame(b []byte) []byte {
	if err := c.zstd.Reset(bytes.NewReader(b)); err != nil {
		return nil
	}
	plain, _ := io.ReadAll(c.zstd) // what follows the frame is no zstd
	return plain
}

// search returns where in the tiers the canaries are: a line for each place.
func (s *servers) search(c *canaries, schema string, buckets ...string) (found []string) {
	s.t.Helper()
	ctx := context.Background()
	add := func(where, what string) { found = append(found, where+" holds "+what) }
	s.searchRedis(ctx, c, add)
	s.searchDatabase(c, schema, add)
	for _, b := range buckets {
		s.searchBucket(ctx, c, b, add)
	}
	return found
}

// searchRedis looks at every key, and at the append-only file. Values are
// dumped as they are, not compressed. A name may stay for as long as a tombstone
// lives, and in the file until it is written anew: what the file holds is
// searched for words that are in values alone.
func (s *servers) searchRedis(ctx context.Context, c *canaries, add func(where, what string)) {
	s.t.Helper()
	if err := s.redis.ConfigSet(ctx, "rdbcompression", "no").Err(); err != nil {
		s.t.Fatal(err)
	}
	keys := s.redis.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		dump, err := s.redis.Dump(ctx, key).Result()
		if err != nil && !errors.Is(err, goredis.Nil) {
			s.t.Fatal(err)
		}
		if what := c.in([]byte(dump)); what != "" {
			add("Redis key "+key, what)
		}
		if what := c.in([]byte(key)); what != "" {
			left, err := s.redis.PTTL(ctx, key).Result()
			if err != nil {
				s.t.Fatal(err)
			}
			if left == -1 || left > hot.TombstoneTTL {
				add(fmt.Sprintf("Redis for %v a key %s", left, key), what)
			}
		}
	}
	if err := keys.Err(); err != nil {
		s.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.Dir(), "data/redis/appendonlydir/*.aof"))
	if err != nil || len(files) == 0 {
		s.t.Fatal("no append-only file", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if what := c.inValues(b); what != "" {
			add("Redis file "+filepath.Base(file), what)
		}
	}
}

// searchDatabase looks at every row of every table, and at what PostgreSQL keeps of
// their values to plan by.
func (s *servers) searchDatabase(c *canaries, schema string, add func(where, what string)) {
	s.t.Helper()
	for _, table := range s.tables(schema) {
		s.onWarm(func(ctx context.Context, conn *pgx.Conn) error {
			var out bytes.Buffer
			if _, err := conn.PgConn().CopyTo(ctx, &out, fmt.Sprintf(`COPY %s.%q TO STDOUT`, schema, table)); err != nil {
				return err
			}
			for row := range bytes.Lines(out.Bytes()) {
				if what := c.inRow(row); what != "" {
					add("table "+table, what)
					break
				}
			}
			return nil
		})
	}
	s.onWarm(func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT tablename || '.' || attname, s::text FROM pg_stats s WHERE schemaname = $1`, schema)
		if err != nil {
			return err
		}
		var column, values string
		_, err = pgx.ForEachRow(rows, []any{&column, &values}, func() error {
			if what := c.in([]byte(values)); what != "" {
				add("statistics of "+column, what)
			}
			return nil
		})
		return err
	})
}

// inRow looks into the columns of a row, bytea ones decoded.
func (c *canaries) inRow(row []byte) string {
	if what := c.in(row); what != "" {
		return what
	}
	for column := range strings.SplitSeq(strings.TrimSpace(string(row)), "\t") {
		digits, ok := strings.CutPrefix(column, `\\x`)
		if !ok {
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			continue
		}
		if what := c.in(b); what != "" {
			return what
		}
	}
	return ""
}

// searchBucket looks at every version of every object.
func (s *servers) searchBucket(ctx context.Context, c *canaries, bucket string, add func(where, what string)) {
	s.t.Helper()
	p := placeOf(s.t, bucket)
	api := servicestest.Objects(s.t, p)
	for o := range api.ListObjects(ctx, p.Bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if o.Err != nil {
			s.t.Fatal(o.Err)
		}
		if what := c.in([]byte(o.Key)); what != "" {
			add("name "+o.Key, what)
		}
		if o.IsDeleteMarker {
			continue
		}
		body, err := api.GetObject(ctx, p.Bucket, o.Key, minio.GetObjectOptions{VersionID: o.VersionID})
		if err != nil {
			s.t.Fatal(err)
		}
		b, err := io.ReadAll(body)
		body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		if what := c.in(b); what != "" {
			add("object "+p.Bucket+"/"+o.Key, what)
		}
	}
}

// TestSearchFinds: a search that could not find anything would pass every erase.
func TestSearchFinds(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCanaries(t, []string{"yellow bird"}, []string{"nest"})
	packed := append([]byte("header "), enc.EncodeAll([]byte(strings.Repeat("a yellow bird sings. ", 50)), nil)...)
	packed = append(packed, " trailer"...)
	for name, b := range map[string][]byte{
		"plain":          []byte("the yellow bird sings"),
		"hexadecimal":    []byte(hex.EncodeToString([]byte("the yellow bird"))),
		"a frame within": packed,
		"after a magic":  append(bytes.Clone(zstdMagic), packed...),
	} {
		if c.in(b) == "" {
			t.Errorf("%s: not found", name)
		}
	}
	if what := c.inRow([]byte("7\t\\\\x" + hex.EncodeToString(packed) + "\tt\n")); what == "" {
		t.Error("a frame in a bytea column: not found")
	}
	if c.in([]byte("a nest")) == "" || c.inValues([]byte("a nest")) != "" {
		t.Error("a name is not told from a value")
	}
	if what := c.in([]byte("no bird here")); what != "" {
		t.Errorf("found %q in nothing", what)
	}
}
