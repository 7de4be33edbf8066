package server

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers into testdata")

// TestExchanges plays each file of testdata against a fresh service. A file is
// a list of exchanges: a title after "#", the request on lines that begin with
// ">", and the whole answer on lines that begin with "<".
func TestExchanges(t *testing.T) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := newTest(t, newFake(), nil).Handler()
			var out strings.Builder
			for _, part := range strings.Split("\n"+string(raw), "\n# ")[1:] {
				title, rest, _ := strings.Cut(part, "\n")
				request := quoted(rest, ">")
				answer := render(t, exchange(h, request))
				if want := quoted(rest, "<"); answer != want && !*update {
					t.Errorf("%s\n%s\n--- got\n%s\n--- want\n%s", title, request, answer, want)
				}
				fmt.Fprintf(&out, "# %s\n%s%s\n", title, quote(request, ">"), quote(answer, "<"))
			}
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// quoted returns the lines of s that begin with mark, without it.
func quoted(s, mark string) string {
	var lines []string
	for l := range strings.SplitSeq(s, "\n") {
		if rest, ok := strings.CutPrefix(l, mark); ok {
			lines = append(lines, strings.TrimPrefix(rest, " "))
		}
	}
	return strings.Join(lines, "\n")
}

func quote(s, mark string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(s, "\n") {
		b.WriteString(strings.TrimRight(mark+" "+l, " ") + "\n")
	}
	return b.String()
}

// render writes an answer: its status, its headers in order, its body. The one
// header that every answer carries is checked and left out.
func render(t *testing.T, r *http.Response) string {
	t.Helper()
	if r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("an answer without X-Content-Type-Options")
	}
	lines := []string{fmt.Sprint(r.StatusCode)}
	for name, values := range r.Header {
		if name != "X-Content-Type-Options" {
			lines = append(lines, name+": "+strings.Join(values, " | "))
		}
	}
	sort.Strings(lines[1:])
	s := strings.Join(lines, "\n")
	if body := bodyOf(t, r); body != "" {
		s += "\n\n" + body
	}
	return s
}
