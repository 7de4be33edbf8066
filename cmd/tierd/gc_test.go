package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering/lifecycle"
)

func TestGCOpensTheTiersItself(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if got := execute(t, nil, "", "gc", "--data", data); got.code != exitNotFound || !strings.Contains(got.stderr, "there is no store at") {
		t.Errorf("without a store: %+v", got)
	}
	d := start(t, data, nil)
	d.must("put", "notes/a", "--value", "1")
	if got := execute(t, nil, "", "gc", "--data", data); got.code != exitUnavailable || !strings.Contains(got.stderr, "stop it to run gc on its folder") {
		t.Errorf("while a daemon uses it: %+v", got)
	}
	d.stop()

	got := execute(t, nil, "", "gc", "--data", data)
	if got.code != exitDone || !strings.Contains(got.stdout, "segments rewritten") || !strings.Contains(got.stderr, "this was a dry run") {
		t.Errorf("a dry run: %+v", got)
	}
	for _, run := range []bool{false, true} {
		args := []string{"gc", "--data", data, "--json"}
		if run {
			args = append(args, "--run")
		}
		got := execute(t, nil, "", args...)
		var report lifecycle.GCReport
		if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != exitDone || report.DryRun == run {
			t.Errorf("--run %v: %+v, %v", run, got, err)
		}
	}
}
