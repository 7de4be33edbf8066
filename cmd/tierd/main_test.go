package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/tiering"
)

// outcome is what one command line did.
type outcome struct {
	code           int
	stdout, stderr string
}

// invoke runs a command line inside the test, with env as its environment.
func invoke(t *testing.T, env []string, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), &process{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, environ: env}, args)
	return outcome{code, stdout.String(), stderr.String()}
}

// leaves returns every command that can be run.
func leaves(t *testing.T) []*kong.Node {
	t.Helper()
	parser, err := newParser(&commands{}, &process{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Leaves(true)
}

func TestEveryCommandSaysWhatItIsForWithAnExample(t *testing.T) {
	for _, node := range leaves(t) {
		if node.Help == "" || strings.Contains(node.Help, "\n") {
			t.Errorf("%s: help is %q, want one line", node.FullPath(), node.Help)
		}
		if !strings.Contains(node.Detail, "    ") || !strings.Contains(node.Detail, "Example") {
			t.Errorf("%s: no example in %q", node.FullPath(), node.Detail)
		}
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				if flag.Help == "" {
					t.Errorf("%s --%s: no help", node.FullPath(), flag.Name)
				}
			}
		}
	}
}

func TestServeHasAFlagForEverySetting(t *testing.T) {
	var serve *kong.Node
	for _, node := range leaves(t) {
		if node.Name == "serve" {
			serve = node
		}
	}
	flags := map[string]*kong.Flag{}
	for _, f := range serve.Flags {
		flags["--"+f.Name] = f
	}
	delete(flags, "--config")
	for _, s := range config.Settings() {
		if s.Of() != "" {
			continue
		}
		f := flags[s.Flag()]
		delete(flags, s.Flag())
		switch {
		case f == nil:
			t.Errorf("serve has no %s", s.Flag())
		case !strings.Contains(f.Help, "($"+s.Env()+")"):
			t.Errorf("%s: help %q does not name %s", s.Flag(), f.Help, s.Env())
		case !f.IsBool() && s.Default != "" && f.PlaceHolder != s.Default:
			t.Errorf("%s shows the default %q, it is %q", s.Flag(), f.PlaceHolder, s.Default)
		}
	}
	for name := range flags {
		t.Errorf("%s is no setting", name)
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"get", "--help"}, {"keys", "create", "-h"}, {"ns", "set", "--help"}} {
		got := invoke(t, nil, "", args...)
		if got.code != exitDone || !strings.HasPrefix(got.stdout, "Usage: tierd") || got.stderr != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.key")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string // part of stderr
	}{
		{"no such command", []string{"fetch"}, `there is no command "fetch"`},
		{"a mistyped command", []string{"rebiuld"}, `(did you mean "rebuild"?)`},
		{"a mistyped command of a group", []string{"keys", "lst"}, `there is no command "lst" (did you mean "ls"?) (see tierd keys --help)`},
		{"a flag before the command", []string{"--url", "http://h", "get", "a/b"}, "--url is a flag of the commands: write it after the command"},
		{"an empty list of verbs", []string{"keys", "create", "--verbs", ""}, "--verbs: there is nothing"},
		{"an empty list of namespaces", []string{"keys", "create", "--namespaces="}, "--namespaces: there is nothing"},
		{"a hole in a list", []string{"keys", "create", "--prefixes", "a,,b"}, "--prefixes: there is nothing"},
		{"a key for nobody", []string{"keys", "create", "--user", ""}, "--user: there is nothing"},
		{"a tenant through a daemon", []string{"keys", "create", "--tenant", "acme"}, "--tenant goes with --data"},
		{"a tenant that is none", []string{"keys", "create", "--data", "d", "--tenant", "A/B"}, "--tenant: "},
		{"a number in place of a file", []string{"put", "a/b", "17"}, "--value 17"},
		{"a folder in place of a file", []string{"export", "a", "-o", "/"}, "is a folder"},
		{"a policy with a life that is none", []string{"ns", "set", "a", `{"ttl":"x"}`}, `cannot be read: duration "x"`},
		{"no such flag", []string{"get", "a/b", "--versions", "1"}, "--version"},
		{"a key without an id", []string{"get", "agents"}, "write the namespace, a slash and the id"},
		{"a namespace in capitals", []string{"get", "Agents/a"}, "use a-z"},
		{"an id with an empty segment", []string{"rm", "agents/a//b"}, "segment"},
		{"nothing to put", []string{"put", "a/b"}, "say what to put once"},
		{"two things to put", []string{"put", "a/b", "-", "--value", "1"}, "say what to put once"},
		{"two conditions", []string{"put", "a/b", "--value", "1", "--if-absent", "--if-version", "1"}, "give one"},
		{"a negative version", []string{"put", "a/b", "--value", "1", "--if-version=-1"}, "0 or above"},
		{"a TTL of nothing", []string{"put", "a/b", "--value", "1", "--ttl", "0"}, "above 0"},
		{"a time that is none", []string{"get", "a/b", "--as-of", "yesterday"}, "2026-01-31"},
		{"a default that is no JSON", []string{"get", "a/b", "--default", "text"}, "text needs quotes"},
		{"nothing to edit", []string{"edit", "a/b"}, "say what to edit once"},
		{"an edit that is no JSON", []string{"edit", "a/b", "set:/x=text"}, `set:/x='"text"'`},
		{"operations with an unknown field", []string{"edit", "a/b", "--ops", `[{"op":"set","path":"/x"}]`}, `unknown field "path"`},
		{"a filter that is no JSON", []string{"query", "a", "status=x"}, "no JSON"},
		{"a session with a slash", []string{"sessions", "show", "a/b"}, "slashes"},
		{"a consumer with a slash", []string{"consumers", "rm", "a/b"}, "slashes"},
		{"a TTL that is over at once", []string{"put", "a/b", "--value", "1", "--ttl", "1ns"}, "1ms"},
		{"a limit of nothing", []string{"ls", "a", "--limit", "0"}, "use 1 or more"},
		{"a batch with an unknown field", []string{"batch", "-"}, "cannot be read"},
		{"a policy with an unknown field", []string{"ns", "set", "a", `{"tll":"1h"}`}, `unknown field "tll"`},
		{"a watch of no namespace", []string{"watch", "A"}, "use a-z"},
		{"a watch from nowhere", []string{"watch", "--from", "then"}, "start"},
		{"no concurrency", []string{"import", "-", "--concurrency", "0"}, "use 1 to 1024"},
		{"two ways to import", []string{"import", "-", "--if-absent", "--overwrite"}, "--overwrite"},
		{"an address that is none", []string{"get", "a/b", "--url", "localhost:8437"}, "http://"},
		{"a key file without a key", []string{"get", "a/b", "--api-key-file", empty}, "one key"},
		{"a faulty configuration", []string{"serve", "--warm", "mysql://h"}, "--warm: has no driver"},
		{"open to the network", []string{"serve", "--listen", "0.0.0.0:0"}, "--require-keys"},
		{"open to the network with keys in clear", []string{"config", "check", "--listen", ":0", "--require-keys"}, "without TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := invoke(t, nil, `[{"op":"put","key":"x"}]`, c.args...)
			if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || !strings.HasPrefix(got.stderr, "tierd: ") || got.stdout != "" {
				t.Errorf("%+v, want exit code 2 and %q", got, c.want)
			}
			got = invoke(t, nil, `[{"op":"put","key":"x"}]`, append(c.args, "--json")...)
			var p tiering.Problem
			if err := json.Unmarshal([]byte(got.stderr), &p); err != nil || p.Code != tiering.CodeInvalid || p.Detail == "" || got.code != exitUsage {
				t.Errorf("with --json %+v (%v)", got, err)
			}
		})
	}
}

