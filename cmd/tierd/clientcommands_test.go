package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A day with the client commands against one daemon: each line is what is typed
// and what comes of it. Outputs are patterns; times are left to them.
func TestClientCommands(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	for _, step := range []struct {
		args  string // split at |
		stdin string
		code  int
		want  string // a pattern for the whole of stdout
	}{
		{"put|agents/planner|--value|{\"step\": 1, \"cost\": 1.10}", "", 0, `created agents/planner version 1\n`},
		{"get|agents/planner", "", 0, `\{"step":1,"cost":1\.10\}\n`},
		{"put|agents/planner|-|--if-version|1", `{"step":2,"cost":1.10}`, 0, `replaced agents/planner version 2\n`},
		{"put|agents/planner|--value|1|--if-version|1", "", 4, ``},
		{"put|agents/planner|--value|1|--if-absent", "", 4, ``},
		{"patch|agents/planner|{\"note\":\"<&>\"}", "", 0, `patched agents/planner version 3\n`},
		{"patch|agents/planner|-|--json-patch", `[{"op":"test","path":"/step","value":2},{"op":"remove","path":"/cost"}]`, 0, `patched agents/planner version 4\n`},
		{"edit|agents/planner|increment:/step=5|append:/log=\"x\"", "", 0, `edited agents/planner version 5\n  /step = 7\n  /log = \["x"\]\n`},
		{"edit|agents/planner|--ops|[{\"op\":\"remove\",\"pointer\":\"/log\"}]", "", 0, `edited agents/planner version 6\n  /log = null\n`},
		{"get|agents/planner|--strong", "", 0, `\{"step":7,"note":"<&>"\}\n`},
		{"get|agents/planner|--pointer|/note", "", 0, `"<&>"\n`},
		{"get|agents/planner|--pointer|/nope", "", 3, ``},
		{"get|agents/planner|--version|1", "", 0, `\{"step":1,"cost":1\.10\}\n`},
		{"get|agents/planner|--as-of|1h", "", 3, ``},
		{"get|agents/absent", "", 3, ``},
		{"get|agents/absent|--default|{\"none\":true}", "", 0, `\{"none":true\}\n`},
		{"diff|agents/planner|5|6", "", 0, `(?s)OP +POINTER +VALUE\nremove +/log\n`},
		{"diff|agents/planner|6|6", "", 0, `no difference\n`},
		{"versions|agents/planner|--limit|2", "", 0, `VERSION +OP +SIZE +CREATED +TIER +DIGEST\n6 +put .*\n5 +put .*\n`},
		{"rollback|agents/planner|1", "", 0, `brought back version 1 as agents/planner version 7\n`},
		{"get|agents/planner", "", 0, `\{"step":1,"cost":1\.10\}\n`},
		{"explain|agents/planner", "", 0, `(?s)document +agents/planner\nstate +live\nversion +7\n.*TIER +COPY +STATE +VERSION +WHERE\nhot .*\nwarm .*`},
		{"touch|agents/planner|--ttl|2h", "", 0, `touched agents/planner version 7\n`},
		{"touch|agents/planner|--ttl|2h|--exact", "", 0, `touched agents/planner version 7, expires \S+Z\n`},
		{"touch|agents/planner|--ttl|none|--exact", "", 0, `touched agents/planner version 7.*\n`},
		{"pin|agents/planner", "", 0, `pinned agents/planner version 7.*\n`},
		{"unpin|agents/planner", "", 0, `unpinned agents/planner version 7.*\n`},
		{"put|agents/writer/draft|--value|{\"step\":9}|--user|ann|--idempotency-key|k1", "", 0, `created agents/writer/draft version 1\n`},
		{"put|agents/writer/draft|--value|{\"step\":9}|--user|ann|--idempotency-key|k1", "", 0, `created agents/writer/draft version 1 \(replayed.*\)\n`},
		{"ls|agents", "", 0, `ID +VERSION +SIZE +UPDATED +EXPIRES +USER\nplanner +7 .*\nwriter/draft +1 .* ann\n`},
		{"ls|agents|--user|ann|--data", "", 0, `ID .*\nwriter/draft .*\{"step":9\}\n`},
		{"ls|agents|--prefix|plan", "", 0, `ID .*\nplanner .*\n`},
		{"query|agents|{\"step\":{\"$gt\":5}}", "", 0, `ID .*DATA\nwriter/draft .*\{"step":9\}\n`},
		{"query|agents|-|--order-by=-/step|--limit|1", `{}`, 0, `ID .*\nwriter/draft .*\n`},
		{"query|agents|{\"step\":{\"$near\":5}}", "", 1, ``},
		{"batch|-|--atomic", `[{"op":"check","namespace":"agents","id":"planner","if_version":7},{"op":"put","namespace":"agents","id":"b","data":1}]`, 0, `# +OP +KEY +STATUS +RESULT\n0 +check .*\n1 +put +agents/b +201 +version 1\n`},
		{"batch|-", `{"ops":[{"op":"get","namespace":"agents","id":"absent"},{"op":"get","namespace":"agents","id":"b"}]}`, 3, `# .*\n0 +get +agents/absent +404 .*\n1 +get +agents/b +200 +version 1 1\n`},
		{"batch|-|--atomic", `[{"op":"put","namespace":"agents","id":"c","data":1},{"op":"put","namespace":"agents","id":"b","data":2,"if_version":9}]`, 4, ``},
		{"get|agents/c", "", 3, ``},
		{"rm|agents/b", "", 0, `deleted agents/b version 2\n`},
		{"rm|agents/never", "", 0, `nothing stood at agents/never: nothing was deleted\n`},
		{"put|agents/list|[1, 2]", "", 0, `created agents/list version 1\n`},
		{"put|agents/list|{\"n\":1", "", 1, ``},
		{"export|unknown", "", 3, ``},
		{"export|agents|--prefix|none", "", 0, ``},
		{"ls|unknown", "", 0, `ID .*\n`},
		{"ns|set|sessions|{\"class\":\"session\",\"ttl\":\"2h\"}", "", 0, `(?s)\{\n  "name": "sessions",\n  "version": 1,.*"ttl": "2h".*`},
		{"ns|set|sessions|--merge|{\"ttl\":\"3h\"}|--if-version|1", "", 0, `(?s).*"version": 2,.*"ttl": "3h".*`},
		{"ns|get|sessions|--json", "", 0, `\{"name":"sessions","version":2,.*\}\n`},
		{"namespaces|ls", "", 0, `NAME +KIND .*\nagents +state +persistent .*\nsessions +state +session +3h .*\n`},
		{"ns|rm|agents", "", 4, ``},
		{"ns|rm|sessions", "", 0, `deleted namespace sessions\n`},
		{"status", "", 0, `(?s)tierd +\S+\nstate +ready\n.*TIER +DRIVER .*\nhot .*ok\nwarm .*ok\ncold .*ok\ncold .*ok\n`},
	} {
		args := strings.Split(step.args, "|")
		got := invoke(t, []string{"TIERD_URL=" + d.url}, step.stdin, args...)
		if got.code != step.code || !regexp.MustCompile(`^`+step.want+`$`).MatchString(got.stdout) {
			t.Errorf("tierd %s: exit code %d, want %d; printed\n%s%s\nwant\n%s", strings.Join(args, " "), got.code, step.code, got.stdout, got.stderr, step.want)
		}
	}
}

