package bench_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/bench"
	"github.com/tierd/tierd/internal/servicestest"
)

// servers takes the tiers from the environment.
func servers(t *testing.T) bench.Config {
	t.Helper()
	return bench.Config{
		Hot: servicestest.Variable(t, "TIERD_HOT"), Warm: servicestest.Variable(t, "TIERD_WARM"),
		Cold: servicestest.Variable(t, "TIERD_COLD"), Backup: servicestest.Variable(t, "TIERD_BACKUP"),
	}
}

// TestTiers is "make bench-tiers". The variables BENCH_MODE (full, quick, or
// parts), BENCH_WRITERS, BENCH_SIZE, BENCH_TIME (of a slice), BENCH_ONLY
// (contestants) and BENCH_JSON (a file) shape it; lists have commas.
func TestTiers(t *testing.T) {
	mode := os.Getenv("BENCH_MODE")
	if mode == "" {
		t.Skip("runs for minutes: make bench-tiers")
	}
	c := servers(t)
	c.Progress = func(what string) { t.Log(time.Now().Format("15:04:05"), what) }
	for m := range strings.SplitSeq(mode, ",") {
		switch m {
		case "full":
		case "quick":
			c.Quick = true
		default:
			c.Parts = append(c.Parts, bench.Part(m))
		}
	}
	c.Writers, c.Sizes, c.Contestants = numbers(t, "BENCH_WRITERS"), numbers(t, "BENCH_SIZE"), list("BENCH_ONLY")
	if text := os.Getenv("BENCH_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Slice = d
	}
	report, err := bench.Run(t.Context(), c)
	if report != nil {
		var table strings.Builder
		if err := report.WriteTable(&table); err != nil {
			t.Error(err)
		}
		t.Log("\n" + table.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	if file := os.Getenv("BENCH_JSON"); file != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func list(variable string) []string {
	return strings.FieldsFunc(os.Getenv(variable), func(r rune) bool { return r == ',' })
}

func numbers(t *testing.T, variable string) (out []int) {
	t.Helper()
	for _, text := range list(variable) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// Every part runs through, says something in every row, and leaves nothing
// behind on the servers. What it measures in so short a time means nothing.
func TestEveryPartRuns(t *testing.T) {
	c := servers(t)
	c.Slice, c.Rounds, c.Writers, c.Sizes = 30*time.Millisecond, 1, []int{16}, []int{1 << 10, 8 << 10}
	c.Keys, c.Versions = 200, 100
	report, err := bench.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[bench.Part]int{}
	for _, row := range report.Rows {
		seen[row.Part]++
		if row.Measured < 0 || row.Low > row.Measured || row.High < row.Measured {
			t.Errorf("%+v", row)
		}
	}
	for part, rows := range map[bench.Part]int{bench.Writes: 5, bench.Delay: 1, bench.Reads: 2, bench.Archive: 4, bench.Keys: 2} {
		if seen[part] != rows {
			t.Errorf("part %s has %d rows, want %d", part, seen[part], rows)
		}
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil || !strings.Contains(table.String(), "16 writers: bytes / straight") {
		t.Errorf("%v\n%s", err, &table)
	}
	leftovers(t, c, report.ID)
}

// A configuration that cannot be measured is refused before anything is made.
func TestConfigIsChecked(t *testing.T) {
	whole := bench.Config{Hot: "redis://x", Warm: "postgres://x", Cold: "s3://x", Backup: "s3://y"}
	for _, c := range []struct {
		name  string
		spoil func(*bench.Config)
		want  string // part of the error
	}{
		{"no warm tier", func(c *bench.Config) { c.Warm = "" }, "warm"},
		{"unknown part", func(c *bench.Config) { c.Parts = []bench.Part{"rides"} }, `no part "rides": use ["writes" "delay" "reads" "archive" "keys"]`},
		{"unknown contestant", func(c *bench.Config) { c.Contestants = []string{"bytes", "writes"} }, `no contestant "writes": use ["bytes" "straight" "query" "article" "full"]`},
		{"no writers", func(c *bench.Config) { c.Writers = []int{0} }, "0 writers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoilt := whole
			c.spoil(&spoilt)
			if report, err := bench.Run(t.Context(), spoilt); err == nil || report != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, %v", report, err)
			}
		})
	}
}