// answering is a daemon that gives the same error to every request.
func answering(t *testing.T, e *tiering.Error) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(e.Status())
		if err := json.NewEncoder(w).Encode(tiering.ProblemOf(e)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestExitCodeOfEveryErrorCode(t *testing.T) {
	want := map[tiering.Code]int{
		tiering.CodeNotFound: exitNotFound, tiering.CodeGone: exitNotFound,
		tiering.CodeVersionConflict: exitConflict, tiering.CodeSeqConflict: exitConflict, tiering.CodePreconditionRequired: exitConflict,
		tiering.CodeWrongKind: exitConflict, tiering.CodeFenced: exitConflict, tiering.CodeLeaseHeld: exitConflict,
		tiering.CodeIdempotencyMismatch: exitConflict, tiering.CodeIdempotencyInFlight: exitConflict,
		tiering.CodeUnavailable: exitUnavailable, tiering.CodeRateLimited: exitUnavailable, tiering.CodeOutOfSpace: exitUnavailable,
		tiering.CodeInvalid: exitFailed, tiering.CodeUnsupported: exitFailed, tiering.CodeTooLarge: exitFailed,
		tiering.CodeUnauthenticated: exitFailed, tiering.CodeForbidden: exitFailed, tiering.CodeCorrupt: exitFailed,
	}
	for _, code := range tiering.Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			url := answering(t, tiering.Errorf(code, "because of the test"))
			exit, ok := want[code]
			if !ok {
				t.Fatal("the code has no exit code here")
			}
			got := invoke(t, nil, "", "get", "a/b", "--url", url)
			if got.code != exit || !strings.Contains(got.stderr, "because of the test") || !strings.Contains(got.stderr, "a/b") {
				t.Errorf("%+v, want exit code %d", got, exit)
			}
			got = invoke(t, nil, "", "get", "a/b", "--url", url, "--json")
			var p tiering.Problem
			if err := json.Unmarshal([]byte(got.stderr), &p); err != nil || p.Code != code || p.Status != code.Status() || got.code != exit {
				t.Errorf("with --json %+v (%v)", got, err)
			}
		})
	}
}

