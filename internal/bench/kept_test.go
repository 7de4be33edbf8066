package bench_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// kept are the results of benchmarks in docs/bench.
const kept = "../../docs/bench/*.txt"

var (
	// benchmarkName is one that benchstat can tell apart by its parts: key=value
	// behind the slashes, and the number of processors at the end.
	benchmarkName = regexp.MustCompile(`^Benchmark[A-Za-z0-9]+(/[a-z][a-z0-9-]*=[^/=\s]+)*(-\d+)?$`)
	fileSetting   = regexp.MustCompile(`^[a-z][a-z-]*: `)
)

// What is kept of benchmarks is what benchstat reads: settings, results, and lines
// of "go test" that it passes over.
func TestKeptResultsCanBeRead(t *testing.T) {
	files, err := filepath.Glob(kept)
	if err != nil || len(files) == 0 {
		t.Fatalf("no results in %s, %v", kept, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		results := 0
		for i, line := range strings.Split(string(text), "\n") {
			where := filepath.Base(file) + ":" + strconv.Itoa(i+1)
			if strings.HasPrefix(line, "Benchmark") {
				results++
				if fault := faultOfResult(line); fault != "" {
					t.Errorf("%s: %s: %s", where, fault, line)
				}
			} else if line != "" && line != "PASS" && !strings.HasPrefix(line, "ok ") && !fileSetting.MatchString(line) {
				t.Errorf("%s: neither a setting nor a result: %s", where, line)
			}
		}
		if results == 0 {
			t.Errorf("%s holds no results", file)
		}
	}
}

// faultOfResult says what is wrong with the line of a result: a name, how often it
// ran, then pairs of a figure and a unit, each unit once.
func faultOfResult(line string) string {
	fields := strings.Fields(line)
	if !benchmarkName.MatchString(fields[0]) {
		return "the name is not made of key=value"
	}
	if len(fields) < 4 || len(fields)%2 != 0 {
		return "not a count and pairs of figure and unit"
	}
	seen := map[string]bool{}
	for i := 2; i < len(fields); i += 2 {
		if _, err := strconv.ParseFloat(fields[i], 64); err != nil || seen[fields[i+1]] {
			return "figure " + fields[i] + " of " + fields[i+1]
		}
		seen[fields[i+1]] = true
	}
	return ""
}

func TestFaultsOfResultsAreSeen(t *testing.T) {
	for line, sound := range map[string]bool{
		"BenchmarkGet/get=cached-2 10 5 ns/op":             true,
		"BenchmarkRecall/deleted=none/keeps=0.1%-2 1 2 us": true,
		"BenchmarkGet/cached-2 10 5 ns/op":                 false,
		"BenchmarkGet/way=a_b,_c=d-2 10 5 ns/op":           false,
		"BenchmarkGet-2 10 5 ns/op 6 ns/op":                false,
		"BenchmarkGet-2 10 5":                              false,
		"BenchmarkGet-2 10 five ns/op":                     false,
	} {
		if fault := faultOfResult(line); (fault == "") != sound {
			t.Errorf("%s: %q", line, fault)
		}
	}
}
