package cost

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

var update = flag.Bool("update", false, "write the golden files again")

const day = 24 * time.Hour

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// store is a usage of one namespace, half a year old: 1,000 documents of 10 KB,
// of which 100 are new each day, written 5,000 times a day.
func store(p tiering.Policy, change func(*tiering.Usage, *tiering.NamespaceUsage)) *tiering.Usage {
	p = p.WithDefaults()
	n := tiering.NamespaceUsage{
		Tenant: "default", Namespace: "chats", Policy: p, Life: p.TTL,
		Documents: 1000, Bytes: 10e6, WarmBytes: 4e6, ActiveBytes: 4e6, NewBytes: 30e6, Versions: 150_000, RawBytes: 1.5e9,
	}
	u := &tiering.Usage{
		Now: noon, Since: noon.Add(-180 * day), HotBytes: 2e6, WarmBytes: 40e6, WarmBodies: 10e6, ColdBytes: [2]int64{4.5e8, 4.5e8},
		Segments: 400, SegmentBytes: 4.5e8, RawBytes: 9e9, Days: 30, Sampled: 64,
		Tenants: []tiering.TenantUsage{{Tenant: "default", Versions: n.Versions, RawBytes: n.RawBytes}},
	}
	if change != nil {
		change(u, &n)
	}
	u.Namespaces = append(u.Namespaces, n)
	return u
}

func ttl(d time.Duration) tiering.Duration { return tiering.Duration(d) }

func usages() map[string]*tiering.Usage {
	return map[string]*tiering.Usage{
		"empty": {Now: noon, HotBytes: -1, WarmBytes: 120_000, Days: 1},
		"an hour old": store(tiering.Policy{}, func(u *tiering.Usage, n *tiering.NamespaceUsage) {
			u.Since, u.Days, u.Segments = noon.Add(-time.Hour), 1, 3
			u.ColdBytes, u.SegmentBytes, u.RawBytes = [2]int64{2e5, 2e5}, 2e5, 1e6
			u.WarmBytes, u.WarmBodies = 3e6, 1e6
			n.Documents, n.Versions, n.RawBytes = 10, 100, 1e6
			n.Bytes, n.WarmBytes, n.ActiveBytes, n.NewBytes = 1e5, 1e5, 1e5, 1e5
			u.Tenants[0].Versions, u.Tenants[0].RawBytes = 100, 1e6
		}),
		"persistent":     store(tiering.Policy{}, nil),
		"short history":  store(tiering.Policy{KeepFor: ttl(7 * day), KeepVersions: 10}, nil),
		"sessions":       store(tiering.Policy{Class: tiering.ClassSession, TTL: ttl(2 * time.Hour)}, nil),
		"a log":          store(tiering.Policy{Kind: tiering.KindLog}, nil),
		"ephemeral":      store(tiering.Policy{Class: tiering.ClassEphemeral}, ephemeral),
		"hot is away":    store(tiering.Policy{}, func(u *tiering.Usage, _ *tiering.NamespaceUsage) { u.HotBytes = -1 }),
		"cold is behind": store(tiering.Policy{}, behind),
	}
}

// ephemeral documents have no heads and no segments.
func ephemeral(u *tiering.Usage, n *tiering.NamespaceUsage) {
	*n = tiering.NamespaceUsage{Tenant: n.Tenant, Namespace: n.Namespace, Policy: n.Policy}
	*u = tiering.Usage{Now: noon, HotBytes: 5e8, WarmBytes: 120_000, Days: 1}
}

// behind: nothing was archived yet.
func behind(u *tiering.Usage, n *tiering.NamespaceUsage) {
	u.ColdBytes, u.Segments, u.SegmentBytes, u.RawBytes, u.Sampled = [2]int64{}, 0, 0, 0, 0
	u.Tenants, n.Versions, n.RawBytes = nil, 0, 0
}

