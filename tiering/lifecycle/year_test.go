package lifecycle_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// yearPolicies differ in everything that retention goes by.
var yearPolicies = []tiering.Policy{
	{},
	{KeepFor: d(1), KeepVersions: 1, DemoteAfter: d(1)},
	{KeepFor: d(7), KeepVersions: 3, DemoteAfter: d(2)},
	{KeepFor: d(30), KeepVersions: 5, DemoteAfter: d(30)},
	{KeepFor: d(90), KeepVersions: 2, DemoteAfter: d(10)},
	{KeepFor: d(3), KeepVersions: 1000},
	{KeepFor: d(14), KeepVersions: 2, RetireAfter: d(5), TTL: d(20)},
	{Class: tiering.ClassSession, TTL: d(2), KeepFor: d(10), KeepVersions: 2},
	{Class: tiering.ClassSession, TTL: d(30), KeepFor: d(60), KeepVersions: 4, DemoteAfter: d(5)},
	{KeepFor: d(365), KeepVersions: 1, DemoteAfter: d(60)},
}

func d(days int) tiering.Duration { return tiering.Duration(time.Duration(days) * day) }

// written is a version that was acknowledged.
type written struct {
	version int64
	op      tiering.Op
	at      time.Time
	body    []byte
	// let: retention let it go at some time while the engine was at work, so
	// that it may be gone whatever holds now.
	let bool
	// due is since when it is let go without a break; zero while it is kept.
	due time.Time
}

// year is a node whose writes are all remembered.
type year struct {
	*node
	rng  *rand.Rand
	keys map[tiering.Key][]*written
	pins map[tiering.Key]bool
}

// TestAYear lets a year pass over ten policies, with writes, deletions,
// expiries, pins and touches, and accounts for every version ever acknowledged:
// what policy keeps is there byte for byte, and nothing else is anywhere.
func TestAYear(t *testing.T) {
	if racedetector.On {
		t.Skip("make test runs it without the race detector")
	}
	y := &year{
		node: newNode(t, lifecycle.Config{MergeCount: 4}),
		rng:  rand.New(rand.NewPCG(20310506, 7)), keys: map[tiering.Key][]*written{}, pins: map[tiering.Key]bool{},
	}
	began := time.Now()
	for i, p := range yearPolicies {
		y.policy(fmt.Sprint("p", i), p)
	}
	const steps = 365 / 2
	for i := range steps {
		if i < steps-20 { // then nobody writes any more, and time does its work
			y.write()
		}
		y.flush()
		y.pass(2*day - time.Minute)
		y.sweep()
		y.readBack()
		y.let()
		if i%7 == 0 {
			y.gc()
		} else if _, err := y.engine.MergeOnce(y.ctx); err != nil {
			t.Fatal(err)
		}
		if i%15 == 0 {
			y.restart()
			y.consistent()
		}
	}
	for range 5 {
		y.let()
		y.settle()
		y.readBack()
		y.flush()
	}
	y.let()
	kept, gone := y.account()
	t.Logf("%d keys, %d versions are kept and readable, %d are gone; %d segments and %d objects are left; %s",
		len(y.keys), kept, gone, len(y.segments("")), len(y.objects(tiering.Primary)), time.Since(began).Round(time.Millisecond))
	if kept < 100 || gone < 500 {
		t.Errorf("%d versions kept and %d gone: too few to tell", kept, gone)
	}
	y.tidy()
}

