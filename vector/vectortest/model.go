package vectortest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/lexical"
)

// bench is a world with the model of what is in it.
type bench struct {
	testing.TB
	w     World
	items map[tiering.Key]vector.Item
}

func open(t *testing.T, h Harness) *bench {
	t.Helper()
	return &bench{TB: t, w: h.Open(t), items: map[tiering.Key]vector.Item{}}
}

// on is b for a subtest.
func (b *bench) on(t *testing.T) *bench { return &bench{TB: t, w: b.w, items: b.items} }

// remember commits memories.
func (b *bench) remember(ms ...Memory) {
	b.Helper()
	kept := b.w.Remember(b, ms...)
	for i, m := range ms {
		it := vector.Item{Key: m.Key, Version: kept[i].Version, User: m.User, CreatedAt: kept[i].CreatedAt, Entry: m.Entry}
		if before, stood := b.items[m.Key]; stood { // it may have expired
			if b.lives(before) {
				it.User, it.ExpiresAt = before.User, before.ExpiresAt
			}
			if before.Entry.TextHash == m.Entry.TextHash {
				for _, v := range before.Entry.Vectors {
					if !slices.ContainsFunc(it.Entry.Vectors, func(o tiering.MemoryVector) bool { return o.Space == v.Space }) {
						it.Entry.Vectors = append(slices.Clip(it.Entry.Vectors), v)
					}
				}
			}
		}
		if m.TTL > 0 {
			it.ExpiresAt = b.w.Now().Add(m.TTL)
		}
		b.items[m.Key] = it
	}
}

func (b *bench) delete(keys ...tiering.Key) {
	b.Helper()
	b.w.Delete(b, keys...)
	for _, k := range keys {
		delete(b.items, k)
	}
}

func (b *bench) addVector(k tiering.Key, v tiering.MemoryVector) {
	b.Helper()
	b.w.AddVector(b, k, v)
	it := b.items[k]
	it.Entry.Vectors = slices.DeleteFunc(slices.Clone(it.Entry.Vectors), func(o tiering.MemoryVector) bool { return o.Space == v.Space })
	it.Entry.Vectors = append(it.Entry.Vectors, v)
	b.items[k] = it
}

func (b *bench) erase(tenant, user string) {
	b.Helper()
	b.w.Erase(b, tenant, user)
	for k, it := range b.items {
		if k.Tenant == tenant && it.User == user {
			delete(b.items, k)
		}
	}
}

func (b *bench) lives(it vector.Item) bool {
	return it.ExpiresAt.IsZero() || b.w.Now().Before(it.ExpiresAt)
}

// when is the time that a memory is of.
func when(it vector.Item) (at, until time.Time) {
	if at = it.Entry.At; at.IsZero() {
		at = it.CreatedAt
	}
	if until = it.Entry.Until; until.IsZero() {
		until = at
	}
	return at, until
}

// inScope is vector.Scope, read word by word.
func (b *bench) inScope(s vector.Scope, it vector.Item) bool {
	e, now := it.Entry, b.w.Now()
	at, until := when(it)
	is := func(want, got string) bool { return want == "" || want == got }
	return it.Key.Tenant == s.Tenant && slices.Contains(s.Namespaces, it.Key.Namespace) && b.lives(it) &&
		(len(s.Prefixes) == 0 || slices.ContainsFunc(s.Prefixes, func(p string) bool { return strings.HasPrefix(it.Key.ID, p) })) &&
		is(s.User, it.User) && is(s.Agent, e.Agent) && is(s.App, e.App) && is(s.Session, e.Session) &&
		(len(s.Types) == 0 || slices.Contains(s.Types, e.Type)) &&
		(s.Since.IsZero() || !until.Before(s.Since)) && (s.Until.IsZero() || !at.After(s.Until)) &&
		(s.Superseded || e.Ends.IsZero() || e.Ends.After(now)) &&
		(s.Keys == nil || slices.Contains(s.Keys, it.Key))
}

// hit is what an index has to say of a memory.
func hit(it vector.Item, score float64) vector.Hit {
	at, _ := when(it)
	e := it.Entry
	return vector.Hit{Key: it.Key, Version: it.Version, Score: score, Type: e.Type, User: it.User, Session: e.Session, Speaker: e.Speaker,
		At: at, CreatedAt: it.CreatedAt, Importance: e.Importance, Uses: e.Uses, UsedAt: e.UsedAt}
}

// ranked are hits as they have to come.
func ranked(hits []vector.Hit) []vector.Hit {
	slices.SortFunc(hits, func(a, b vector.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.Key.Compare(b.Key))
	})
	return hits
}

