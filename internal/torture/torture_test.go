package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/racedetector"
)

// campaign breaks one kind of thing for a number of rounds.
type campaign struct {
	name string
	// short and long are rounds in an ordinary run of the tests and in make
	// torture.
	short, long int
	run         func(t *testing.T, c *course)
	// recorded: on a disk that is recorded, which the race detector does not let be.
	recorded bool
}

var campaigns = []campaign{
	{"commit replies cut", 30, 500, cutCommits, false},
	{"wires broken", 40, 1000, breakWires, false},
	{"kill -9, embedded", 3, 500, killEmbedded, false},
	{"kill -9, real servers", 1, 500, killReal, false},
	{"power lost", 10, 200, losePower, true},
	{"disk full at the nth write", 6, 120, fillDisk, true},
	{"a bit of a copy flipped", 8, 200, flipBits, false},
}

// course is one run of a campaign.
type course struct {
	seed  uint64
	goal  int       // rounds
	until time.Time // no round begins after it; zero: never
	began time.Time

	mu         sync.Mutex
	rounds     int
	faults     int
	violations []string
	notes      []string
}

// more reports whether another round is to begin, and counts it.
func (c *course) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rounds >= c.goal || !c.until.IsZero() && time.Now().After(c.until) {
		return false
	}
	c.rounds++
	return true
}

// finds runs a campaign over something broken, which has to find that and say so by a
// sign: soon, but not at once, because it is by chance.
func finds(t *testing.T, rounds int, sign string, run func(c *course)) {
	t.Helper()
	const tries = 8
	var said []string
	for try := range uint64(tries) {
		c := &course{seed: 1 + try, goal: rounds}
		run(c)
		if slices.ContainsFunc(c.violations, func(v string) bool { return strings.Contains(v, sign) }) {
			return
		}
		said = append(said, c.violations...)
	}
	t.Errorf("in %d times %d rounds nothing was found that says %q, but %q", tries, rounds, sign, said)
}

// random is where a round takes its chances from.
func (c *course) random(round int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(round)))
}

func (c *course) inject(faults int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults += faults
}

// violated records that a promise was broken.
func (c *course) violated(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// note adds a figure to the campaign's line of the table.
func (c *course) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// settings are what the environment asks for.
type settings struct {
	long   bool
	seed   uint64
	budget time.Duration // for all campaigns; 0: until their rounds are done
}

func readSettings(t *testing.T) settings {
	t.Helper()
	s := settings{long: os.Getenv("TORTURE") != "", seed: rand.Uint64N(1 << 32)}
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SEED: %v", err)
		}
		s.seed = n
	}
	if text := os.Getenv("BUDGET"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("BUDGET: %v", err)
		}
		s.budget = d
	}
	return s
}

// withoutRaceRecorded runs the campaigns on recorded disks.
func withoutRaceRecorded(t *testing.T) {
	var names, tests []string
	for _, k := range campaigns {
		if k.recorded {
			name := strings.ReplaceAll(k.name, " ", "_")
			names, tests = append(names, name), append(tests, "TestTorture/"+name)
		}
	}
	withoutRace(t, "^TestTorture$/^("+strings.Join(names, "|")+")$", tests...)
}

// TestTorture runs every campaign, and prints what came of each.
func TestTorture(t *testing.T) {
	s := readSettings(t)
	end := time.Now().Add(s.budget)
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-28s %7s %11s %7s %10s %9s  %s\n", "campaign", "rounds", "seed", "faults", "violations", "took", "")
	if racedetector.On {
		t.Run("without the race detector", withoutRaceRecorded)
	}
	for i, k := range campaigns {
		if racedetector.On && k.recorded {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			c := &course{seed: s.seed, goal: k.short, began: time.Now()}
			if s.long {
				c.goal = k.long
			}
			if s.budget > 0 { // what is left, in equal parts
				c.until = c.began.Add(time.Until(end) / time.Duration(len(campaigns)-i))
			}
			defer func() {
				for _, v := range c.violations[:min(len(c.violations), 20)] {
					t.Errorf("with SEED=%d: %s", c.seed, v)
				}
				fmt.Fprintf(&table, "%-28s %7d %11d %7d %10d %9v  %s\n", k.name, c.rounds, c.seed, c.faults, len(c.violations),
					time.Since(c.began).Round(100*time.Millisecond), strings.Join(c.notes, ", "))
			}()
			k.run(t, c)
			if c.rounds == 0 {
				t.Error("the budget was over before a round was run: nothing was shown")
			} else if c.faults == 0 {
				t.Errorf("%d rounds, and no fault was injected: nothing was shown", c.rounds)
			}
		})
	}
	t.Log(table.String())
}
