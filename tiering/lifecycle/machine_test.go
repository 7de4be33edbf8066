package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

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
	machineSequences     = 800
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
	sequences, fromCold, old, promoted, merged, collected, rebuilt, lost, erased, resumed, lostErases, died atomic.Int64
}

func (c *machineCounts) each() map[string]int64 {
	return map[string]int64{
		"read from cold": c.fromCold.Load(), "old versions read": c.old.Load(), "promoted": c.promoted.Load(), "rewritten": c.merged.Load(),
		"records collected": c.collected.Load(), "rebuilt": c.rebuilt.Load(), "changes lost unarchived": c.lost.Load(),
		"erased": c.erased.Load(), "erasures resumed": c.resumed.Load(), "erasures lost": c.lostErases.Load(), "died halfway": c.died.Load(),
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
	policy := machinePolicy
	policy.Class = rapid.SampledFrom([]tiering.Class{tiering.ClassPersistent, tiering.ClassSession}).Draw(rt, "class")
	p, err := json.Marshal(policy)
	m.no(err)
	full := policy.WithDefaults()
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
		"orders": m.Orders, "lose an erase": m.LoseErase, "fault": m.Fault, "die": m.Die, "": m.Check,
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