// nearest is what Nearest has to answer, without a limit.
func (b *bench) nearest(s vector.Scope, space string, v []float32) (hits []vector.Hit) {
	q := vector.Normalise(slices.Clone(v))
	for _, it := range b.items {
		if !b.inScope(s, it) {
			continue
		}
		for _, has := range it.Entry.Vectors {
			if has.Space == space && len(has.Vector) == len(q) {
				hits = append(hits, hit(it, vector.Dot(q, has.Vector)))
			}
		}
	}
	return ranked(hits)
}

// words is what Words has to answer, without a limit. Memories whose time has
// passed, and that no sweep has met, count in the statistics or not.
func (b *bench) words(s vector.Scope, q lexical.Query) (hits []vector.Hit) {
	var stats lexical.Stats
	df := map[string]int64{}
	for _, it := range b.items {
		if it.Key.Tenant != s.Tenant || !slices.Contains(s.Namespaces, it.Key.Namespace) {
			continue
		}
		stats = stats.Add(lexical.Stats{Documents: 1, TotalLength: int64(it.Entry.Length)})
		for _, t := range it.Entry.Terms {
			df[t.Text]++
		}
	}
	plan := q.Plan(stats, func(t string) int64 { return df[t] }, lexical.Options{})
	for _, it := range b.items {
		if !b.inScope(s, it) {
			continue
		}
		var found []lexical.Hit
		for i, term := range plan.Terms() {
			for _, t := range it.Entry.Terms {
				if t.Text == term {
					found = append(found, lexical.Hit{Term: i, Freq: t.Freq})
				}
			}
		}
		if score := plan.Score(found, it.Entry.Length); score > 0 {
			hits = append(hits, hit(it, score))
		}
	}
	return ranked(hits)
}

// same fails the test unless hits are the first limit of want, in order. Scores
// may differ by as much as single precision rounds off; hits of like scores may
// stand in for each other.
func (b *bench) same(what string, got, want []vector.Hit, limit int) {
	b.Helper()
	const rounding = 1e-5
	if n := min(limit, len(want)); len(got) != n {
		b.Fatalf("%s: %d hits, want %d\n%s\nwant\n%s", what, len(got), n, show(got), show(want))
	}
	by := map[tiering.Key]vector.Hit{}
	for _, h := range want {
		by[h.Key] = h
	}
	seen := map[tiering.Key]bool{}
	for i, h := range got {
		w, ok := by[h.Key]
		if !ok || seen[h.Key] {
			b.Fatalf("%s: hit %d is %s, which is not to be found or comes twice\n%s\nwant\n%s", what, i, h.Key, show(got), show(want))
		}
		seen[h.Key] = true
		if math.Abs(h.Score-w.Score) > rounding || math.Abs(h.Score-want[i].Score) > rounding || i > 0 && h.Score > got[i-1].Score {
			b.Fatalf("%s: hit %d has score %v, want %v\n%s\nwant\n%s", what, i, h.Score, want[i].Score, show(got), show(want))
		}
		if h.Score, w.Score = 0, 0; h != w {
			b.Fatalf("%s: hit %d is\n%+v\nwant\n%+v", what, i, h, w)
		}
	}
}

func show(hits []vector.Hit) string {
	var out []string
	for i, h := range hits {
		if i == 20 {
			out = append(out, fmt.Sprintf("and %d more", len(hits)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s v%d %.6f", h.Key, h.Version, h.Score))
	}
	return strings.Join(out, "\n")
}

// check compares everything that an index answers in a scope with the model.
func (b *bench) check(what string, s vector.Scope, space string, v []float32, q lexical.Query, limit int) {
	b.Helper()
	ctx, x := b.Context(), b.w.Index()
	for _, deep := range []bool{false, true} {
		got, err := x.Nearest(ctx, s, space, v, limit, deep)
		if err != nil {
			b.Fatal(err)
		}
		b.same(fmt.Sprintf("%s: nearest (deep %v)", what, deep), got, b.nearest(s, space, v), limit)
	}
	got, err := x.Words(ctx, s, q, limit)
	if err != nil {
		b.Fatal(err)
	}
	b.same(what+": words", got, b.words(s, q), limit)
	in := 0
	for _, it := range b.items {
		if b.inScope(s, it) {
			in++
		}
	}
	n, err := x.Count(ctx, s, limit)
	if err != nil {
		b.Fatal(err)
	}
	if n != min(in, limit) {
		b.Fatalf("%s: a count of %d, want %d", what, n, min(in, limit))
	}
}
