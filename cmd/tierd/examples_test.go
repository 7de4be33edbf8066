package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd/internal/daemontest"
)

// examplesOf are the command lines that a command's help shows.
func examplesOf(node *kong.Node) []string {
	var out []string
	for line := range strings.SplitSeq(node.Detail, "\n") {
		if example, ok := strings.CutPrefix(line, "    "); ok {
			out = append(out, example)
		}
	}
	return out
}

// exampleWorld is a folder with what the examples name, and a daemon that holds
// the documents that they name.
type exampleWorld struct {
	dir string
	env []string
	d   *daemon
}

func newExampleWorld(t *testing.T) *exampleWorld {
	t.Helper()
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(os.Getenv(binaryEnv), filepath.Join(bin, "tierd")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plan.json": `{"step":4}`,
		"conversations.jsonl": `{"conversation":"c","id":"t1","text":"I sold my boat","speaker":"Ann","session":"s1"}
{"conversation":"c","question":"What did Ann sell?","evidence":["t1"]}`,
		"memories.jsonl": `{"text":"Ada prefers a window seat","user":"ada"}`,
		"agents.jsonl":   `{"namespace":"agents","id":"imported","data":{"n":1}}`,
		"tierd.yaml":     "log_level: warn\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &exampleWorld{dir: dir, d: start(t, t.TempDir(), nil)}
	w.d.must("ns", "set", "sessions", `{"class":"session"}`)
	// The first session of the examples; no command makes one.
	seed := `{"session":{"id":"s1","user":"ann","state":{"step":1},"version":1,"last_seq":1,"created_at":"2026-01-31T12:00:00Z","updated_at":"2026-01-31T12:00:00Z"},"events":[]}`
	if err := os.WriteFile(filepath.Join(dir, "session.json"), []byte(seed), 0o600); err != nil {
		t.Fatal(err)
	}
	w.d.must("sessions", "import", filepath.Join(dir, "session.json"))
	w.env = daemontest.Environ("PATH="+bin+":"+os.Getenv("PATH"), "TIERD_URL="+w.d.url)
	return w
}

// documents puts the documents of the examples in their places. The planner,
// another one for each example, stands at the version that the example says.
func (w *exampleWorld) documents(t *testing.T, planner, example string) {
	t.Helper()
	versions := 8
	if _, v, ok := strings.Cut(example, "--if-version "); ok {
		versions = int(v[0] - '0')
	}
	ops := `{"op":"put","namespace":"sessions","id":"s1","data":{}}, {"op":"put","namespace":"notes","id":"ada/draft","data":1,"user":"ada"},
		{"op":"append","namespace":"chats","id":"7","data":[{"role":"user"}]},
		{"op":"put","namespace":"agents","id":"team-a/x","data":{"status":"running","user":{"age":20},"score":1},"user":"ann"}`
	for range versions {
		ops += `, {"op":"put","namespace":"agents","id":"` + strings.TrimPrefix(planner, "agents/") + `","data":{"plan":["read"],"step":1}}`
	}
	// No command does it: parsing its line takes most of an example's time.
	resp, err := http.Post(w.d.url+"/v1/batch", "application/json", strings.NewReader(`{"ops":[`+ops+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(said, []byte(`"error"`)) {
		t.Fatalf("%s: %s, %v", resp.Status, said, err)
	}
	if strings.Contains(example, "people/01jf8") {
		w.d.must("remember", "people", "Ada prefers a window seat", "--id", "01jf8")
		w.d.must("remember", "people", "Ada is afraid of heights", "--id", "01jg2")
	}
}

// run runs an example as a shell would.
func (w *exampleWorld) run(t *testing.T, example string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", example)
	cmd.Dir, cmd.Env = w.dir, w.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code tells
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// watch runs an example that goes on until it is interrupted. It prints want
// once the write was done.
func (w *exampleWorld) watch(t *testing.T, example, want string, write ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+example)
	cmd.Env = w.env
	watcher := &daemon{t: t, cmd: cmd}
	line := follow(t, watcher)
	ready := make(chan struct{})
	wrote := make(chan struct{})
	go func() { // until the watch has begun, nobody sees a write
		defer close(wrote)
		for {
			select {
			case <-ready:
				return
			case <-time.After(20 * time.Millisecond):
				w.d.run(write...)
			}
		}
	}()
	got := line()
	close(ready)
	<-wrote
	if !strings.Contains(got, want) {
		t.Errorf("%s: printed %q", example, got)
	}
	watcher.signal(syscall.SIGINT)
	if code, _ := watcher.wait(); code != exitDone {
		t.Errorf("%s: exit code %d", example, code)
	}
}

// What help shows is typed as it is, against a real daemon or a real folder.
func TestTheExamplesOfEveryCommandWork(t *testing.T) {
	w := newExampleWorld(t)
	// A folder that a daemon left behind, for commands that open one themselves.
	left := filepath.Join(t.TempDir(), "left")
	d := start(t, left, nil)
	d.must("put", "agents/planner", "--value", "1")
	d.stop()
	data := filepath.Join(w.dir, "tierd-data")

	database := os.Getenv("TIERD_WARM")
	if database == "" { // nobody listens there
		database = "postgres://tierd@127.0.0.1:1/tierd"
	}
	absent := func(example string) bool { // never given out, or too young
		return strings.Contains(example, "erase status") || strings.Contains(example, "keys revoke") || strings.Contains(example, "embed drop") || strings.Contains(example, "get agents") && strings.Contains(example, "--as-of")
	}
	ran := 0
	for _, node := range leaves(t) {
		command := regexp.MustCompile(` \([^)]*\)`).ReplaceAllString(node.FullPath(), "")
		for _, example := range examplesOf(node) {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(data, os.DirFS(left)); err != nil {
				t.Fatal(err)
			}
			ran++
			planner := "agents/planner-" + itoa(ran)
			example = strings.ReplaceAll(example, "agents/planner", planner)
			switch {
			case command == "tierd watch", command == "tierd tail" && strings.Contains(example, "agents"):
				want := "state.put"
				if strings.Contains(example, "--from start") {
					want = `"type":"` // whatever came first
				}
				w.watch(t, example, want, "put", planner, "--value", "1")
				continue
			case command == "tierd sessions tail":
				w.watch(t, example, "tierd.created", "append", "chats/7", "1")
				continue
			case command == "tierd tail":
				w.watch(t, example, `{"role":"user"}`, "append", "chats/7", `{"role":"user"}`)
				continue
			case command == "tierd rebuild":
				if got := w.run(t, "rm tierd-data/warm.db*"); got.code != exitDone {
					t.Fatalf("%+v", got)
				}
			case command == "tierd serve":
				// What serve would refuse, config check refuses. A folder of another
				// disk is not on every machine.
				example = strings.ReplaceAll(strings.Replace(example, "serve", "config check", 1), "/mnt/other-disk", w.dir)
			case command == "tierd bench" && strings.Contains(example, "--json"):
				continue // TestBench runs it
			case command == "tierd bench": // a figure takes two seconds otherwise
				example = strings.Replace(example, "bench", "bench --for 10ms", 1)
			case strings.HasPrefix(command, "tierd schema"):
				example = strings.ReplaceAll(example, "postgres://tierd@127.0.0.1/tierd", "'"+database+"'")
			case strings.Contains(example, "produce |"):
				example = strings.Replace(example, "produce", "cat plan.json", 1)
			case command == "tierd ns rm" || strings.Contains(example, "scratch"):
				w.d.must("ns", "set", "scratch", "{}")
			case strings.HasPrefix(example, "zcat"):
				if got := w.run(t, "gzip -kc agents.jsonl > team-a.jsonl.gz"); got.code != exitDone {
					t.Fatalf("%+v", got)
				}
			}
			w.documents(t, planner, example)
			want := exitDone
			switch {
			case absent(example):
				want = exitNotFound
			case strings.HasPrefix(command, "tierd schema") && os.Getenv("TIERD_WARM") == "":
				want = exitUnavailable
			}
			if got := w.run(t, example); got.code != want {
				t.Errorf("%s: exit code %d, want %d\n%s%s", example, got.code, want, got.stdout, got.stderr)
			}
		}
	}
}

// The pages for newcomers name commands that there are, and the README all of
// them.
func TestThePagesNameTheCommandsThatThereAre(t *testing.T) {
	var known []string
	for _, node := range leaves(t) {
		name := strings.TrimPrefix(regexp.MustCompile(` \([^)]*\)`).ReplaceAllString(node.FullPath(), ""), "tierd ")
		name = strings.ReplaceAll(name, "namespaces ", "ns ")
		known = append(known, strings.TrimSuffix(name, " subject"))
	}
	for _, page := range []string{"README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		if page == "README.md" {
			for _, name := range known {
				if !strings.Contains(string(text), "`"+name+"`") {
					t.Errorf("the README does not name tierd %s", name)
				}
			}
		}
		code := strings.Join(regexp.MustCompile("(?s)```.*?```|`[^`]+`").FindAllString(string(text), -1), "\n")
		for _, m := range regexp.MustCompile("(?m)(?:`|^|\\$ |\\(|; )tierd ([a-z-]+)").FindAllStringSubmatch(code, -1) {
			if !slices.ContainsFunc(known, func(k string) bool { return k == m[1] || strings.HasPrefix(k, m[1]+" ") }) {
				t.Errorf("%s: there is no command tierd %s", page, m[1])
			}
		}
	}
}
