package torture

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// recovered is how long after the last fault everything has to be as before.
const recovered = time.Minute

// breakWires breaks exchanges of a daemon with its callers, Redis, PostgreSQL and both
// buckets in every way there is, under writers that try again with the same
// Idempotency-Key. Every write has exactly one effect, no get is behind what was
// acknowledged once the faults are over, and everything still comes to both buckets. A
// round is one exchange that was broken.
func breakWires(t *testing.T, c *course) { breakAndRetry(t, c, true) }

// TestBrokenWiresNeedTheKey: without the key the retries leave two effects, and the
// campaign says so.
func TestBrokenWiresNeedTheKey(t *testing.T) {
	finds(t, 40, twice, func(c *course) { breakAndRetry(t, c, false) })
}

func breakAndRetry(t *testing.T, c *course, keyed bool) {
	schema, _ := servicestest.Schema(t)
	wires := map[string]*fault.Proxy{}
	var hot, warm, primary, backup, front string
	wires["redis"], hot = proxied(t, servicestest.Variable(t, "TIERD_HOT"), fault.Redis)
	wires["postgres"], warm = proxied(t, schema, fault.Postgres)
	wires["primary"], primary = proxiedBucket(t, "TIERD_COLD")
	wires["backup"], backup = proxiedBucket(t, "TIERD_BACKUP")
	t.Setenv("NO_PROXY", "127.0.0.1")
	wires["callers"], front = proxied(t, daemontest.Serve(t, tierd.Config{
		Data: t.TempDir(), Hot: hot, Warm: warm, Cold: primary, Backup: backup, SegmentAge: 200 * time.Millisecond}), fault.HTTP)
	w := &effects{course: c, keyed: keyed, client: dial(t, front, patience)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w.prepare(ctx, t)
	// What a fault of each kind costs differs: the longest are the rarest. A caller
	// waits as long as it likes, so that its wires break at once.
	quick := []fault.Kind{fault.Reset, fault.Cut, fault.Half, fault.HalfClose, fault.Slow}
	lasting := []fault.Kind{fault.Hole, fault.Drip}
	kinds := 0
	for i, name := range slices.Sorted(maps.Keys(wires)) {
		every := map[string]int{"redis": 300, "postgres": 100, "callers": 100, "primary": 8, "backup": 8}[name]
		seed := c.seed + uint64(10*i)
		scripts := []fault.Script{
			counted(c, fault.Sometimes(seed, every, fault.At(fault.Reply), quick...)),
			counted(c, fault.Sometimes(seed+1, 2*every, fault.At(fault.Sent), quick...)),
		}
		kinds += len(quick)
		if name != "callers" {
			scripts = append(scripts, counted(c, fault.Sometimes(seed+2, 20*every, fault.At(fault.Reply), lasting...)))
			kinds += len(lasting)
		}
		wires[name].Play(fault.First(scripts...))
	}
	w.writeAll(ctx)
	met := 0
	for _, p := range wires {
		p.Play(nil)
		for _, n := range p.Faults() {
			c.inject(n)
			met++
		}
	}
	if w.check(ctx); len(c.violations) == 0 {
		w.settled(ctx)
	}
	c.note("%d writes, %d tries; %d of %d kinds of faults", w.done.Load(), w.tries.Load(), met, kinds)
}

// proxiedBucket makes a bucket on a variable's server, and puts a proxy before it.
func proxiedBucket(t *testing.T, variable string) (*fault.Proxy, string) {
	t.Helper()
	bucket, err := url.Parse(servicestest.Bucket(t, servicestest.Variable(t, variable), false))
	if err != nil {
		t.Fatal(err)
	}
	q := bucket.Query()
	p, endpoint := proxied(t, q.Get("endpoint"), fault.HTTP)
	q.Set("endpoint", endpoint)
	bucket.RawQuery = q.Encode()
	return p, bucket.String()
}

// settled wants plain gets to be at what stands, and every document to be demoted
// behind two copies and read back.
func (w *effects) settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recovered)
	defer cancel()
	for into := range w.acks {
		ns, id, _ := strings.Cut(into, "/")
		if ns != documents {
			continue
		}
		want, err := w.client.Get(ctx, documents, id, &tiering.GetOptions{Strong: true})
		if err != nil {
			w.violated("%s: %v", into, err)
			continue
		}
		got, err := w.client.Get(ctx, documents, id, nil)
		if err != nil || got.Version != want.Version || string(got.Body) != string(want.Body) {
			w.violated("%s: a get answers version %d, %v: %d stands", into, version(got), err, want.Version)
		}
		for {
			_, err = w.client.Demote(ctx, documents, id)
			if err == nil || !tiering.Retryable(err) || ctx.Err() != nil {
				break
			}
			pause(ctx, 100*time.Millisecond)
		}
		if err != nil {
			w.violated("%s is not demoted within %v: %v", into, recovered, err)
			continue
		}
		got, err = w.client.Get(ctx, documents, id, &tiering.GetOptions{Version: want.Version})
		if err != nil || string(got.Body) != string(want.Body) {
			w.violated("%s: version %d comes back as %.60s, %v", into, want.Version, got.Body, err)
		}
	}
}

func version(d *tiering.Document) int64 {
	if d == nil {
		return 0
	}
	return d.Version
}
