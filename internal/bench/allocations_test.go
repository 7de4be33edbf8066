package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/internal/telemetry"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/sqlite"
)

// allowed is what one call on the hot path may allocate, in process: objects and
// bytes. Documents are of 1 KB where nothing else is said. A figure that has become
// smaller is worth lowering here: otherwise what was won can be lost unseen.
var allowed = []struct {
	call           string
	objects, bytes int
	open           func(*testing.T) func() error
}{
	{"hot/memory: get", 0, 0, memoryGet},
	{"jsondoc: compact 64 KB", 0, 0, compact64KB},
	{"jsondoc: merge patch of one field in 64 KB", 8, 76_000, merge64KB},
	{"router: get from hot", 1, 256, func(t *testing.T) func() error { return routerGet(t, openEmbedded(t, nil), nil) }},
	{"router: strong get", 38, 1600, func(t *testing.T) func() error {
		return routerGet(t, openEmbedded(t, nil), &tiering.GetOptions{Strong: true})
	}},
	{"router: put", 110, 7_000, routerPut},
	{"router: append", 107, 6_200, routerAppend},
	{"router: merge patch", 121, 9_000, routerPatch},
	{"http: get from hot", 7, 1_100, func(t *testing.T) func() error { return httpGet(t, false) }},
	{"http: get from hot, with an API key", 9, 1_450, func(t *testing.T) func() error { return httpGet(t, true) }},
	{"http: put", 121, 9_200, func(t *testing.T) func() error { return httpPut(t, 1<<10) }},
	{"http: put of 64 KB", 122, 150_000, func(t *testing.T) func() error { return httpPut(t, 64<<10) }},
	{"cold: read of a record", 30, 4_000, coldRead},
}

// TestAllocations holds the calls of the hot path to what they may allocate. Unlike
// times, these figures are the same on a busy machine.
//
// The race detector changes them: "make test" runs this test beside the raced ones.
func TestAllocations(t *testing.T) {
	if racedetector.On {
		t.Skip("the race detector allocates too; make test runs this without it")
	}
	for _, c := range allowed {
		t.Run(c.call, func(t *testing.T) {
			objects, size := allocations(t, c.open(t))
			t.Logf("%3d objects of %3d, %6d bytes of %6d", objects, c.objects, size, c.bytes)
			if fault := judge(c.call, objects, size, c.objects, c.bytes); fault != "" {
				t.Error(fault)
			}
		})
	}
}

// A hot tier that copies what it serves is seen.
func TestAllocationsSeeACopy(t *testing.T) {
	if racedetector.On {
		t.Skip("the race detector allocates too; make test runs this without it")
	}
	cache := memory.Open(nil)
	objects, size := allocations(t, routerGet(t, openEmbedded(t, copying{cache}), nil))
	for _, c := range allowed {
		if c.call == "router: get from hot" && judge(c.call, objects, size, c.objects, c.bytes) != "" {
			return
		}
	}
	t.Errorf("a get that copies the document, with %d objects and %d bytes, is let through", objects, size)
}

// copying is a hot tier that copies what it serves.
type copying struct{ hot.Store }

func (s copying) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	l, err := s.Store.Get(ctx, key, lease)
	l.Entry.Body = bytes.Clone(l.Entry.Body)
	return l, err
}

// judge says what is wrong with a call's figures, "" if nothing is.
func judge(call string, objects, size, mostObjects, mostBytes int) string {
	if objects <= mostObjects && size <= mostBytes {
		return ""
	}
	return fmt.Sprintf(`%s allocates %d objects and %d bytes, and may %d and %d.
To see all figures:     go test -count=1 -v -run '^TestAllocations$' ./internal/bench
To see what allocates:  add  -run '^TestAllocations$/NAME' -memprofile mem.out -memprofilerate 1, then  go tool pprof -sample_index=alloc_objects -top mem.out
If it is worth its price, write the new figure into the table "allowed" in internal/bench/allocations_test.go, and the reason into the commit.`,
		call, objects, size, mostObjects, mostBytes)
}

// allocations is what one call allocates: the least of several rounds, because what
// others do meanwhile, such as a sweeper, only adds to it.
func allocations(t *testing.T, do func() error) (objects, size int) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools
	const rounds, calls = 8, 50
	leastObjects, leastBytes := uint64(math.MaxUint64), uint64(math.MaxUint64)
	for range rounds {
		runtime.GC()
		var before, after runtime.MemStats
		for range 3 { // pools and caches are filled
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&before)
		for range calls {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		leastObjects = min(leastObjects, after.Mallocs-before.Mallocs)
		leastBytes = min(leastBytes, after.TotalAlloc-before.TotalAlloc)
	}
	return int(leastObjects / calls), int(leastBytes / calls)
}

// document is an object of a number of bytes.
func document(size int) []byte {
	const head, tail = `{"status":"open","text":"`, `"}`
	return []byte(head + strings.Repeat("a sentence of prose ", size/20+1)[:size-len(head)-len(tail)] + tail)
}

func memoryGet(t *testing.T) func() error {
	s := memory.Open(nil)
	t.Cleanup(func() { must(t, s.Close()) })
	key := tiering.Key{Tenant: tiering.DefaultTenant, Namespace: "runs", ID: "run/7"}
	ctx := context.Background()
	_, err := s.Set(ctx, hot.Set{Key: key, TTL: time.Hour, Entry: hot.Entry{Meta: tiering.Meta{Version: 1}, Body: document(1 << 10)}})
	must(t, err)
	return func() error {
		l, err := s.Get(ctx, key, true)
		if err == nil && l.State != hot.Present {
			err = fmt.Errorf("state %d", l.State)
		}
		return err
	}
}

