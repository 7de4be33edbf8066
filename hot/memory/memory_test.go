package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/hot/memory"
)

// clock is a clock that moves when told.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func harness() hottest.Harness {
	return hottest.Harness{
		Capabilities: hot.Capabilities{Volatile: true},
		Open: func(_ testing.TB, o hottest.Options) hottest.Subject {
			c := newClock()
			return hottest.Subject{
				Store:   memory.Open(&memory.Options{MaxBytes: o.MaxBytes, Clock: c.Now}),
				Timing:  hot.Timing{}.WithDefaults(),
				Advance: c.Advance,
			}
		},
	}
}

func TestConformance(t *testing.T) { hottest.Run(t, harness()) }
