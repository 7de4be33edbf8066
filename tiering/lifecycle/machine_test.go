package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// How many sequences run unless LIFECYCLE_SEQUENCES says otherwise, and from how
// many on everything has to have happened.
const (
	machineSequences     = 1000
	machineSequencesRace = 20
	machineEverything    = 500
)

// sequences is how many to run.
func sequences(t *testing.T) int {
	s := os.Getenv("LIFECYCLE_SEQUENCES")
	switch {
	case s == "" && (racedetector.On || testing.Short()):
		return machineSequencesRace
	case s == "":
		return machineSequences
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("LIFECYCLE_SEQUENCES=%q: use a number of sequences", s)
	}
	return n
}

// TestMachine runs random sequences of everything that may befall documents in
// warm and cold, beside a model that is a list of changes. Whatever came before:
// a document that stands is read back byte for byte at its version, one that
// was deleted, expired or erased is not there, versions only grow, no record of
// a bucket holds what was erased, whoever knows of the object, no segment is left
// for ever, both buckets hold the same orders, and a rebuild brings back at least
// all that was archived.
func TestMachine(t *testing.T) {
	sequences := sequences(t)
	lanes := min(2*runtime.GOMAXPROCS(0), sequences)
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set(strconv.Itoa(sequences / lanes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
	counts := &machineCounts{}
	began := time.Now()
	t.Run("lanes", func(t *testing.T) {
		for i := range lanes {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				empty := emptyStore(t, root)
				rapid.Check(t, func(rt *rapid.T) { newMachine(rt, root, empty, counts).run() })
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d sequences in %s, %.1f/s: %s", counts.sequences.Load(), took.Round(time.Millisecond), float64(counts.sequences.Load())/took.Seconds(), counts)
	if sequences >= machineEverything && !t.Failed() {
		counts.everything(t)
	}
}

// emptyStore is the file of a store that was only made: a copy of it spares the
// migrations of thousands.
func emptyStore(t *testing.T, root string) []byte {
	path := filepath.Join(root, "empty.db")
	store, err := sqlite.Open(t.Context(), path, nil)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// machineCounts is what the machines came to, so that none passes because
// nothing happened.
type machineCounts struct {
	sequences, fromCold, old, promoted, merged, collected, rebuilt, lost, erased, resumed, died atomic.Int64
}

func (c *machineCounts) each() map[string]int64 {
	return map[string]int64{
		"read from cold": c.fromCold.Load(), "old versions read": c.old.Load(), "promoted": c.promoted.Load(), "rewritten": c.merged.Load(),
		"records collected": c.collected.Load(), "rebuilt": c.rebuilt.Load(), "changes lost unarchived": c.lost.Load(),
		"erased": c.erased.Load(), "erasures resumed": c.resumed.Load(), "died halfway": c.died.Load(),
	}
}

func (c *machineCounts) String() string { return fmt.Sprint(c.each()) }

func (c *machineCounts) everything(t *testing.T) {
	t.Helper()
	for what, n := range c.each() {
		if n == 0 {
			t.Errorf("nothing was ever %s", what)
		}
	}
}

// change is one change of the model. What an erase takes is taken out of the
// list; what a rebuild loses is its end.
type change struct {
	key     tiering.Key
	op      tiering.Op
	version int64
	body    string
	user    string
	at      time.Time
	expires time.Time
	mayGo   bool // retention did not cover it when a collection ran
}

func (c change) live(now time.Time) bool {
	return c.version > 0 && !c.op.Deleting() && (c.expires.IsZero() || now.Before(c.expires))
}

type machine struct {
	*rapid.T
	ctx     context.Context
	counts  *machineCounts
	dir     string
	empty   []byte // the file of an empty store
	stores  int
	clock   *siteClock
	buckets [2]*coldtest.Memory
	faults  [2]*coldtest.FaultBucket
	archive *cold.Archive
	store   *sqlite.Store
	path    string
	engine  *lifecycle.Engine

	log    []change
	sure   [2]int                // so much of the log a rebuild from that bucket has to bring back
	top    map[tiering.Key]int64 // the highest version ever seen
	bodies int
	erased []string              // bodies that must be nowhere
	doubt  *tiering.EraseRequest // an erase that was interrupted: it may have been ordered or not
	// past holds the last change of each owner before the one that a key went
	// with: a rebuild may bring it back, as the deletion that it ended in.
	past map[tiering.Key][]change
}

var (
	machineIDs    = []string{"a/1", "a/2", "b/1", "b/2", "c"}
	machinePolicy = tiering.Policy{
		RetireAfter: tiering.Duration(time.Hour), DemoteAfter: tiering.Duration(2 * time.Hour),
		KeepVersions: 2, KeepFor: tiering.Duration(3 * day),
	}
)

func newMachine(rt *rapid.T, root string, empty []byte, counts *machineCounts) *machine {
	dir, err := os.MkdirTemp(root, "")
	m := &machine{
		T: rt, ctx: context.Background(), counts: counts, dir: dir, empty: empty, top: map[tiering.Key]int64{}, past: map[tiering.Key][]change{},
		clock: &siteClock{now: time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)},
	}
	m.no(err)
	for i := range m.buckets {
		m.buckets[i] = &coldtest.Memory{}
		m.faults[i] = coldtest.NewFaultBucket(m.buckets[i])
	}
	m.archive = cold.NewArchive(m.faults[0], m.faults[1], nil)
	m.fresh(false)
	p, err := json.Marshal(machinePolicy)
	m.no(err)
	full := machinePolicy.WithDefaults()
	_, err = m.store.EnsureNamespace(m.ctx, warm.Namespace{Tenant: tenant, Name: "notes", Kind: full.Kind, Class: full.Class})
	m.no(err)
	_, err = m.commit(tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: "notes"}, tiering.Condition{}, put(p))
	m.no(err)
	m.Flush(rt)
	return m
}

func (m *machine) run() {
	defer func() {
		_ = m.store.Close()
		_ = os.RemoveAll(m.dir)
	}()
	m.Repeat(map[string]func(*rapid.T){
		"put": m.Put, "put again": m.Put, "put with life": m.PutMortal, "delete": m.Delete, "touch": m.Touch, "stale": m.Stale,
		"flush": m.Flush, "pass": m.Pass, "sweep": m.Sweep, "age": m.Age, "old": m.Old, "promote": m.Promote,
		"merge": m.Merge, "collect": m.Collect, "rebuild": m.Rebuild, "erase": m.Erase, "crash": m.Crash,
		"orders": m.Orders, "fault": m.Fault, "die": m.Die, "": m.Check,
	})
	m.settled()
	m.counts.sequences.Add(1)
}

func (m *machine) no(err error) {
	m.Helper()
	if err != nil {
		m.Fatalf("%+v", err)
	}
}

// next is the path of a store that does not exist.
func (m *machine) next() string {
	m.stores++
	return filepath.Join(m.dir, strconv.Itoa(m.stores)+".db")
}

// fresh opens a store that holds nothing.
func (m *machine) fresh(restore bool) {
	path := m.next()
	m.no(os.WriteFile(path, m.empty, 0o600))
	m.open(path, restore)
}

func (m *machine) open(path string, restore bool) {
	// One reader: each prepares its own statements.
	store, err := sqlite.Open(m.ctx, path, &sqlite.Options{Clock: m.clock.Now, Restore: restore, Readers: 1})
	m.no(err)
	m.path, m.store = path, store
	m.engine = lifecycle.New(m.config(store, m.archive))
}

func (m *machine) config(s warm.Store, a *cold.Archive) lifecycle.Config {
	return lifecycle.Config{Warm: s, Archive: a, SegmentAge: time.Nanosecond, MergeCount: 3}
}

// restart goes on with what the disk holds at this instant, as after the death
// of the process: the store is not closed before its files are taken.
func (m *machine) restart() {
	path := m.next()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(m.path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		m.no(err)
		m.no(os.WriteFile(path+suffix, data, 0o600))
	}
	m.no(m.store.Close())
	m.open(path, false)
}

func (m *machine) commit(k tiering.Key, c tiering.Condition, r warm.Row) (warm.Result, error) {
	m.clock.advance(time.Second)
	results, err := m.store.Commit(m.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, If: c, Rows: []warm.Row{r}}}})
	if err != nil {
		return warm.Result{}, err
	}
	return results[0][0], nil
}

// write commits a row that must be done, and tells the model.
func (m *machine) write(k tiering.Key, r warm.Row) {
	m.Helper()
	last := m.standing()[k]
	result, err := m.commit(k, tiering.Condition{}, r)
	m.no(err)
	if result.Status != warm.Done {
		m.Fatalf("%s of %s: %+v", r.Op, k, result)
	}
	m.note(k, r.Op, last, string(r.Body), r.User, result.Head)
}

// note appends a change, as the head tells it, to the model.
func (m *machine) note(k tiering.Key, op tiering.Op, last change, body, user string, h warm.Head) {
	m.Helper()
	c := change{key: k, op: op, version: h.Version, body: body, user: user, at: h.UpdatedAt, expires: h.ExpiresAt}
	if op.Deleting() || op == tiering.OpTouch || last.live(m.clock.Now()) {
		c.user = last.user
	}
	if op == tiering.OpTouch {
		c.op, c.body, c.at = last.op, last.body, last.at
		if h.Version != last.version {
			m.Fatalf("a touch of version %d of %s made version %d", last.version, k, h.Version)
		}
	} else if h.Version <= m.top[k] {
		m.Fatalf("%s of %s made version %d, and %d was seen before", op, k, h.Version, m.top[k])
	}
	m.top[k] = max(m.top[k], h.Version)
	m.log = append(m.log, c)
}

// standing is the last change of each key.
func (m *machine) standing() map[tiering.Key]change { return fold(m.log) }

func fold(log []change) map[tiering.Key]change {
	out := map[tiering.Key]change{}
	for _, c := range log {
		out[c.key] = c
	}
	return out
}

// body is one that never was before.
func (m *machine) body() []byte {
	m.bodies++
	return fmt.Appendf(nil, `{"canary":"body-%06d"}`, m.bodies)
}

func (m *machine) id(rt *rapid.T) tiering.Key {
	return key(rapid.SampledFrom(machineIDs).Draw(rt, "id"))
}

// living draws a key that stands.
func (m *machine) living(rt *rapid.T) (tiering.Key, change) {
	all := m.standing()
	var keys []tiering.Key
	for _, id := range machineIDs {
		if all[key(id)].live(m.clock.Now().Add(time.Second)) {
			keys = append(keys, key(id))
		}
	}
	if len(keys) == 0 {
		rt.Skip("nothing stands")
	}
	k := rapid.SampledFrom(keys).Draw(rt, "key")
	return k, all[k]
}

func (m *machine) newRow(rt *rapid.T, k tiering.Key) warm.Row {
	r := put(m.body())
	r.Query = true
	if !m.standing()[k].live(m.clock.Now().Add(time.Second)) {
		r.User = rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(rt, "user")
	}
	return r
}

func (m *machine) Put(rt *rapid.T) {
	k := m.id(rt)
	m.write(k, m.newRow(rt, k))
}

func (m *machine) PutMortal(rt *rapid.T) {
	k := m.id(rt)
	r := m.newRow(rt, k)
	r.Expiry = ttlOf(drawLife(rt))
	m.write(k, r)
}

func drawLife(rt *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{time.Minute, 90 * time.Minute, 30 * time.Hour}).Draw(rt, "life")
}

