package hottest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/hot/memory"
)

// open returns a store whose time moves when told.
func open(t *testing.T) hottest.Subject {
	var mu sync.Mutex
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := memory.Open(&memory.Options{Clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	t.Cleanup(func() { s.Close() })
	return hottest.Subject{Store: s, Timing: hot.Timing{}.WithDefaults(), Advance: func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}}
}

func naive(t *testing.T, f hottest.Fault) hottest.Subject {
	s := open(t)
	s.Store = hottest.Naive(s.Store, f)
	return s
}

// violations plays every race and names those that saw an old value.
func violations(t *testing.T, s hottest.Subject) map[string]bool {
	seen := map[string]bool{}
	for i, race := range hottest.Races() {
		if race.Run(t.Context(), s, fmt.Sprint("race", i)) != nil {
			seen[race.Name] = true
		}
	}
	return seen
}

func TestRacesFailOnNaiveStores(t *testing.T) {
	want := map[hottest.Fault][]string{
		hottest.IgnoreLeases: {
			"a fill that comes after a newer value has expired",
			"a fill that comes after a delete",
			"a fill that comes after the tombstone has lapsed",
			"a fill after the writer of a newer version died",
			"a fill after the writer gave up, when another has committed",
			"a set whose mark has lapsed",
		},
		hottest.BlindSet: {
			"the set of a writer that stalled behind a newer one",
			"the set of a writer without a mark that stalled",
			"the set of a writer that stalled behind a touch",
			"the set of a writer that stalled behind a delete",
			"a set while another writer is pending, who dies",
			"a writer that renews its mark past what a tombstone lives",
		},
		hottest.NoPending: {
			"a fill after the writer of a newer version died",
			"a writer that dies between mark and set",
			"a set while another writer is pending, who dies",
		},
		hottest.ForgetDeletes: {
			"a fill that comes after a delete without a mark",
			"the set of a writer that stalled behind a delete",
			"the set of a writer without a mark that stalled behind a delete",
		},
	}
	caught := map[string]bool{}
	for _, f := range hottest.Faults() {
		t.Run(string(f), func(t *testing.T) {
			got := violations(t, naive(t, f))
			for _, name := range want[f] {
				if !got[name] {
					t.Errorf("%q passes on a store that does %q", name, f)
				}
			}
			for name := range got {
				caught[name] = true
			}
		})
	}
	for _, race := range hottest.Races() {
		if !caught[race.Name] {
			t.Errorf("%q passes on every naive store: it proves nothing", race.Name)
		}
	}
	if got := violations(t, open(t)); len(got) != 0 {
		t.Errorf("a sound store fails %v", got)
	}
}

func TestRandomSchedulesFailOnNaiveStores(t *testing.T) {
	const seed, n = 1, 400
	for _, f := range hottest.Faults() {
		t.Run(string(f), func(t *testing.T) {
			if err := hottest.RandomSchedules(t.Context(), naive(t, f), "t", seed, n, false); err == nil {
				t.Errorf("%d schedules pass", n)
			}
		})
	}
	t.Run("a sound store passes", func(t *testing.T) {
		if err := hottest.RandomSchedules(t.Context(), open(t), "t", seed, n, false); err != nil {
			t.Error(err)
		}
	})
}

func TestStampedeFailsOnNaiveStores(t *testing.T) {
	// A fault shows when goroutines meet: several tries, each of which may
	// miss it.
	for _, f := range []hottest.Fault{hottest.IgnoreLeases, hottest.BlindSet, hottest.NoPending} {
		t.Run(string(f), func(t *testing.T) {
			for try := range 50 {
				if hottest.Stampede(t.Context(), naive(t, f), fmt.Sprint("t", try), 16, 100) != nil {
					t.Logf("caught by stampede %d", try+1)
					return
				}
			}
			t.Error("50 stampedes pass")
		})
	}
}