func compact64KB(*testing.T) func() error {
	doc := document(64 << 10)
	return func() error {
		_, err := jsondoc.Compact(doc)
		return err
	}
}

func merge64KB(*testing.T) func() error {
	doc, patch := document(64<<10), []byte(`{"status":"closed"}`)
	return func() error {
		_, err := jsondoc.MergePatch(doc, patch)
		return err
	}
}

// openEmbedded is a router over the embedded tiers with nothing at work behind it.
// store is hot; nil: as a node has it.
func openEmbedded(t *testing.T, store hot.Store) *router.Router {
	t.Helper()
	if store == nil {
		store = memory.Open(nil)
	}
	t.Cleanup(func() { must(t, store.Close()) })
	docs, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "warm.db"), nil)
	must(t, err)
	t.Cleanup(func() { must(t, docs.Close()) })
	r := router.New(router.Config{Hot: store, HotTimeout: -1, Warm: docs, Committers: docs.Capabilities().Committers, PolicyTTL: time.Hour})
	t.Cleanup(r.Close)
	_, err = r.Put(t.Context(), "runs", "run/7", document(1<<10), nil)
	must(t, err)
	return r
}

func routerGet(t *testing.T, r *router.Router, o *tiering.GetOptions) func() error {
	ctx := t.Context()
	return func() error {
		d, err := r.Get(ctx, "runs", "run/7", o)
		if err == nil && d.Tier != tiering.Hot {
			err = fmt.Errorf("%s served it", d.Tier)
		}
		return err
	}
}

func routerPut(t *testing.T) func() error {
	r, ctx, doc := openEmbedded(t, nil), t.Context(), document(1<<10)
	return func() error {
		_, err := r.Put(ctx, "runs", "run/7", doc, nil)
		return err
	}
}

func routerAppend(t *testing.T) func() error {
	r, ctx := openEmbedded(t, nil), t.Context()
	_, err := r.SetNamespace(ctx, "turns", tiering.Policy{Kind: tiering.KindLog}, nil)
	must(t, err)
	entry := []json.RawMessage{document(370)}
	return func() error {
		_, err := r.Append(ctx, "turns", "t", entry, nil)
		return err
	}
}

func routerPatch(t *testing.T) func() error {
	r, ctx := openEmbedded(t, nil), t.Context()
	patch := []byte(`{"status":"closed"}`)
	return func() error {
		_, err := r.Patch(ctx, "runs", "run/7", tiering.MergePatch, patch, nil)
		return err
	}
}

// handler is the API over an embedded router, with metrics, as the daemon has it.
func handler(t *testing.T, r *router.Router, keys bool) http.Handler {
	t.Helper()
	m, err := telemetry.New(telemetry.Options{NoRuntime: true})
	must(t, err)
	o := server.Options{As: func(p tiering.Principal) tiering.Service { return r.As(p) }, Recorder: m.Server(), LocalHosts: !keys}
	if keys {
		o.Authenticate = r.Authenticate
	}
	s, err := server.New(o)
	must(t, err)
	return s.Handler()
}

// answer is a ResponseWriter that keeps the status alone.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

func (a *answer) to(h http.Handler, r *http.Request) error {
	clear(a.header)
	a.status = 0
	if h.ServeHTTP(a, r); a.status != http.StatusOK {
		return fmt.Errorf("answered %d", a.status)
	}
	return nil
}

func httpGet(t *testing.T, keys bool) func() error {
	r := openEmbedded(t, nil)
	h, a := handler(t, r, keys), &answer{header: http.Header{}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:8437/v1/state/runs/run/7", nil)
	must(t, err)
	if keys {
		k, err := r.CreateKey(t.Context(), tiering.APIKey{Name: "bench"})
		must(t, err)
		request.Header.Set("Authorization", "Bearer "+k.Secret)
	}
	return func() error { return a.to(h, request) }
}

func httpPut(t *testing.T, size int) func() error {
	h, a, doc := handler(t, openEmbedded(t, nil), false), &answer{header: http.Header{}}, document(size)
	body := bytes.NewReader(doc)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost:8437/v1/state/runs/run/7", body)
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Body = io.NopCloser(body)
	return func() error {
		body.Reset(doc)
		return a.to(h, request)
	}
}

// coldRead reads a record of 1 KB out of a block that holds several.
func coldRead(t *testing.T) func() error {
	bucket, err := dir.Open(t.TempDir(), nil)
	must(t, err)
	t.Cleanup(func() { must(t, bucket.Close()) })
	at := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	var recs []cold.Record
	for i := range 64 {
		body := document(1 << 10)
		recs = append(recs, cold.Record{Key: tiering.Key{Tenant: tiering.DefaultTenant, Namespace: "runs", ID: fmt.Sprintf("run/%02d", i)},
			Op: tiering.OpPut, Version: 1, Pos: int64(i + 1), At: at, CreatedAt: at, Digest: tiering.DigestOf(body), Body: body})
	}
	seg, err := cold.Encode(tiering.DefaultTenant, nil, recs, nil)
	must(t, err)
	archive := cold.NewArchive(bucket, bucket, &cold.ArchiveOptions{CacheBytes: -1})
	name := archive.Name(at, 1)
	must(t, archive.Write(t.Context(), tiering.Primary, name, seg.Data))
	where := seg.LocationsFor(name)[7]
	ctx := t.Context()
	return func() error {
		rec, err := archive.ReadFrom(ctx, tiering.Primary, where, 1)
		if err == nil && len(rec.Body) != 1<<10 {
			err = fmt.Errorf("a body of %d bytes", len(rec.Body))
		}
		return err
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
