package torture

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/internal/fault/sqlitevfs"
	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/tiering"
)

// losePower: an embedded node on a disk that loses power. Everything that it does
// to its files is recorded; then, for moment after moment, the disk is made as the
// loss of power would have left it, and a node on it has to hold what had been
// acknowledged. A round is one such moment.
func losePower(t *testing.T, c *course) { loseWithout(t, c, nil) }

// momentsEach is how many moments of one recording are looked at.
const momentsEach = 25

func loseWithout(t *testing.T, c *course, forgotten func(name string) bool) {
	looked := 0
	for lap := 0; ; lap++ {
		random := c.random(lap)
		if c.over() {
			break
		}
		rec := record(t, random, forgotten)
		for range momentsEach {
			if !c.more() {
				break
			}
			at := rec.ready + random.IntN(rec.journal.Len()-rec.ready+1)
			kept := []float64{0, 0.5, 0.9, 1}[random.IntN(4)]
			looked += rec.lose(t, c, at, kept, random)
			c.inject(1)
		}
	}
	c.note("%d acknowledged writes looked for", looked)
}

// recording is a life of a node.
type recording struct {
	journal *fault.Journal
	ledger  *ledger
	ready   int // the moment at which the node was open
}

// dataFolder is the node's, on the recorded disk, which is empty: the folder above it
// is new too.
const dataFolder = "new/data"

// withoutRace runs tests of this package again in a build without the race detector,
// each of which has to pass: the detector checks pointers, and those of SQLite's file
// layer are outside of Go's memory.
func withoutRace(t *testing.T, pattern string, pass ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout=10m", "-run="+pattern, ".").CombinedOutput()
	for _, name := range pass {
		if err == nil && !bytes.Contains(out, []byte("--- PASS: "+name+" (")) {
			err = fmt.Errorf("%s did not pass", name)
		}
	}
	if err != nil {
		t.Errorf("without the race detector: %v\n%s", err, out)
	}
}

// record runs a node under writers, demotions and its background, and closes it.
func record(t *testing.T, random *rand.Rand, forgotten func(string) bool) *recording {
	t.Helper()
	disk := t.TempDir()
	j := fault.NewJournal()
	j.Forget(forgotten)
	vfs, err := sqlitevfs.Record(disk, j)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := vfs.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := tierd.Open(t.Context(), tierd.Config{Data: filepath.Join(disk, dataFolder), Disk: &recordedDisk{folder: disk, journal: j}, SegmentAge: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	rec := &recording{journal: j, ledger: newLedger(j.Len), ready: j.Len()}
	work(t, n, rec.ledger, random.Uint64())
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return rec
}

// work has writers write to keys of their own, and demotes what they wrote.
func work(t *testing.T, s tiering.Service, l *ledger, seed uint64) {
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range 40 {
				id := fmt.Sprintf("%d/%d", w, r.IntN(3))
				ns := documents
				if r.IntN(4) == 0 {
					ns = lines
				}
				if err := l.write(t.Context(), s, ns, id, r); err != nil {
					t.Error(err)
				}
				if i%8 == 7 {
					if _, err := s.Demote(t.Context(), documents, id); err != nil && tiering.CodeOf(err) != tiering.CodeNotFound {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
}

// lose opens a node on what is left of the disk at a moment.
func (rec *recording) lose(t *testing.T, c *course, at int, kept float64, random *rand.Rand) int {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	disk := t.TempDir()
	if err := rec.journal.Image(disk, at, kept, random); err != nil {
		t.Fatal(err)
	}
	say := func(format string, args ...any) {
		c.violated("power lost at %d of %d, %v of what was not synced kept: %s", at, rec.journal.Len(), kept, fmt.Sprintf(format, args...))
	}
	n, err := tierd.Open(ctx, tierd.Config{Data: filepath.Join(disk, dataFolder), SegmentAge: time.Hour})
	if err != nil {
		say("the node does not open: %v", err)
		return 0
	}
	looked := rec.ledger.check(ctx, n, at, say, say)
	if err := n.Close(ctx); err != nil {
		say("close: %v", err)
	}
	return looked
}

// TestPowerLossFinds: a build that leaves out a sync is found.
func TestPowerLossFinds(t *testing.T) {
	if racedetector.On {
		withoutRace(t, "^TestPowerLossFinds$", t.Name())
		return
	}
	for name, forgotten := range map[string]func(string) bool{
		"the log of the database": func(n string) bool { return strings.HasSuffix(n, "-wal") },
		"the database":            func(n string) bool { return n == dataFolder+"/warm.db" },
		"objects in both buckets": func(n string) bool { return strings.Contains(n, "~unfinished/") },
		"folders of both buckets": func(n string) bool {
			return strings.HasPrefix(n, dataFolder+"/cold") || strings.HasPrefix(n, dataFolder+"/backup")
		},
		"the folder that was made for the data": func(n string) bool { return n == "." },
		"the data folder in it":                 func(n string) bool { return n == path.Dir(dataFolder) },
	} {
		t.Run(name, func(t *testing.T) {
			finds(t, 12, "power lost at ", func(c *course) { loseWithout(t, c, forgotten) })
		})
	}
}
