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
		b.Run("tiers="+place.String(), func(b *testing.B) {
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

// BenchmarkNewest prints how long it takes to read the newest 20 entries of a log
// of 10,000, beside a document of as many bytes from hot, and the one over the
// other: what keeping a log's tail in hot could save at most.
func BenchmarkNewest(b *testing.B) {
	for _, place := range []place{embedded, servers} {
		b.Run("tiers="+place.String(), func(b *testing.B) {
			w := open(b, setup{place: place})
			entry := json.RawMessage(fmt.Sprintf(`{"role":"user","content":%q}`, strings.Repeat("where is seat 14C ", 20)))
			for range 10 {
				if _, err := w.r.Append(w.ctx, logs, "long", slices.Repeat([]json.RawMessage{entry}, 1000), nil); err != nil {
					b.Fatal(err)
				}
			}
			w.put("k", string(entry[:len(entry)-1])+`,"more":`+string(slices.Concat([]byte(`[`), []byte(strings.Repeat(string(entry)+",", 18)), entry, []byte(`]`)))+`}`)
			var tail, hot []time.Duration
			for b.Loop() {
				began := time.Now()
				page, err := w.r.Entries(w.ctx, logs, "long", &tiering.EntriesOptions{Descending: true, Limit: 20})
				tail = append(tail, time.Since(began))
				if err != nil || len(page.Entries) != 20 {
					b.Fatal(page, err)
				}
				began = time.Now()
				w.get("k")
				hot = append(hot, time.Since(began))
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Microseconds())
			}
			b.ReportMetric(median(tail), "tail-us")
			b.ReportMetric(median(hot), "hot-get-us")
			b.ReportMetric(median(tail)/median(hot), "tail/hot")
		})
	}
}
