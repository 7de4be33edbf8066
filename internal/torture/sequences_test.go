package torture

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/tiering"
)

// How many sequences run over each kind of store unless SEQUENCES says otherwise,
// and from how many on everything has to have happened.
const (
	someSequences     = 16
	fewSequences      = 8 // with the race detector
	enoughForAllKinds = 1000
)

// stage is a daemon that sequences share. Each has names of its own.
type stage struct {
	world
	client *client.Client
	runs   atomic.Int64
	begun  atomic.Int64 // erases
	done   atomic.Int64 // those of them that are
	counts sequenceCounts
	// One of so many that are drawn is carried out: an erase on servers takes 10 s
	// for the leases of readers, and nobody else goes on while the daemon is dead.
	eraseOneIn, crashOneIn int

	alive sync.RWMutex // held alone by who kills the daemon, until the next one serves
}

// sequenceCounts is what the sequences came to, so that none passes because
// nothing happened.
type sequenceCounts struct {
	sequences, calls, refused, expired, demoted, fromCold, promoted, rolledBack, appended, recalled, erased, crashed atomic.Int64
}

func (c *sequenceCounts) each() map[string]int64 {
	return map[string]int64{
		"refused by a condition": c.refused.Load(), "expired": c.expired.Load(), "demoted": c.demoted.Load(), "read from cold": c.fromCold.Load(),
		"promoted": c.promoted.Load(), "rolled back": c.rolledBack.Load(), "appended": c.appended.Load(), "recalled": c.recalled.Load(),
		"erased": c.erased.Load(), "killed": c.crashed.Load(),
	}
}

// TestSequences runs random sequences of everything that a caller may ask for (puts,
// conditions, patches, edits, deletions, rollbacks, lives that end, moves down and up,
// appends, memories, erases) beside a map, over a daemon that is killed in between.
// Whatever came before: what was acknowledged is there, at its version and in its
// history, in lists, queries and recalls; what has ended is in none of them; and no
// version is used twice.
func TestSequences(t *testing.T) {
	n := numberOfSequences(t)
	for name, open := range map[string]func(t *testing.T) *stage{
		"embedded": func(t *testing.T) *stage {
			return &stage{world: embeddedWorld(t, daemontest.Build(t, "failpoints"), "TIERD_FAILPOINT_SKIP="+os.Getenv(brokenBy)), eraseOneIn: 10, crashOneIn: 20}
		},
		"servers": func(t *testing.T) *stage {
			return &stage{world: realWorld(t, daemontest.Build(t, "failpoints")), eraseOneIn: 50, crashOneIn: 20}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			if _, err := w.daemon.Start(); err != nil {
				t.Fatal(err)
			}
			w.client = dial(t, w.daemon.URL(), erasing)
			if err := w.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			lanes := min(4, n)
			setChecks(t, (n+lanes-1)/lanes)
			began := time.Now()
			t.Run("lanes", func(t *testing.T) {
				for i := range lanes {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						t.Parallel()
						rapid.Check(t, func(rt *rapid.T) { newSequence(rt, w).play() })
					})
				}
			})
			took := time.Since(began)
			done := w.counts.sequences.Load()
			t.Logf("%d sequences of %d calls in all, %s, %.1f/s: %v", done, w.counts.calls.Load(), took.Round(time.Millisecond), float64(done)/took.Seconds(), w.counts.each())
			for what, times := range w.counts.each() {
				if n >= enoughForAllKinds && times == 0 {
					t.Errorf("nothing was ever %s", what)
				}
			}
		})
	}
}

// brokenBy is the variable that has an embedded daemon leave out a check.
const brokenBy = "SEQUENCES_WITHOUT"

// TestSequencesFind: over a daemon that ignores the conditions of writes the sequences
// fail, and say so.
func TestSequencesFind(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestSequences$/^embedded$", "-rapid.shrinktime=0s", "-rapid.nofailfile")
	cmd.Env = append(os.Environ(), "SEQUENCES=40", brokenBy+"="+failpoint.VersionCheck)
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(unheeded)) {
		t.Errorf("without the check of versions the sequences ended with %v, and did not find that: %s", err, out)
	}
}

func numberOfSequences(t *testing.T) int {
	switch s := os.Getenv("SEQUENCES"); {
	case s == "" && racedetector.On:
		return fewSequences
	case s == "":
		return someSequences
	default:
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("SEQUENCES=%q: use a number of sequences", s)
		}
		return n
	}
}

// setChecks has each rapid.Check of a test run n sequences.
func setChecks(t *testing.T, n int) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}

// The namespaces of sequences. What brief holds leaves hot at once, so that reads
// come to the tiers below.
const (
	kept  = "kept"
	brief = "brief"
	facts = "facts"
)

