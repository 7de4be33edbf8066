package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// Moving a document by hand, and what explain says about it.
func TestMovesByHand(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	d.must("put", "agents/planner", "--value", `{"step":1}`)
	for _, step := range []struct {
		args string
		code int
		want string // a pattern for stdout and stderr
	}{
		{"demote agents/planner", 0, `demoted agents/planner version 1, now in cold primary, cold backup\n`},
		{"demote agents/planner", 0, `demoted agents/planner version 1, now in cold primary, cold backup\n`},
		{"explain agents/planner", 0, `(?s)document .*\nhot +- +absent .*\nwarm +- +absent .*\ncold +primary +verified .*`},
		{"versions agents/planner", 0, `VERSION .*\n1 +put .* cold .*\n`},
		{"get agents/planner", 0, `\{"step":1\}\n`},
		{"demote agents/planner", 0, `demoted .*\n`},
		{"promote agents/planner", 0, `promoted agents/planner version 1, now in warm, cold primary, cold backup\n`},
		{"pin agents/planner", 0, `pinned .*\n`},
		{"explain agents/planner", 0, `(?s).*\nnext +demote at \S+, blocked: pinned\n.*`},
		{"demote agents/planner", 4, `tierd: agents/planner: wrong kind: the document is pinned: lift the pin first\n`},
		{"demote agents/nobody", 3, `tierd: agents/nobody: not found: .*\n`},
		{"promote agents/nobody", 3, `tierd: agents/nobody: not found: .*\n`},
		{"confirm-clock", 0, `the clock is taken as right\n`},
	} {
		got := d.run(strings.Fields(step.args)...)
		if out := got.stdout + got.stderr; got.code != step.code || !regexp.MustCompile(`^`+step.want+`$`).MatchString(out) {
			t.Errorf("tierd %s: exit code %d, want %d; printed\n%s\nwant\n%s", step.args, got.code, step.code, out, step.want)
		}
	}
}

// Erasing from the command line: a dry run first, then for good. Nothing below
// the data folder holds the subject when the command says that it is done.
func TestEraseFromTheCommandLine(t *testing.T) {
	data := t.TempDir()
	d := start(t, data, nil)
	for _, id := range []string{"SUBJECT/1", "SUBJECT/2", "bob"} {
		user := strings.ToUpper(strings.Split(id, "/")[0])
		d.must("put", "notes/"+id, "--value", `{"text":"`+user+`"}`, "--user", user, "--idempotency-key", user+id)
	}
	d.must("put", "prefs/p", "--value", `{"text":"SUBJECT"}`, "--user", "SUBJECT")
	d.must("demote", "notes/SUBJECT/1")
	d.must("demote", "notes/bob")

	dry := d.run("erase", "notes/SUBJECT/1")
	if want := `state +planned\ndocuments +1\nversions in warm +0, 0 B\nsegments to rewrite +1\n`; dry.code != 0 || !regexp.MustCompile(`^`+want+`$`).MatchString(dry.stdout) || !strings.Contains(dry.stderr, "--run") {
		t.Errorf("a dry run: %+v", dry)
	}
	d.must("get", "notes/SUBJECT/1")

	done := `receipt +(\S+)\nstate +done\ndocuments +%\nversions in warm .*\nsubject +hmac-sha256:\S+\n`
	for _, c := range []struct{ args, keys string }{
		{"erase notes/SUBJECT/1 --run", "1"}, {"erase --prefix notes/SUB --run --wait", "1"}, {"erase --user SUBJECT --run --wait", "1"},
	} {
		pattern := regexp.MustCompile(`^` + strings.Replace(done, "%", c.keys, 1) + `$`)
		out := d.must(strings.Fields(c.args)...)
		m := pattern.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("%s prints\n%s", c.args, out)
		}
		if again := d.must("erase", "status", m[1]); again != out {
			t.Errorf("the receipt says\n%swas\n%s", again, out)
		}
	}
	for _, key := range []string{"notes/SUBJECT/1", "notes/SUBJECT/2", "prefs/p"} {
		if got := d.run("get", key); got.code != exitNotFound {
			t.Errorf("%s: %+v", key, got)
		}
	}
	if places := below(t, data, "SUBJECT"); len(places) > 0 {
		t.Errorf("the subject is in %v", places)
	}
	if got := d.must("get", "notes/bob"); got != `{"text":"BOB"}`+"\n" {
		t.Errorf("the other document is %s", got)
	}
	var r tiering.EraseReceipt
	if err := json.Unmarshal([]byte(d.must("erase", "--user", "nobody", "--json")), &r); err != nil || r.State != "planned" || r.Keys != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEraseIsAskedForRight(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"erase", "say what to erase once"},
		{"erase notes/a --user ann", "say what to erase once"},
		{"erase --prefix notes", "no NS/PREFIX"},
		{"erase --prefix notes/", "no NS/PREFIX"},
		{"erase --prefix Notes/a", "use a-z"},
		{"erase status", "receipt"},
	} {
		if got := invoke(t, nil, "", strings.Fields(c.args)...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("tierd %s: %+v, want exit code 2 and %q", c.args, got, c.want)
		}
	}
}

// below returns the files below a folder that hold the word, segments unpacked.
func below(t *testing.T, folder, word string) (places []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data))); err == nil {
			for r, err := range s.Records() {
				if err != nil {
					return err
				}
				data = append(data, r.Key.String()+r.User+string(r.Body)...)
			}
		}
		if bytes.Contains(data, []byte(word)) || strings.Contains(e.Name(), word) {
			places = append(places, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return places
}