// Every estimate is what it was, to the last digit that is printed.
func TestGolden(t *testing.T) {
	for name, u := range usages() {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(Of(u, Defaults()), "", "  ")
			if err != nil {
				t.Fatal(err) // a NaN is no JSON
			}
			file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(append(got, '\n'), want) {
				t.Errorf("%v; got\n%s", err, got)
			}
		})
	}
}

// What policies leave in a year, worked out by hand: 5,000 versions and 50 MB a
// day.
func TestWhatPoliciesLeave(t *testing.T) {
	const mb = 1e6
	for _, c := range []struct {
		name       string
		policy     tiering.Policy
		kept       float64 // days
		cold, warm float64 // bytes as they were written; bodies and projections
	}{
		// 9 GB of today stay. 1,000 documents of 5 versions a day: none has 1,000
		// newer ones within keep_for.
		{"keep everything for a year", tiering.Policy{}, 365, 9000*mb + 365*50*mb, 4*mb + 50*mb/24 + 10*mb + 365*mb},
		// A version is kept until 10 newer ones cover it no more, after 2 days, and
		// for 7 days; then current versions alone are left, of 1 MB of new documents a day.
		{"keep for a week", tiering.Policy{KeepFor: ttl(7 * day), KeepVersions: 10}, 7, 7*50*mb + 10*mb + 358*mb, 4*mb + 50*mb/24 + 375*mb},
		// keep_versions covers for longer: 100 newer ones take 20 days.
		{"keep a hundred versions", tiering.Policy{KeepFor: ttl(7 * day), KeepVersions: 100}, 20, 20*50*mb + 10*mb + 345*mb, 4*mb + 50*mb/24 + 375*mb},
		// They end, and are gone a week later; as many live as today.
		{"a life of a day", tiering.Policy{TTL: ttl(day), KeepFor: ttl(7 * day)}, 8, 8 * 50 * mb, 4*mb + 50*mb/24 + 10*mb},
		// Entries leave warm by their own age; none is ever collected.
		{"a log", tiering.Policy{Kind: tiering.KindLog, KeepFor: ttl(7 * day)}, 365, 9000*mb + 365*50*mb, 30 * 50 * mb},
		{"a log that ends", tiering.Policy{Kind: tiering.KindLog, Class: tiering.ClassSession, TTL: ttl(2 * day), KeepFor: ttl(7 * day)}, 9, 9 * 50 * mb, 2 * 50 * mb},
		{"no queries", tiering.Policy{Query: new(bool)}, 365, 9000*mb + 365*50*mb, 4*mb + 50*mb/24},
		{"ephemeral", tiering.Policy{Class: tiering.ClassEphemeral}, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := store(c.policy, nil)
			s := newModel(u).spaces[0]
			for what, pair := range map[string][2]float64{"days kept": {s.kept(), c.kept}, "cold": {s.coldYear(), c.cold}, "warm": {s.warmYear(), c.warm}} {
				if math.Abs(pair[0]-pair[1]) > 1e-6*max(1, pair[1]) {
					t.Errorf("%s is %.0f, want %.0f", what, pair[0], pair[1])
				}
			}
		})
	}
}

// A lone change has a segment of its own; what comes without a pause shares one
// for 10 s, or until it is full.
func TestSegmentsOfADay(t *testing.T) {
	for _, c := range []struct {
		name          string
		versions, raw float64
		want          float64
	}{
		{"nothing", 0, 0, 0},
		{"one", 1, 1e4, 1},
		{"one an hour", 24, 1e5, 24},
		{"one a second", 86_400, 86e6, 86_400 / 11.0},
		{"a thousand a second", 86.4e6, 86.4e9, 86.4e9 / segmentBytes},
		{"large ones", 100, 100 * segmentBytes, 100},
	} {
		if got := segments(c.versions, c.raw); math.Abs(got-c.want) > 0.005*max(c.want, 1) {
			t.Errorf("%s: %.1f segments, want %.1f", c.name, got, c.want)
		}
	}
}