func (w *stage) prepare(ctx context.Context) error {
	for ns, p := range map[string]tiering.Policy{
		kept: {}, brief: {HotTTL: tiering.Duration(time.Millisecond)}, lines: {Kind: tiering.KindLog}, facts: {Kind: tiering.KindMemory},
	} {
		if _, err := w.client.SetNamespace(ctx, ns, p, nil); err != nil {
			return err
		}
	}
	return nil
}

// crash kills the daemon and starts the next.
func (w *stage) crash() error {
	w.alive.Lock()
	defer w.alive.Unlock()
	w.daemon.Kill()
	w.lapse()
	_, err := w.daemon.Start()
	return err
}

// sequence is one of them: what it did so far, as a map.
type sequence struct {
	*rapid.T
	w        *stage
	ctx      context.Context
	run      string // before all its ids, and its user
	docs     map[place]*expected
	logs     map[place]*written
	memories map[string]string // texts by id
}

func newSequence(rt *rapid.T, w *stage) *sequence {
	return &sequence{T: rt, w: w, ctx: context.Background(), run: fmt.Sprintf("run-%d", w.runs.Add(1)),
		docs: map[place]*expected{}, logs: map[place]*written{}, memories: map[string]string{}}
}

func (s *sequence) play() {
	s.Repeat(map[string]func(*rapid.T){
		"put": s.Put, "put again": s.Put, "patch": s.Patch, "edit": s.Edit, "delete": s.Delete, "rollback": s.Rollback,
		"expire": s.Expire, "expire by touch": s.ExpireByTouch, "demote": s.Demote, "promote": s.Promote,
		"append": s.Append, "remember": s.Remember, "forget": s.Forget, "recall": s.Recall,
		"erase": s.Erase, "crash": s.Crash, "": s.Look,
	})
	s.lookAtAll()
	s.w.counts.sequences.Add(1)
}

// call makes one call while the daemon lives.
func (s *sequence) call(do func(c *client.Client) error) error {
	s.w.alive.RLock()
	defer s.w.alive.RUnlock()
	s.w.counts.calls.Add(1)
	return do(s.w.client)
}

// must is call that has to succeed.
func (s *sequence) must(do func(c *client.Client) error) {
	s.Helper()
	if err := s.call(do); err != nil {
		s.Fatalf("%+v", err)
	}
}

// oneIn draws something that happens once in n times, or less: small and extreme numbers
// are drawn more often.
func oneIn(rt *rapid.T, n int) bool { return rapid.IntRange(1, n).Draw(rt, "whether") == n/2+1 }

func (s *sequence) Crash(rt *rapid.T) {
	if !oneIn(rt, s.w.crashOneIn) {
		rt.Skip("it lives on")
	}
	if err := s.w.crash(); err != nil {
		s.Fatalf("it does not start again: %v", err)
	}
	s.w.counts.crashed.Add(1)
}

// Erase erases a document, all of a namespace, or all of the user.
func (s *sequence) Erase(rt *rapid.T) {
	if !oneIn(rt, s.w.eraseOneIn) {
		rt.Skip("nobody asks for it")
	}
	no := false
	r := tiering.EraseRequest{DryRun: &no}
	var takes func(p place) bool
	switch rapid.IntRange(0, 2).Draw(rt, "subject") {
	case 0:
		of := s.place(rt)
		r.Namespace, r.ID, takes = of.ns, s.id(of), func(p place) bool { return p == of }
	case 1:
		r.Namespace = rapid.SampledFrom([]string{kept, brief, lines}).Draw(rt, "namespace")
		r.Prefix, takes = s.run+"/", func(p place) bool { return p.ns == r.Namespace }
	default:
		r.User, takes = s.run, func(p place) bool { return p.owned }
		clear(s.memories)
	}
	s.w.begun.Add(1)
	s.must(func(c *client.Client) error {
		rc, err := c.Erase(s.ctx, r)
		for end := time.Now().Add(erasing); err == nil && rc.State != "done"; { // another one was in its way
			if time.Now().After(end) {
				return fmt.Errorf("the erase is %+v", rc)
			}
			pause(s.ctx, 50*time.Millisecond)
			rc, err = c.Erasure(s.ctx, rc.ID)
		}
		return err
	})
	s.w.done.Add(1)
	r.DryRun = nil
	s.must(func(c *client.Client) error {
		rc, err := c.Erase(s.ctx, r)
		if err == nil && rc.Keys+rc.Versions+rc.Bytes+rc.Segments != 0 {
			err = fmt.Errorf("there is left of what was erased: %+v", rc)
		}
		return err
	})
	for p, d := range s.docs {
		if takes(p) {
			d.erased()
		}
	}
	for p, l := range s.logs {
		if takes(p) {
			l.blocks = nil
		}
	}
	s.w.counts.erased.Add(1)
}
