package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering/lifecycle"
)

// segmentsIn are the files of one copy's segments.
func segmentsIn(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "seg", "*.tseg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no segments in %s: %v", folder, err)
	}
	return files
}

func TestRecovery(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	run := func(args ...string) outcome {
		t.Helper()
		return execute(t, nil, "", append(args, "--data", data)...)
	}
	expect := func(what string, got outcome, code int, texts ...string) {
		t.Helper()
		if got.code != code {
			t.Errorf("%s: exit code %d, want %d: %+v", what, got.code, code, got)
		}
		for _, text := range texts {
			if !strings.Contains(got.stdout+got.stderr, text) {
				t.Errorf("%s: %+v lacks %q", what, got, text)
			}
		}
	}
	for _, args := range [][]string{{"verify"}, {"drill", "--from", "backup"}} {
		expect("without a store", run(args...), exitNotFound, "there is no store at")
	}
	d := start(t, data, nil)
	d.must("put", "notes/a", "--value", `{"n":1.10}`)
	d.must("put", "notes/a", "--value", `{"n":2}`)
	d.must("put", "notes/gone", "--value", "1")
	d.must("rm", "notes/gone")
	for _, args := range [][]string{{"verify"}, {"drill", "--from", "backup"}, {"rebuild", "--from", "backup"}} {
		expect("while a daemon runs", run(args...), exitUnavailable, "a daemon uses "+data+": stop it first")
	}
	d.stop()

	for _, depth := range []string{"list", "hash", "restore"} {
		expect("verify "+depth, run("verify", "--depth", depth), exitDone, "faults", "0, 0 repaired")
	}
	expect("an unknown depth", run("verify", "--depth", "deep"), exitUsage)
	file := segmentsIn(t, filepath.Join(data, "backup"))[0]
	damage := func() {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage()
	expect("a damaged copy", run("verify"), exitFailed, "bad", "backup", "1 things are wrong")
	expect("a drill from it", run("drill", "--from", "backup"), exitFailed, "damaged: seg/", "did not give back everything")
	expect("a drill from the other", run("drill", "--from", "primary"), exitDone, "differences", "0")
	got := run("verify", "--repair", "--json")
	var report lifecycle.VerifyReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != exitDone || report.Repaired != 1 {
		t.Errorf("a repair: %+v, %v", got, err)
	}
	expect("a drill after the repair", run("drill", "--from", "backup"), exitDone)

	expect("a store that is there", run("rebuild", "--from", "backup"), exitConflict, "warm.db is not empty", "move it aside")
	for _, f := range []string{"warm.db", "warm.db-wal", "warm.db-shm"} {
		if err := os.Remove(filepath.Join(data, f)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(data, "cold")); err != nil { // one bucket alone
		t.Fatal(err)
	}
	expect("without a bucket to take it from", run("rebuild"), exitUsage, "--from")
	expect("a rebuild", run("rebuild", "--from", "backup"), exitDone, "rebuilt from", "1 deletions", "default")
	d = start(t, data, nil)
	if got := d.must("get", "notes/a"); got != "{\"n\":2}\n" {
		t.Errorf("the document is %q", got)
	}
	if got := d.must("get", "notes/a", "--version", "1"); got != "{\"n\":1.10}\n" {
		t.Errorf("its history is %q", got)
	}
	if got := d.run("get", "notes/gone"); got.code != exitNotFound {
		t.Errorf("a deleted document came back: %+v", got)
	}
	if got := d.run("put", "notes/a", "--value", "3", "--if-version", "1"); got.code != exitConflict {
		t.Errorf("an old version is accepted: %+v", got)
	}
	d.stop()
	expect("what the daemon mended", run("verify", "--depth", "restore", "--repair"), exitDone)
}