// Prices are linear: on a free list nothing costs anything, at twice the prices
// twice as much.
func TestPricesAreLinear(t *testing.T) {
	u := store(tiering.Policy{}, nil)
	once, twice := Of(u, Defaults()), Of(u, Prices{0.24, 0.046, 0.0046, 0.01, 0.0008})
	if free := Of(u, Prices{}); free.Now.Total != 0 || free.Year.Total != 0 || free.Year.InHot != 0 {
		t.Errorf("free: %+v", free.Now)
	}
	for what, pair := range map[string][2]float64{
		"now": {once.Now.Total, twice.Now.Total}, "in a year": {once.Year.Total, twice.Year.Total}, "in hot": {once.Now.InHot, twice.Now.InHot},
	} {
		if pair[0] <= 0 || math.Abs(2*pair[0]-pair[1]) > 1e-9*pair[1] {
			t.Errorf("%s: %v, then %v", what, pair[0], pair[1])
		}
	}
}

// Whatever the tiers tell, no number is negative, infinite or none.
func TestEveryNumberIsFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := func(name string) int64 {
			return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1<<50)).Draw(t, name)
		}
		span := func(name string) tiering.Duration {
			return tiering.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(400*day))).Draw(t, name))
		}
		u := &tiering.Usage{
			Now: noon, HotBytes: some("hot") - 1, WarmBytes: some("warm"), WarmBodies: some("bodies"), ColdBytes: [2]int64{some("cold"), some("backup")},
			Segments: some("segments"), SegmentBytes: some("segment bytes"), RawBytes: some("raw"), Days: float64(rapid.IntRange(0, 400).Draw(t, "days")),
		}
		if rapid.Bool().Draw(t, "begun") {
			u.Since = noon.Add(-span("age").Std() + time.Hour) // perhaps after now: clocks jump
		}
		for range rapid.IntRange(0, 3).Draw(t, "namespaces") {
			n := tiering.NamespaceUsage{
				Tenant: "t", Namespace: "n", Documents: some("documents"), Bytes: some("bytes"), ActiveBytes: some("active"), NewBytes: some("new"),
				Versions: float64(some("versions")), RawBytes: float64(some("raw of it")), Life: span("life"),
				Policy: tiering.Policy{
					Kind:    rapid.SampledFrom([]tiering.Kind{tiering.KindState, tiering.KindLog, tiering.KindSession}).Draw(t, "kind"),
					Class:   rapid.SampledFrom([]tiering.Class{tiering.ClassEphemeral, tiering.ClassSession, tiering.ClassPersistent}).Draw(t, "class"),
					KeepFor: span("keep_for"), DemoteAfter: span("demote_after"), RetireAfter: span("retire_after"),
				}.WithDefaults(),
			}
			u.Namespaces = append(u.Namespaces, n)
			u.Tenants = append(u.Tenants, tiering.TenantUsage{Tenant: "t", Versions: n.Versions, RawBytes: n.RawBytes})
		}
		text, err := json.Marshal(Of(u, Defaults()))
		if err != nil {
			t.Fatal(err) // infinite numbers are no JSON
		}
		if bytes.Contains(text, []byte(":-")) {
			t.Fatalf("a negative number: %s", text)
		}
	})
}

// A price list is read as it is written, and what it leaves out has its default.
func TestParsePrices(t *testing.T) {
	for text, want := range map[string]Prices{
		"":                     Defaults(),
		Defaults().String():    Defaults(),
		" hot=1, get = 0 ,":    {1, 0.023, 0.0023, 0.005, 0},
		"warm=1e-2,cold=0.004": {0.12, 0.01, 0.004, 0.005, 0.0004},
	} {
		if got, err := ParsePrices(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, part := range map[string]string{
		"ice=1": "no price", "hot": "use a number", "hot=much": "use a number", "hot=-1": "not negative", "hot=Inf": "use a number", "hot=NaN": "use a number", "hot=1,hot=2": "twice",
	} {
		if _, err := ParsePrices(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", text, err, part)
		}
	}
}
