package tierd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tierd/tierd/internal/daemontest"
)

// TestReadmeConsole runs every console block of the README, in order, against
// a fresh daemon, and compares what is printed. "…" in the README stands for
// anything.
func TestReadmeConsole(t *testing.T) {
	binary := daemontest.Build(t)
	d := daemontest.New(t, binary, nil)
	d.MustStart()
	env := daemontest.Environ("PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "TIERD_URL="+d.URL())
	ran := 0
	for _, block := range blocks(t, "console") {
		var command, want string
		step := func() {
			if command == "" {
				return
			}
			c := exec.Command("sh", "-c", strings.ReplaceAll(command, "127.0.0.1:8437", d.Addr()))
			c.Env = env
			out, err := c.CombinedOutput()
			if err != nil || !matches(want, string(out)) {
				t.Errorf("$ %s\ngot:\n%s\nwant:\n%s\n%v", command, out, want, err)
			}
			ran++
		}
		for line := range strings.SplitSeq(block, "\n") {
			if c, ok := strings.CutPrefix(line, "$ "); ok {
				step()
				command, want = c, ""
				continue
			}
			want += line + "\n"
		}
		step()
	}
	if ran < 8 {
		t.Errorf("only %d commands were found in the README", ran)
	}
}

// TestReadmeGo requires every Go block of the README to stand in a compiled
// example.
func TestReadmeGo(t *testing.T) {
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	found := blocks(t, "go")
	for _, block := range found {
		if !strings.Contains(squeeze(string(example)), squeeze(block)) {
			t.Errorf("no example has this code of the README:\n%s", block)
		}
	}
	if len(found) == 0 {
		t.Error("the README has no Go code")
	}
}

// blocks returns the fenced code blocks of a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)\n```").FindAllStringSubmatch(string(readme), -1) {
		out = append(out, m[1])
	}
	return out
}

// matches compares output with what the README shows: "…" is anything, and
// runs of spaces are one, because columns are as wide as what was left out.
func matches(want, got string) bool {
	spaces := regexp.MustCompile(`[ \t]+`)
	clean := func(s string) string { return strings.TrimSpace(spaces.ReplaceAllString(s, " ")) }
	pattern := strings.ReplaceAll(regexp.QuoteMeta(clean(want)), "…", ".*?")
	return regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(clean(got))
}