func (m *machine) Delete(rt *rapid.T) {
	k, _ := m.living(rt)
	m.write(k, row(tiering.OpDelete))
}

func (m *machine) Touch(rt *rapid.T) {
	k, _ := m.living(rt)
	m.write(k, warm.Row{Op: tiering.OpTouch, Expiry: ttlOf(drawLife(rt)), Exact: rapid.Bool().Draw(rt, "exact")})
}

// Stale writes under a condition on a version that does not stand.
func (m *machine) Stale(rt *rapid.T) {
	k := m.id(rt)
	version := m.top[k]
	if version == 0 {
		rt.Skip("no version yet")
	}
	if c := m.standing()[k]; c.version == version {
		version += rapid.SampledFrom([]int64{-1, 1}).Draw(rt, "off")
	}
	if version < 1 {
		version = m.top[k] + 1
	}
	r, err := m.commit(k, tiering.IfVersion(version), put(m.body()))
	m.no(err)
	if r.Status != warm.Conflict {
		m.Fatalf("a put of %s if version %d: %+v", k, version, r)
	}
}

func (m *machine) Flush(*rapid.T) {
	m.no(m.engine.Flush(m.ctx))
	m.replicate()
}

// replicate makes missing copies, and notes what a rebuild now has to find.
func (m *machine) replicate() {
	m.no(m.engine.Replicate(m.ctx))
	all, err := m.store.Segments(m.ctx, "", tiering.SegmentFinished, "", 10_000)
	m.no(err)
	for _, s := range all {
		if s.Verified() != 2 {
			m.Fatalf("%s has %v, and both buckets answer", s.Name, s.Copies)
		}
	}
	_, last, err := m.store.FeedBounds(m.ctx)
	m.no(err)
	if pos, err := m.store.Position(m.ctx, lifecycle.ArchiveReader); err != nil || pos != last {
		m.Fatalf("archived up to %d of %d, %v", pos, last, err)
	}
	m.sure = [2]int{len(m.log), len(m.log)}
}