func TestJSONIsTheAPIsAnswer(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	d.must("put", "a/x", "--value", `{"n":1.10,"html":"<&>"}`)
	for _, c := range []struct {
		args  string
		field string
		want  string
	}{
		{"get a/x", "data", `{"n":1.10,"html":"<&>"}`},
		{"put a/x --value 1 --if-version 1", "version", "2"},
		{"ls a", "items", ""}, {"query a {}", "items", ""}, {"versions a/x", "versions", ""}, {"explain a/x", "copies", ""},
		{"edit a/y set:/k=true", "values", "[true]"}, {"rm a/y", "version", "2"}, {"touch a/x --ttl 1h", "version", "2"},
		{"ns ls", "items", ""}, {"ns get a", "name", `"a"`}, {"keys ls", "items", "[]"}, {"status", "tiers", ""}, {"version", "version", ""},
	} {
		var fields map[string]json.RawMessage
		out := d.must(append(strings.Fields(c.args), "--json")...)
		if err := json.Unmarshal([]byte(out), &fields); err != nil || fields[c.field] == nil || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %s (%v) has no %s", c.args, out, err, c.field)
		}
		if c.want != "" && string(fields[c.field]) != c.want {
			t.Errorf("%s: %s is %s, want %s", c.args, c.field, fields[c.field], c.want)
		}
	}
}

