package warmtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testReads(t *testing.T, h Harness) {
	k := key("k")
	t.Run("a key that never was", func(t *testing.T) {
		f := setup(t, h)
		for _, k := range []tiering.Key{k, {Tenant: "nobody", Namespace: "nowhere", ID: "k"}} {
			cur := f.load(k)
			equal(f, "the head", cur.Head, warm.Head{})
			equal(f, "now", cur.Now, f.clock.Now())
			_, ok, err := f.store.Version(f.ctx, k, 1)
			f.no(err)
			equal(f, "a version", ok, false)
			_, ok, err = f.store.AsOf(f.ctx, k, f.clock.Now())
			f.no(err)
			equal(f, "a version as of now", ok, false)
		}
	})
	t.Run("Head is Load without the bytes", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		cur, err := f.store.Head(f.ctx, k)
		f.no(err)
		equal(f, "the head", cur.Head, f.load(k).Head)
		equal(f, "bytes", len(cur.Body), 0)
	})
	t.Run("history", func(t *testing.T) {
		f := setup(t, h)
		start := f.clock.Now()
		row := put(`1`)
		row.User, row.Expiry = "ann", ttl(24*time.Hour)
		f.must(k, row)
		f.clock.advance(time.Minute)
		f.must(k, put(`2`))
		f.clock.advance(time.Minute)
		f.must(k, op(tiering.OpDelete))
		f.clock.advance(time.Minute)
		f.must(k, put(`4`))

		v, ok, err := f.store.Version(f.ctx, k, 1)
		f.no(err)
		equal(f, "version 1 held", ok, true)
		if string(v.Body) != `1` || v.Key != k || v.Op != tiering.OpPut || v.User != "ann" || v.Size != 1 || v.Digest != row.Digest ||
			!v.At.Equal(start) || !v.CreatedAt.Equal(start) || !v.ExpiresAt.Equal(start.Add(24*time.Hour)) {
			t.Fatalf("version 1 is %+v", v)
		}
		v, ok, err = f.store.Version(f.ctx, k, 3)
		f.no(err)
		if !ok || v.Op != tiering.OpDelete || v.Body != nil || v.Digest != (tiering.Digest{}) {
			t.Fatalf("version 3 is %+v, %v", v, ok)
		}
		_, ok, err = f.store.Version(f.ctx, k, 9)
		f.no(err)
		equal(f, "version 9 held", ok, false)

		for _, c := range []struct {
			at   time.Duration
			want int64
		}{{-time.Microsecond, 0}, {0, 1}, {time.Minute - time.Microsecond, 1}, {time.Minute, 2}, {150 * time.Second, 3}, {time.Hour, 4}} {
			v, ok, err := f.store.AsOf(f.ctx, k, start.Add(c.at))
			f.no(err)
			if ok != (c.want > 0) || v.Version != c.want {
				t.Fatalf("as of %s: version %d, %v, want %d", c.at, v.Version, ok, c.want)
			}
		}
		for _, c := range []struct {
			before int64
			limit  int
			want   string
		}{{0, 10, "[4 3 2 1]"}, {0, 2, "[4 3]"}, {3, 10, "[2 1]"}, {3, 1, "[2]"}, {1, 10, "[]"}} {
			vs, err := f.store.Versions(f.ctx, k, c.before, c.limit)
			f.no(err)
			got := []int64{}
			for _, v := range vs {
				got = append(got, v.Version)
				equal(f, "bytes in a list of versions", len(v.Body), 0)
			}
			equal(f, fmt.Sprintf("versions below %d, at most %d", c.before, c.limit), fmt.Sprint(got), c.want)
		}
	})
	t.Run("every read is the tenant's own", func(t *testing.T) {
		f := setup(t, h)
		other := tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}
		f.ensure(other.Tenant, space)
		f.must(k, put(`"acme"`))
		f.must(k, put(`"acme"`))
		f.archived("seg-acme", tiering.CopyVerified, tiering.CopyVerified, k, 1, 2)
		check := func(what string, n int, err error) {
			t.Helper()
			f.no(err)
			if n != 0 {
				t.Fatalf("%s shows another tenant's data", what)
			}
		}
		cur := f.load(other)
		check("Load", int(cur.Head.Version)+len(cur.Body), nil)
		cur, err := f.store.Head(f.ctx, other)
		check("Head", int(cur.Head.Version), err)
		v, ok, err := f.store.Version(f.ctx, other, 1)
		check("Version", int(v.Version), err)
		equal(f, "a version", ok, false)
		v, _, err = f.store.AsOf(f.ctx, other, f.clock.Now().Add(time.Hour))
		check("AsOf", int(v.Version), err)
		vs, err := f.store.Versions(f.ctx, other, 0, 10)
		check("Versions", len(vs), err)
		vs, err = f.store.ReadVersions(f.ctx, []warm.KeyVersion{{Key: other, Version: 1}}, 1<<20)
		f.no(err)
		equal(f, "versions read", len(vs), 1)
		check("ReadVersions", int(vs[0].Version)+len(vs[0].Body), nil)
		page, err := f.store.List(f.ctx, warm.List{Tenant: other.Tenant, Namespace: space, Limit: 10})
		check("List", len(page), err)
		page, _, err = f.store.Query(f.ctx, warm.Query{Tenant: other.Tenant, Namespace: space, Limit: 10})
		check("Query", len(page), err)
		locations, err := f.store.Locations(f.ctx, other)
		check("Locations", len(locations), err)
		segments, err := f.store.Segments(f.ctx, other.Tenant, "", "", 10)
		check("Segments", len(segments), err)
		f.must(other, put(`"globex"`), tiering.IfAbsent())
		f.body(k, `"acme"`)
		f.must(other, op(tiering.OpDelete))
		f.body(k, `"acme"`)
	})
	t.Run("a context that ended stops a read", func(t *testing.T) {
		f := setup(t, h)
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if _, err := f.store.Load(ctx, k); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
	})
	t.Run("what the store holds", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`"12345678"`))
		f.must(k, put(`1`))
		row := put(`22`)
		row.Idempotency = once("r", "x")
		f.must(key("gone"), row)
		f.must(key("gone"), op(tiering.OpDelete))
		st, err := f.store.Stats(f.ctx)
		f.no(err)
		if st.DiskBytes <= 0 {
			t.Errorf("disk bytes: %d", st.DiskBytes)
		}
		st.DiskBytes = 0
		equal(f, "stats", st, warm.Stats{Heads: 2, Tombstones: 1, Versions: 4, BodyBytes: 13, Feed: 4, Idempotent: 1})
		f.no(f.store.Ping(f.ctx))
		now, err := f.store.Now(f.ctx)
		f.no(err)
		equal(f, "now", now, f.clock.Now())
	})
}
