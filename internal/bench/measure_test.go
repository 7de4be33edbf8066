package bench_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/bench"
)

// whole fails the test unless figures hold every case, with all contestants.
func whole(t *testing.T, f *bench.Figures, contestants map[string][]string) {
	t.Helper()
	seen := map[string][]string{}
	for _, row := range f.Rows {
		name := row.Tier + " " + row.Case
		if !slices.Contains(seen[name], row.Who) {
			seen[name] = append(seen[name], row.Who)
		}
		if row.Done <= 0 || row.P50Micros < 0 || row.P99Micros < row.P50Micros || row.PerSecond < 0 {
			t.Errorf("%+v", row)
		}
		if row.Who == "tierd" && len(contestants[name]) != 1+len(row.Beside) {
			t.Errorf("%s at %d is compared with %v, want %v", name, row.AtOnce, row.Beside, contestants[name])
		}
	}
	for name, want := range contestants {
		if !slices.Equal(seen[name], want) {
			t.Errorf("%s: measured %v, want %v", name, seen[name], want)
		}
	}
	if len(seen) != len(contestants) {
		t.Errorf("cases %v", slices.Sorted(maps.Keys(seen)))
	}
	var table bytes.Buffer
	if err := f.WriteTable(&table); err != nil || !strings.Contains(table.String(), "10 to 50 ms, 5,000/s") || !strings.Contains(table.String(), "TIERD OVER IT") {
		t.Errorf("%v\n%s", err, &table)
	}
}

func cases(put ...string) map[string][]string {
	return map[string][]string{
		"warm put of 1 KB, hot and warm":         put,
		"warm append of a turn to 64 KB of them": {"tierd", "by hand"},
		"hot get of 1 KB from hot":               {"tierd", "by hand"},
		"all recall of 10 of 50 memories":        {"tierd"},
		"all restart to ready":                   {"tierd"},
		"warm get of 1 KB that hot has lost":     {"tierd", "by hand", "raw"},
		"cold read of 16 KB from cold":           {"tierd", "raw"},
	}
}

// Everything is measured in process, beside a store that stands in the same
// folder, and nothing is left but that.
func TestMeasureEmbedded(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "warm.db"), []byte("the user's"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := bench.Measure(t.Context(), bench.MeasureConfig{Tiers: tierd.Config{Data: data}, For: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, f, cases("tierd", "by hand"))
	entries, err := os.ReadDir(data)
	if text, readErr := os.ReadFile(filepath.Join(data, "warm.db")); err != nil || readErr != nil || len(entries) != 1 || string(text) != "the user's" {
		t.Errorf("left: %v, %q, %v", entries, text, errors.Join(err, readErr))
	}
}

// A data folder that was not there is not there afterwards, also when the run
// was interrupted.
func TestMeasureInterrupted(t *testing.T) {
	for _, at := range []string{"puts", "put, 16 writers"} {
		t.Run(at, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			f, err := bench.Measure(ctx, bench.MeasureConfig{Tiers: tierd.Config{Data: data}, For: 20 * time.Millisecond, Progress: func(what string) {
				if what == at {
					stop()
				}
			}})
			if !errors.Is(err, context.Canceled) || f == nil {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is still there: %v", err)
			}
		})
	}
}

// On servers it works in places of its own.
func TestMeasureOnServers(t *testing.T) {
	c := servers(t)
	f, err := bench.Measure(t.Context(), bench.MeasureConfig{
		Tiers: tierd.Config{Data: filepath.Join(t.TempDir(), "data"), Hot: c.Hot, Warm: c.Warm, Cold: c.Cold, Backup: c.Backup}, For: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, f, cases("tierd", "by hand", "article"))
	leftovers(t, c, f.ID)
}

func TestMeasureConfigIsChecked(t *testing.T) {
	if _, err := bench.Measure(t.Context(), bench.MeasureConfig{Tiers: tierd.Config{Data: t.TempDir()}, Writers: []int{0}}); err == nil {
		t.Error("no writers are refused")
	}
}