func (m *machine) Pass(rt *rapid.T) {
	m.clock.advance(rapid.SampledFrom([]time.Duration{2 * time.Minute, 61 * time.Minute, 3 * time.Hour, 31 * time.Hour, 4 * day}).Draw(rt, "pass"))
	m.no(m.engine.ConfirmClock(m.ctx))
}

func (m *machine) Sweep(*rapid.T) {
	m.no(m.engine.Sweep(m.ctx))
	m.expired()
	for _, c := range m.standing() {
		if c.version > 0 && !c.op.Deleting() && !c.live(m.clock.Now()) {
			m.Fatalf("%s expired at %s and a sweep left it", c.key, c.expires)
		}
	}
}

// expired tells the model which documents a sweep found at their end.
func (m *machine) expired() {
	all := m.standing()
	for _, id := range machineIDs {
		c := all[key(id)]
		if c.version == 0 || c.op.Deleting() || c.live(m.clock.Now()) {
			continue
		}
		cur, err := m.store.Head(m.ctx, c.key)
		m.no(err)
		if cur.Head.Op == tiering.OpExpire {
			m.note(c.key, tiering.OpExpire, c, "", "", cur.Head)
		}
	}
}

// Age archives everything, and has it leave warm.
func (m *machine) Age(rt *rapid.T) {
	m.Flush(rt)
	m.clock.advance(3 * time.Hour)
	m.no(m.engine.ConfirmClock(m.ctx))
	m.Sweep(rt)
	for _, c := range m.standing() {
		if cur, err := m.store.Head(m.ctx, c.key); err != nil || c.live(m.clock.Now()) && cur.Head.InWarm {
			m.Fatalf("%s is idle, archived twice and still in warm: %+v, %v; proven: %v", c.key, cur.Head, err, m.engine.Proven(m.ctx, c.key, c.version, cur.Head.Digest))
		}
	}
}

