package telemetry_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/hot/memory"
)

func TestWrappedHotConforms(t *testing.T) {
	tel := traced(t)
	hottest.Run(t, hottest.Harness{
		Capabilities: hot.Capabilities{Volatile: true},
		Open: func(_ testing.TB, o hottest.Options) hottest.Subject {
			start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			var passed atomic.Int64
			clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
			return hottest.Subject{
				Store:   tel.Hot(memory.Open(&memory.Options{MaxBytes: o.MaxBytes, Clock: clock})),
				Timing:  hot.Timing{}.WithDefaults(),
				Advance: func(d time.Duration) { passed.Add(int64(d)) },
			}
		},
	})
}