func TestListingsPageByThemselves(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	var lines []string
	for i := range 1100 {
		lines = append(lines, `{"namespace":"n","id":"k`+itoa(10000+i)+`","data":`+itoa(i)+`}`)
	}
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.must("import", file); got != "created 1100, replaced 0, already there 0, skipped 0, expired 0, failed 0\n" {
		t.Fatalf("%s", got)
	}
	type page struct {
		Items      []struct{ ID string }
		NextCursor string `json:"next_cursor"`
	}
	list := func(args ...string) (p page) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.must(append([]string{"ls", "n", "--json"}, args...)...)), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := list("--all"); len(p.Items) != 1100 || p.NextCursor != "" || p.Items[1099].ID != "k11099" {
		t.Errorf("--all has %d, then %q", len(p.Items), p.NextCursor)
	}
	p := list("--limit", "1050")
	if len(p.Items) != 1050 || p.NextCursor == "" {
		t.Fatalf("--limit 1050 has %d, then %q", len(p.Items), p.NextCursor)
	}
	if rest := list("--cursor", p.NextCursor); len(rest.Items) != 50 || rest.Items[0].ID != "k11050" {
		t.Errorf("behind the cursor are %d", len(rest.Items))
	}
	if got := d.run("ls", "n"); strings.Count(got.stdout, "\n") != 101 || !strings.Contains(got.stderr, "--all") {
		t.Errorf("a cut listing says %q", got.stderr)
	}

	// What export writes, import takes, byte for byte.
	out := filepath.Join(t.TempDir(), "out.jsonl")
	d.must("export", "n", "--output", out)
	d.must("import", out, "--namespace", "copy")
	if a, b := d.must("export", "n"), d.must("export", "copy"); strings.ReplaceAll(a, `"namespace":"n"`, `"namespace":"copy"`) != b {
		t.Error("the copy differs from what was exported")
	}
	if got := d.must("import", out); !strings.HasPrefix(got, "created 0, replaced 0, already there 1100,") {
		t.Errorf("again: %s", got)
	}
}

func TestAFailedBatchNamesTheOperation(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	d.must("put", "a/x", "--value", "1")
	file := filepath.Join(t.TempDir(), "batch.json")
	ops := `[{"op":"put","namespace":"a","id":"y","data":1},{"op":"put","namespace":"a","id":"x","data":2,"if_version":9}]`
	if err := os.WriteFile(file, []byte(ops), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"batch", file}, {"batch", file, "--atomic"}} {
		got := d.run(args...)
		if got.code != exitConflict || !strings.Contains(got.stderr, "operation 1 (put a/x): ") || !strings.Contains(got.stderr, `version 1 stands now`) ||
			!strings.Contains(got.stderr, `"if_version":1`) || strings.Contains(got.stderr, "--if") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestAnUnknownNamespaceIsTold(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	d.must("put", "known/x", "--value", "1")
	d.must("rm", "known/x")
	for _, args := range [][]string{{"ls", "unknown"}, {"query", "unknown", "{}"}} {
		if got := d.run(args...); got.code != exitDone || !strings.Contains(got.stderr, "there is no namespace unknown yet") {
			t.Errorf("%v: %+v", args, got)
		}
		args[1] = "known"
		if got := d.run(args...); got.code != exitDone || got.stderr != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	got := d.run("export", "unknown", "-o", filepath.Join(t.TempDir(), "out.jsonl"))
	if got.code != exitNotFound || !strings.Contains(got.stderr, "unknown") {
		t.Errorf("export: %+v", got)
	}
}