// fromCold reads a version as the router does.
func (m *machine) fromCold(k tiering.Key, version int64) (cold.Record, bool) {
	m.Helper()
	locs, err := m.store.Locations(m.ctx, k)
	m.no(err)
	for _, l := range locs {
		if _, ok := l.Block(version); !ok {
			continue
		}
		rec, _, err := m.archive.Read(m.ctx, l, version)
		if errors.Is(err, tiering.ErrNotFound) {
			continue
		}
		m.no(err)
		return rec, true
	}
	return cold.Record{}, false
}

// read is a version, from wherever it is.
func (m *machine) read(k tiering.Key, version int64) (string, bool) {
	m.Helper()
	v, ok, err := m.store.Version(m.ctx, k, version)
	m.no(err)
	if ok {
		return string(v.Body), true
	}
	m.counts.fromCold.Add(1)
	rec, ok := m.fromCold(k, version)
	return string(rec.Body), ok
}

// Old reads every version that was ever put.
func (m *machine) Old(*rapid.T) {
	for _, c := range m.log {
		if c.op != tiering.OpPut {
			continue
		}
		body, ok := m.read(c.key, c.version)
		if ok && body != c.body || !ok && !c.mayGo {
			m.Fatalf("version %d of %s is %q, there: %t, want %q", c.version, c.key, body, ok, c.body)
		}
		m.counts.old.Add(1)
	}
}

