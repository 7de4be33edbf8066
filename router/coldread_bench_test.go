package router

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// BenchmarkColdRead reads versions that lie in cold alone through a router over
// the embedded tiers, and files that hold the same bodies with their digests, in
// turn. Each block is read for the first time or from memory, as it comes.
//
//	go test -run '^$' -bench ColdRead -benchtime 3000x ./router
//
// times-file is the median of the one over that of the other.
func BenchmarkColdRead(b *testing.B) {
	for _, c := range []struct {
		name              string
		keys, turns, size int
	}{
		{"size=1KB/turns=1", 2000, 1, 1 << 10}, {"size=12KB/turns=1", 300, 1, 12 << 10}, {"size=20KB/turns=20", 100, 20, 20 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			recs := growing(c.keys, c.turns, c.size)
			r := coldRouter(b, recs)
			folder := b.TempDir()
			for i, rec := range recs {
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), rec.Body, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			var ours, file []time.Duration
			for i := 0; b.Loop(); i++ {
				k := i * 37 % len(recs)
				rec := recs[k]
				began := time.Now()
				d, err := r.Get(b.Context(), space, rec.Key.ID, &tiering.GetOptions{Version: rec.Version})
				ours = append(ours, time.Since(began))
				if err != nil || d.Tier != tiering.Cold || len(d.Body) != len(rec.Body) {
					b.Fatalf("%+v, %v", d, err)
				}
				name := filepath.Join(folder, fmt.Sprint(k))
				began = time.Now()
				whole, err := os.ReadFile(name)
				same := tiering.DigestOf(whole) == rec.Digest
				file = append(file, time.Since(began))
				if err != nil || !same {
					b.Fatal(err)
				}
			}
			slices.Sort(ours)
			slices.Sort(file)
			b.ReportMetric(float64(ours[len(ours)/2])/float64(file[len(file)/2]), "times-file")
			b.ReportMetric(float64(ours[len(ours)/2].Nanoseconds())/1e3, "p50-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// growing makes documents that grow to size by turns.
func growing(keys, turns, size int) (recs []cold.Record) {
	rnd := rand.New(rand.NewPCG(5, 3))
	at := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for k := range keys {
		var text strings.Builder
		for v := range turns {
			for text.Len() < size*(v+1)/turns {
				fmt.Fprintf(&text, "%x ", rnd.Uint64N(1<<(4+rnd.UintN(14))))
			}
			body := fmt.Appendf(nil, `{"text":%q}`, text.String())
			at = at.Add(time.Millisecond)
			recs = append(recs, cold.Record{
				Key: tiering.Key{Tenant: tiering.DefaultTenant, Namespace: space, ID: fmt.Sprintf("k-%05d", k)}, Op: tiering.OpPut,
				Version: int64(v + 1), Prev: int64(v), Pos: int64(len(recs) + 1), At: at, CreatedAt: at, Digest: tiering.DigestOf(body), Body: body,
			})
		}
	}
	return recs
}

// coldRouter is a router over a store whose documents are all demoted.
func coldRouter(b *testing.B, recs []cold.Record) *Router {
	b.Helper()
	ctx := b.Context()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	store, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "warm.db"), &sqlite.Options{Restore: true})
	must(err)
	b.Cleanup(func() { store.Close() })
	bucket, err := dir.Open(filepath.Join(b.TempDir(), "cold"), nil)
	must(err)
	b.Cleanup(func() { bucket.Close() })
	archive := cold.NewArchive(bucket, bucket, nil)
	seg, err := cold.Encode(tiering.DefaultTenant, nil, recs, nil)
	must(err)
	name := archive.Name(time.Now(), 1)
	must(archive.Write(ctx, tiering.Primary, name, seg.Data))
	must(store.BeginRestore(ctx, "01BENCH", 1<<20))
	must(store.RestoreNamespace(ctx, warm.Namespace{Tenant: tiering.DefaultTenant, Name: space, Kind: tiering.KindState, Class: tiering.ClassPersistent}))
	var heads []warm.Restored
	for i, rec := range recs {
		if i+1 == len(recs) || recs[i+1].Key != rec.Key {
			heads = append(heads, warm.Restored{Head: warm.Head{
				Key: rec.Key, Op: rec.Op, Version: rec.Version, CreatedAt: rec.CreatedAt, UpdatedAt: rec.At, Size: int64(len(rec.Body)), Digest: rec.Digest,
			}})
		}
	}
	must(store.RestoreKeys(ctx, heads))
	must(store.RestoreSegment(ctx, tiering.SegmentInfo{Name: name, Tenant: tiering.DefaultTenant, Size: int64(len(seg.Data)), Count: seg.Count,
		Copies: [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}}, seg.LocationsFor(name)))
	must(store.EndRestore(ctx))
	cache := memory.Open(nil)
	b.Cleanup(func() { cache.Close() })
	r := New(Config{Hot: cache, Warm: store, Archive: archive, Committers: 1})
	b.Cleanup(r.Close)
	return r
}