func TestErrorsSayWhereAndWhatNext(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *tiering.Error
		want []string
	}{
		{"a conflict names the version that stands", &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: 7}, []string{"version conflict", "version 7 stands now", "--if-version 7"}},
		{"a conflict with nothing", &tiering.Error{Code: tiering.CodeVersionConflict}, []string{"nothing stands", "--if-version 0"}},
		{"every fault of a body", &tiering.Error{Code: tiering.CodeInvalid, Unprocessable: true, Pointer: "/a", Faults: []tiering.Fault{{Pointer: "/a", Detail: "too short"}, {Pointer: "", Detail: "no name"}}}, []string{"(at /a)", "at /a: too short", "at the top: no name"}},
		{"the names beside a pointer", &tiering.Error{Code: tiering.CodeNotFound, Pointer: "/x", Siblings: []string{"plan", "step"}}, []string{"there is: plan, step"}},
		{"a missing key", &tiering.Error{Code: tiering.CodeUnauthenticated}, []string{"TIERD_API_KEY", "tierd keys create --data"}},
		{"a missing condition", &tiering.Error{Code: tiering.CodePreconditionRequired}, []string{"--if-version N"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := invoke(t, nil, "", "put", "a/b", "--value", "1", "--url", answering(t, c.err))
			for _, want := range c.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q lacks %q", got.stderr, want)
				}
			}
		})
	}
}

func TestNoDaemon(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	got := invoke(t, []string{"TIERD_URL=" + url}, "", "status")
	if got.code != exitUnavailable || !strings.Contains(got.stderr, "no daemon answers at "+url) || !strings.Contains(got.stderr, "tierd serve") {
		t.Errorf("%+v", got)
	}
}

func TestAPIKeyComesFromAFileOrTheEnvironment(t *testing.T) {
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "api.key")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"TIERD_URL=" + srv.URL, "TIERD_API_KEY=from-env"}
	for _, args := range [][]string{{"ls", "a", "--json"}, {"ls", "a", "--json", "--api-key-file", file}} {
		if got := invoke(t, env, "", args...); got.code != exitDone {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if !slices.Equal(seen, []string{"Bearer from-env", "Bearer from-file"}) {
		t.Errorf("the daemon saw %q", seen)
	}
}

func TestInterruptedIsNotUnavailable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	var stderr bytes.Buffer
	code := run(ctx, &process{stdout: &bytes.Buffer{}, stderr: &stderr}, []string{"get", "a/b", "--url", srv.URL})
	if code != exitFailed || stderr.String() != "tierd: interrupted\n" {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

// Errors of commands that open the tiers themselves never crossed HTTP.
func TestErrorsOfTheTiersSayWhatNext(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a damaged store", &tiering.Error{Op: "open", Tier: tiering.Warm, Code: tiering.CodeCorrupt, Detail: "warm.db is damaged"},
			"tierd: corrupt: warm.db is damaged\n  stop the daemon, move the store's files aside, and run tierd rebuild --from backup, or --from primary\n"},
		{"a code that the detail begins with", &tiering.Error{Code: tiering.CodeInvalid, Detail: "invalid: no bucket"}, "tierd: invalid: no bucket\n"},
		{"a namespace", &tiering.Error{Key: tiering.Key{Namespace: "a"}, Code: tiering.CodeNotFound}, "tierd: a: not found\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(c.err, ""); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestATextOfSeveralLinesStaysInItsRow(t *testing.T) {
	var out bytes.Buffer
	status := &tiering.NodeStatus{Parked: []tiering.ParkedMove{{Move: "replicate", Subject: "seg/1", Error: "primary: down\nbackup:\tdown"}}}
	if err := (&process{stdout: &out}).printStatus(status, status.Started); err != nil {
		t.Fatal(err)
	}
	if want := "primary: down; backup: down\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q does not end with %q", out.String(), want)
	}
}

func TestTheVersionIsWhatTheToolchainRecorded(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a release", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("false")}, "v1.2.3"},
		{"a clone", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("false")}, "devel-0123456789ab"},
		{"a clone with changes", debug.BuildInfo{Settings: vcs("true")}, "devel-0123456789ab-dirty"},
		{"nothing", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
	} {
		if got := recordedVersion(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