func (m *machine) Promote(rt *rapid.T) {
	k, c := m.living(rt)
	cur, err := m.store.Head(m.ctx, k)
	m.no(err)
	if cur.Head.InWarm {
		rt.Skip("in warm")
	}
	rec, _ := m.fromCold(k, c.version)
	if ok, err := m.store.Promote(m.ctx, k, c.version-1, rec.Body); ok || err != nil {
		m.Fatalf("a promotion of %s at another version: %t, %v", k, ok, err)
	}
	ok, err := m.store.Promote(m.ctx, k, c.version, rec.Body)
	m.no(err)
	if !ok {
		m.Fatalf("%s was not promoted at version %d", k, c.version)
	}
	m.counts.promoted.Add(1)
}

func (m *machine) Merge(*rapid.T) {
	m.mayGo()
	_, err := m.engine.MergeOnce(m.ctx)
	m.no(err)
}

func (m *machine) Collect(*rapid.T) {
	m.mayGo()
	r, err := m.engine.GC(m.ctx, false)
	m.no(err)
	if r.Blocked != "" || len(r.Left) > 0 {
		m.Fatalf("a collection left %+v, %s", r.Left, r.Blocked)
	}
	m.counts.merged.Add(int64(len(r.Rewritten)))
	for _, n := range r.Dropped {
		m.counts.collected.Add(n)
	}
}

// mayGo marks what retention does not cover now.
func (m *machine) mayGo() {
	now := m.clock.Now()
	all := m.standing()
	newer, since := map[tiering.Key]int64{}, map[tiering.Key]time.Time{}
	for i := len(m.log) - 1; i >= 0; i-- {
		c := &m.log[i]
		head := all[c.key]
		if c.version == head.version && !head.op.Deleting() {
			since[c.key] = c.at
			continue
		}
		if i > 0 && since[c.key].IsZero() {
			since[c.key] = c.at
		}
		due := !since[c.key].Add(machinePolicy.KeepFor.Std()).After(now)
		seen := newer[c.key] + 1
		c.mayGo = c.mayGo || due && (head.op.Deleting() || seen >= machinePolicy.KeepVersions)
		newer[c.key], since[c.key] = seen, c.at
	}
}

// Rebuild lets warm die with what was not archived.
func (m *machine) Rebuild(rt *rapid.T) {
	from := tiering.Copy(rapid.IntRange(0, 1).Draw(rt, "from"))
	m.no(m.store.Close())
	m.fresh(true)
	report, err := lifecycle.Rebuild(m.ctx, lifecycle.RebuildOptions{Archive: m.archive, From: from, Warm: m.store, Now: m.clock.Now()})
	m.no(err)
	m.adopt(m.sure[from], report)
	m.counts.rebuilt.Add(1)
	// The copies in the other bucket are found by looking.
	_, err = m.engine.Verify(m.ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthHash, Repair: true})
	m.no(err)
	m.Orders(rt)
	m.replicate()
}

