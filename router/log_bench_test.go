package router

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// BenchmarkAppend prints how long a lone append takes to a log that holds 10
// entries and to one that holds 10,000, each median over the other in one run, and
// how many a second 64 appenders make to one log:
//
//	go test -run '^$' -bench Append -benchtime 400x ./router
//
// On the servers of the environment; without them on SQLite.
func BenchmarkAppend(b *testing.B) {
	for _, place := range []place{embedded, servers} {
		b.Run(place.String(), func(b *testing.B) {
			w := open(b, setup{place: place})
			entry := json.RawMessage(fmt.Sprintf(`{"role":"user","content":%q}`, strings.Repeat("where is seat 14C ", 20)))
			add := func(id string, n int) {
				entries := make([]json.RawMessage, n)
				for i := range entries {
					entries[i] = entry
				}
				if _, err := w.r.Append(w.ctx, logs, id, entries, nil); err != nil {
					b.Fatal(err)
				}
			}
			add("short", 10)
			for range 10 {
				add("long", 1000)
			}
			took := map[string][]time.Duration{}
			for b.Loop() {
				for _, id := range []string{"short", "long"} {
					began := time.Now()
					add(id, 1)
					took[id] = append(took[id], time.Since(began))
				}
			}
			median := func(id string) float64 {
				slices.Sort(took[id])
				return float64(took[id][len(took[id])/2])
			}
			b.ReportMetric(median("long")/median("short"), "at-10000/at-10")
			b.ReportMetric(appendersPerSecond(b, w, entry), "appends/s-by-64")
		})
	}
}

func appendersPerSecond(b *testing.B, w *world, entry json.RawMessage) float64 {
	const appenders, each = 64, 100
	began := time.Now()
	var wg sync.WaitGroup
	for range appenders {
		wg.Go(func() {
			for range each {
				if _, err := w.r.Append(w.ctx, logs, "busy", []json.RawMessage{entry}, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rate := appenders * each / time.Since(began).Seconds()
	page, err := w.r.Entries(w.ctx, logs, "busy", &tiering.EntriesOptions{Descending: true, Limit: 1})
	if err != nil || page.LastSeq != appenders*each {
		b.Fatalf("the log ends at %+v, %v", page, err)
	}
	return rate
}
