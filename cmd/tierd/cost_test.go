package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/internal/cost"
)

func TestCost(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if got := execute(t, nil, "", "cost", "--data", data); got.code != exitNotFound || !strings.Contains(got.stderr, "there is no store at") {
		t.Errorf("without a store: %+v", got)
	}
	d := start(t, data, nil)
	if got := execute(t, nil, "", "cost", "--data", data); got.code != exitUnavailable || !strings.Contains(got.stderr, "a daemon uses "+data) {
		t.Errorf("while a daemon uses it: %+v", got)
	}
	d.stop()
	estimate := func(args ...string) (e cost.Estimate) {
		t.Helper()
		got := execute(t, nil, "", append([]string{"cost", "--data", data, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || got.code != exitDone {
			t.Fatalf("%v: %+v, %v", args, got, err)
		}
		return e
	}
	if e := estimate(); e.Now.InHot != 0 || len(e.Namespaces) != 0 || !strings.Contains(strings.Join(e.Assumptions, "\n"), "the store is empty") {
		t.Errorf("an empty store: %+v", e)
	}

	d = start(t, data, nil)
	d.must("put", "notes/a", "--value", `{"text":"window"}`)
	d.must("put", "notes/a", "--value", `{"text":"aisle"}`)
	d.must("ns", "set", "cache", `{"class":"ephemeral"}`)
	d.stop()
	got := execute(t, nil, "", "cost", "--data", data)
	for _, part := range []string{"EVERYTHING IN HOT", "EVERYTHING IN WARM", "backup", "notes", "younger than a day", "ephemeral documents are in hot alone: cache"} {
		if got.code != exitDone || !strings.Contains(got.stdout, part) {
			t.Errorf("the table lacks %q: %+v", part, got)
		}
	}
	plain := estimate()
	if plain.Now.Total <= 0 || plain.Pace.Versions < 2 || plain.Prices != cost.Defaults() {
		t.Errorf("%+v", plain)
	}
	if e := estimate("--prices", "put=0,get=0"); e.Now.Tiers[2].Requests != 0 || e.Now.Tiers[2].Storage != plain.Now.Tiers[2].Storage {
		t.Errorf("free requests: %+v", e)
	}
	for flag, part := range map[string]string{"--prices=ice=1": "no price", "--days=0": "use 1 or more"} {
		if got := execute(t, nil, "", "cost", "--data", data, flag); got.code != exitUsage || !strings.Contains(got.stderr, part) {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}