// Orders has the erase orders carried out that warm knows nothing of: of those
// from earlier lives of the store nothing is left.
func (m *machine) Orders(*rapid.T) {
	m.no(m.engine.FinishOrders(m.ctx))
	epoch, err := m.store.Epoch(m.ctx)
	m.no(err)
	var orders []lifecycle.Order
	for _, b := range m.buckets {
		all, err := lifecycle.ReadOrders(m.ctx, b)
		m.no(err)
		orders = append(orders, slices.DeleteFunc(all, func(o lifecycle.Order) bool { return o.Epoch == epoch })...)
	}
	m.eachRecord(func(where, epoch string, r cold.Record) {
		for _, o := range orders {
			if o.Takes(&lifecycle.Lineage{}, epoch, r) {
				m.Fatalf("%s holds %s version %d, which order %s takes", where, r.Key, r.Version, o.ID)
			}
		}
	})
}

// adopt finds how much of the log came back: at least the first sure changes.
func (m *machine) adopt(sure int, report *lifecycle.RebuildReport) {
	heads := map[tiering.Key]warm.Head{}
	for _, id := range machineIDs {
		cur, err := m.store.Head(m.ctx, key(id))
		m.no(err)
		heads[key(id)] = cur.Head
	}
	var why string
	for n := len(m.log); n >= sure; n-- {
		if why = m.differs(heads, m.log[:n]); why != "" {
			continue
		}
		m.counts.lost.Add(int64(len(m.log) - n))
		m.log = m.log[:n]
		for i := range m.log { // sliding lives moved on while the store stood still
			c := &m.log[i]
			if h := heads[c.key]; h.Version == c.version && !h.Op.Deleting() {
				c.expires = h.ExpiresAt
			}
		}
		m.sure = [2]int{min(m.sure[0], n), min(m.sure[1], n)}
		return
	}
	m.Fatalf("of %d changes %d were archived: %s\n%+v\nlog %+v", len(m.log), sure, why, report, m.log)
}

