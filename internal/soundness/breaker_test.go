package soundness_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/soundness"
)

func TestASourceLeavesTheReadPath(t *testing.T) {
	for _, c := range []struct {
		name            string
		sound, corrupt  int
		distinctObjects int
		want            bool
	}{
		{"nothing corrupt", 100_000 - 1, 0, 0, false},
		{"too few loads to judge", 900, 50, 50, false},
		{"one object again and again", 5000, 500, 1, false},
		{"nine objects", 5000, 500, 9, false},
		{"ten objects, one in a thousand", 9990, 10, 10, false},
		{"ten objects, more than one in a thousand", 9989, 11, 10, true},
		{"many", 5000, 100, 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b soundness.Breaker
			for range c.sound {
				b.Sound()
			}
			told := 0
			for i := range c.corrupt {
				if b.Corrupt(strconv.Itoa(i % c.distinctObjects)) {
					told++
				}
			}
			if b.Open() != c.want || told > 1 || (told == 1) != c.want {
				t.Errorf("open %v, told %d times, want %v", b.Open(), told, c.want)
			}
		})
	}
}

// trip takes b out of the read path.
func trip(b *soundness.Breaker) {
	for range soundness.MinLoads {
		b.Sound()
	}
	for i := range 2 * soundness.MinObjects {
		b.Corrupt(strconv.Itoa(i))
	}
}

func TestASourceIsTriedAgainAndJudgedAnew(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := soundness.Breaker{Clock: func() time.Time { return now }}
	trip(&b)
	now = now.Add(soundness.DefaultRest - 1)
	if !b.Open() {
		t.Fatal("it came back before its rest was over")
	}
	now = now.Add(1)
	if b.Open() {
		t.Fatal("it did not come back")
	}
	if b.Corrupt("a"); b.Open() {
		t.Error("what was counted before still counts")
	}
	trip(&b)
	if !b.Open() {
		t.Error("it is not judged any more")
	}
}

// A window that passed is forgotten: errors of long ago do not add up.
func TestAWindowIsForgotten(t *testing.T) {
	b := soundness.Breaker{Window: 10_000}
	for round := range 100 {
		b.Corrupt(strconv.Itoa(round))
		for range 9999 {
			b.Sound()
		}
	}
	if b.Open() {
		t.Error("one corrupt load in 10,000 took the source out")
	}
}

func TestManyReadersCountTogether(t *testing.T) {
	var b soundness.Breaker
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				b.Sound()
				if i%100 == 0 {
					b.Corrupt(strconv.Itoa(n*1000 + i))
				}
				b.Open()
			}
		})
	}
	wg.Wait()
	if !b.Open() {
		t.Error("1 in 100 corrupt loads of 80 objects did not take it out")
	}
}