// write commits some random changes in one batch.
func (y *year) write() {
	y.Helper()
	rows := map[tiering.Key]warm.Row{}
	for range 15 {
		p := y.rng.IntN(len(yearPolicies))
		k := tiering.Key{Tenant: tenant, Namespace: fmt.Sprint("p", p), ID: fmt.Sprint("k", y.rng.IntN(8))}
		switch n := y.rng.IntN(20); {
		case n < 14:
			r := put([]byte(fmt.Sprintf(`{"of":%q,"at":%q,"n":%d}`, k, y.clock(), y.rng.Int64())))
			r.Expiry = warm.Expiry{New: yearPolicies[p].WithDefaults().TTL.Std(), Slide: yearPolicies[p].Sliding()}
			rows[k] = r
		case n < 17:
			rows[k] = row(tiering.OpDelete)
		case n < 18:
			rows[k] = row(tiering.OpPin)
		case n < 19:
			rows[k] = row(tiering.OpUnpin)
		default:
			rows[k] = warm.Row{Op: tiering.OpTouch, Expiry: warm.Expiry{TTL: &tiering.TTL{Life: 90 * day}}}
		}
	}
	b := &warm.Batch{ID: uuid.New()}
	for k, r := range rows {
		b.Changes = append(b.Changes, warm.Change{Key: k, Rows: []warm.Row{r}})
	}
	slices.SortFunc(b.Changes, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
	results, err := y.store.Commit(y.ctx, b)
	y.no(err)
	for i, c := range b.Changes {
		if got := results[i][0]; got.Status == warm.Done && c.Rows[0].Op.Versioned() {
			y.note(c.Key, got.Head, c.Rows[0].Body)
		}
	}
}

// note remembers a version.
func (y *year) note(k tiering.Key, h warm.Head, body []byte) {
	y.keys[k] = append(y.keys[k], &written{version: h.Version, op: h.Op, at: h.UpdatedAt, body: body})
}

// readBack notes the versions that the sweep made of what expired, and which
// keys are pinned.
func (y *year) readBack() {
	y.Helper()
	for k, versions := range y.keys {
		cur, err := y.store.Head(y.ctx, k)
		y.no(err)
		if h := cur.Head; h.Version > versions[len(versions)-1].version {
			if h.Op != tiering.OpExpire {
				y.Fatalf("%s: version %d was made by %s", k, h.Version, h.Op)
			}
			y.note(k, h, nil)
		}
		y.pins[k] = cur.Head.Pinned
	}
}

// let notes which versions retention lets go now, by the letter of the policy.
func (y *year) let() {
	now := y.clock()
	for k, versions := range y.keys {
		var i int
		_, err := fmt.Sscanf(k.Namespace, "p%d", &i)
		y.no(err)
		p := yearPolicies[i].WithDefaults()
		head := versions[len(versions)-1]
		for at, v := range versions {
			since, covered := v.at, false
			if v != head {
				since = versions[at+1].at
				covered = !head.op.Deleting() && int64(len(versions)-1-at) < p.KeepVersions
			}
			stands := v == head && !v.op.Deleting()
			if stands || covered || y.pins[k] || now.Sub(since) < p.KeepFor.Std() {
				v.due = time.Time{}
				continue
			}
			v.let = true
			if v.due.IsZero() {
				v.due = now
			}
		}
	}
}

// account looks for every version that was ever acknowledged.
func (y *year) account() (kept, gone int) {
	y.Helper()
	type place struct {
		key     tiering.Key
		version int64
	}
	inCold := [2]map[place]cold.Record{{}, {}}
	for c := range inCold {
		for _, r := range y.scan(tiering.Copy(c)) {
			if r.Op.Versioned() {
				inCold[c][place{r.Key, r.Version}] = r
			}
		}
	}
	for k, versions := range y.keys {
		for _, v := range versions {
			body, tier := y.read(k, v.version)
			if !v.let {
				kept++
				if tier == "" || !bytes.Equal(body, v.body) {
					y.Errorf("%s version %d (%s of %s) is kept by policy and reads as %q from %q", k, v.version, v.op, v.at, body, tier)
				}
				continue
			}
			if v.due.IsZero() || y.clock().Sub(v.due) < 6*time.Hour {
				continue // it was let go once, and is not now: either is right
			}
			gone++
			if tier != "" {
				y.Errorf("%s version %d (%s of %s, due %s) is not kept and reads from %s", k, v.version, v.op, v.at, v.due, tier)
			}
			for c := range inCold {
				if r, ok := inCold[c][place{k, v.version}]; ok {
					y.Errorf("%s version %d (%s, due %s) is still in the %s: %s", k, v.version, v.op, v.due, tiering.Copy(c), r.Op)
				}
			}
		}
	}
	return kept, gone
}

// read reads a version as a reader does: from warm, else from cold.
func (y *year) read(k tiering.Key, version int64) ([]byte, tiering.Tier) {
	y.Helper()
	v, ok, err := y.store.Version(y.ctx, k, version)
	y.no(err)
	if ok {
		return v.Body, tiering.Warm
	}
	r, ok := y.fromCold(k, version)
	if ok && r.Op == tiering.OpPut && tiering.DigestOf(r.Body) != r.Digest {
		y.Error(errors.New("damaged bytes"))
	}
	if ok {
		return r.Body, tiering.Cold
	}
	return nil, ""
}