// differs says which key does not stand as the log has it. Of an erase in doubt
// each key may have been taken or not.
func (m *machine) differs(heads map[tiering.Key]warm.Head, log []change) string {
	whole, left := fold(log), map[tiering.Key]change{}
	if m.doubt != nil {
		takes := takes(*m.doubt, log)
		left = fold(slices.DeleteFunc(slices.Clone(log), takes))
	}
	for _, id := range machineIDs {
		k := key(id)
		why := m.mismatch(whole[k], heads[k], m.past[k])
		if why != "" && m.doubt != nil && m.mismatch(left[k], heads[k], append(slices.Clone(log), m.past[k]...)) == "" {
			continue
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// mismatch says how a head differs from the change that it should stand at. One
// that should not be there may be the end of what an owner before had.
func (m *machine) mismatch(c change, h warm.Head, past []change) string {
	now := m.clock.Now()
	if c.version == 0 && !h.Live(now) && slices.ContainsFunc(past, func(p change) bool { return p.key == h.Key && p.version == h.Version }) {
		return ""
	}
	stands := c.version > 0 && !c.op.Deleting()
	switch got := h.Version > 0 && !h.Op.Deleting(); {
	case got != stands, h.Version > 0 && h.Version != c.version, h.Version == 0 && c.version > 0 && !c.mayGo:
		return fmt.Sprintf("%s is %s%d, want %s%d of %s", h.Key, h.Op, h.Version, c.op, c.version, c.key)
	case got && (h.Digest != tiering.DigestOf([]byte(c.body)) || h.User != c.user):
		return fmt.Sprintf("%s version %d has other bytes, or is of %q, want %q", h.Key, h.Version, h.User, c.user)
	case got && (h.ExpiresAt.IsZero() != c.expires.IsZero() || h.ExpiresAt.Before(c.expires) || h.ExpiresAt.Sub(c.expires) > now.Sub(c.at)):
		return fmt.Sprintf("%s version %d expires at %s, want %s", h.Key, h.Version, h.ExpiresAt, c.expires)
	}
	return ""
}

func (m *machine) drawErase(rt *rapid.T) tiering.EraseRequest {
	no := false
	r := tiering.EraseRequest{DryRun: &no}
	switch rapid.IntRange(0, 2).Draw(rt, "subject") {
	case 0:
		r.Namespace, r.ID = "notes", m.id(rt).ID
	case 1:
		r.Namespace, r.Prefix = "notes", rapid.SampledFrom([]string{"a/", "b/"}).Draw(rt, "prefix")
	default:
		r.User = rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "who")
	}
	return r
}

// takes says which changes of a log an erase takes. A user takes a key whole
// that is his in the end.
func takes(r tiering.EraseRequest, log []change) func(change) bool {
	all := fold(log)
	return func(c change) bool {
		switch {
		case r.ID != "":
			return c.key.ID == r.ID
		case r.Prefix != "":
			return strings.HasPrefix(c.key.ID, r.Prefix)
		}
		return c.user == r.User || all[c.key].user == r.User
	}
}

func (m *machine) Erase(rt *rapid.T) {
	r := m.drawErase(rt)
	m.erase(r)
	m.forget(r)
	m.hidden()
}

func (m *machine) erase(r tiering.EraseRequest) {
	m.Helper()
	receipt, err := m.engine.Erase(m.ctx, tenant, r)
	m.no(err)
	if receipt.State != "done" {
		m.Fatalf("erase: %+v", receipt)
	}
	m.counts.erased.Add(1)
}

// forget takes what was erased out of the model. A user's key leaves warm whole;
// what earlier owners had there and deleted may stay in cold.
func (m *machine) forget(r tiering.EraseRequest) {
	takes := takes(r, m.log)
	var left []change
	sure := m.sure
	for i, c := range m.log {
		if !takes(c) {
			left = append(left, c)
			continue
		}
		if r.User != "" && c.user != r.User {
			m.past[c.key] = append(m.past[c.key], c)
		} else if c.body != "" {
			m.erased = append(m.erased, c.body)
		}
		for b := range sure {
			if i < sure[b] {
				m.sure[b]--
			}
		}
	}
	m.log = left
}

// hidden looks for erased bodies in every record of both buckets.
func (m *machine) hidden() {
	m.Helper()
	m.eachRecord(func(where, _ string, r cold.Record) {
		if slices.Contains(m.erased, string(r.Body)) {
			m.Fatalf("%s holds erased %s of %s version %d", where, r.Body, r.Key, r.Version)
		}
	})
}

// eachRecord calls fn with every record of both buckets, whoever knows of it.
func (m *machine) eachRecord(fn func(where, epoch string, r cold.Record)) {
	m.Helper()
	for c, b := range m.buckets {
		for info, err := range b.List(m.ctx, cold.SegmentPrefix) {
			m.no(err)
			data, err := b.Read(m.ctx, info.Name, 0, -1)
			m.no(err)
			if cold.Occupied(data) {
				continue
			}
			s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
			m.no(err)
			for r, err := range s.Records() {
				m.no(err)
				fn(info.Name+" in "+tiering.Copy(c).String(), s.Epoch(), r)
			}
		}
	}
}

func (m *machine) Crash(*rapid.T) { m.restart() }

var errBroken = errors.New("connection reset")

// Fault has a bucket fail for a while, under everything that the engine does.
func (m *machine) Fault(rt *rapid.T) {
	which := rapid.IntRange(0, 1).Draw(rt, "bucket")
	fault := coldtest.Fault{
		Call:  rapid.SampledFrom([]coldtest.Call{coldtest.Create, coldtest.Read, coldtest.Delete, coldtest.List, ""}).Draw(rt, "call"),
		Times: rapid.IntRange(0, 3).Draw(rt, "times"),
	}
	if rapid.Bool().Draw(rt, "reply lost") {
		fault.After = errBroken
	} else {
		fault.Before = errBroken
	}
	m.faults[which].Inject(fault)
	m.interrupted(rt, m.engine, func() { m.faults[which].Clear() })
}

// Die has the process die within a move, at one of its changes.
func (m *machine) Die(rt *rapid.T) {
	l := &life{left: rapid.IntRange(0, 6).Draw(rt, "changes"), after: rapid.Bool().Draw(rt, "after")}
	archive := cold.NewArchive(mortalBucket{m.buckets[0], l}, mortalBucket{m.buckets[1], l}, nil)
	m.interrupted(rt, lifecycle.New(m.config(mortalStore{m.store, l}, archive)), func() {
		if l.dead {
			m.counts.died.Add(1)
		}
		m.restart()
	})
}

// interrupted has an engine do something that may fail anywhere, and a sound
// one go on.
func (m *machine) interrupted(rt *rapid.T, e *lifecycle.Engine, over func()) {
	what := rapid.SampledFrom([]string{"flush", "sweep", "merge", "collect", "orders", "erase"}).Draw(rt, "what")
	switch what {
	case "flush":
		_ = e.Flush(m.ctx)
	case "sweep":
		_ = e.Sweep(m.ctx)
	case "merge":
		m.mayGo()
		_, _ = e.MergeOnce(m.ctx)
	case "collect":
		m.mayGo()
		_, _ = e.GC(m.ctx, false)
	case "orders":
		_ = e.FinishOrders(m.ctx)
	case "erase":
		m.interruptedErase(rt, e, over)
		return
	}
	over()
	m.expired()
}

// interruptedErase: it may have been ordered or not, until it was done once more,
// perhaps by a store rebuilt meanwhile.
func (m *machine) interruptedErase(rt *rapid.T, e *lifecycle.Engine, over func()) {
	r := m.drawErase(rt)
	_, _ = e.Erase(m.ctx, tenant, r)
	over()
	m.doubt = &r
	if rapid.Bool().Draw(rt, "rebuild between") {
		m.Rebuild(rt)
	}
	m.engine = lifecycle.New(m.config(m.store, m.archive)) // forgets how long it wanted to wait
	under, err := m.store.Erasures(m.ctx)
	m.no(err)
	if len(under) > 0 {
		_, err = m.engine.EraseOnce(m.ctx)
		m.no(err)
		m.counts.resumed.Add(1)
	}
	m.erase(r)
	m.forget(r)
	m.doubt = nil
	m.hidden()
}

// Check holds after every action.
func (m *machine) Check(*rapid.T) {
	all := m.standing()
	for _, id := range machineIDs {
		k, c := key(id), all[key(id)]
		cur, err := m.store.Load(m.ctx, k)
		m.no(err)
		h := cur.Head
		if h.Live(m.clock.Now()) != c.live(m.clock.Now()) {
			m.Fatalf("%s is %+v, want %+v", k, h, c)
		}
		if !c.live(m.clock.Now()) {
			continue
		}
		body := string(cur.Body)
		if !h.InWarm {
			body, _ = m.read(k, h.Version)
		}
		if h.Version != c.version || body != c.body || h.User != c.user || !h.ExpiresAt.Equal(c.expires) {
			m.Fatalf("%s is version %d %q of %q until %s, want %+v", k, h.Version, body, h.User, h.ExpiresAt, c)
		}
	}
}

// settled is the end of a sequence: everything archived, both buckets sound.
func (m *machine) settled() {
	m.Flush(m.T)
	m.Old(m.T)
	m.clock.advance(2 * time.Hour) // an order that only one bucket holds is not on its way any more
	m.Orders(m.T)
	r, err := m.engine.Verify(m.ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthRestore})
	m.no(err)
	if len(r.Faults) > 0 {
		m.Fatalf("in the end: %+v", r.Faults)
	}
	m.hidden()
	m.Rebuild(m.T)
	m.Check(m.T)
	m.Old(m.T)
}
