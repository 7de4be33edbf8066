package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigShowNamesEachSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tierd.yaml")
	if err := os.WriteFile(file, []byte("log_level: debug\nhot: redis://file\nwarm: postgres://u:s3cret@db/tierd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"TIERD_CONFIG=" + file, "TIERD_HOT=redis://:s3cret@env", "TIERD_BACKUP=s3://env"}
	got := invoke(t, env, "", "config", "show", "--json", "--backup", "s3://flag", "--no-auto-create", "--require-keys")
	if got.code != exitDone || strings.Contains(got.stdout, "s3cret") {
		t.Fatalf("%+v", got)
	}
	var shown struct {
		File     string
		Settings []struct{ Setting, Value, Source string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &shown); err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"listen":       {"127.0.0.1:8437", "default"},
		"log_level":    {"debug", file + ":1"},
		"warm":         {"postgres://***@db/tierd", file + ":3"},
		"hot":          {"redis://***@env", "TIERD_HOT"},
		"backup":       {"s3://flag", "--backup"},
		"auto_create":  {"false", "--auto-create"},
		"require_keys": {"true", "--require-keys"},
	}
	for _, s := range shown.Settings {
		if w, ok := want[s.Setting]; ok && w != [2]string{s.Value, s.Source} {
			t.Errorf("%s is %q from %q, want %q", s.Setting, s.Value, s.Source, w)
		}
		delete(want, s.Setting)
	}
	if len(want) > 0 || shown.File != file {
		t.Errorf("not shown: %v; file %q", want, shown.File)
	}
}

func TestConfigCheckListsEveryFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tierd.yaml")
	if err := os.WriteFile(file, []byte("hott: redis://file\nlog_level: loud\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"TIERD_CONFIG=" + file, "TIERD_HOT_BYTES=many", "TIERD_WRAM=sqlite:"}
	got := invoke(t, env, "", "config", "check", "--cold", "ftp://x", "--data", t.TempDir())
	for _, want := range []string{
		"tierd: warning: TIERD_WRAM:", file + ":1: unknown key", file + ":2: log_level", "TIERD_HOT_BYTES: use a size", "--cold: has no driver",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q lacks %q", got.stderr, want)
		}
	}
	if got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	}
	var report struct {
		OK               bool
		Faults, Warnings []struct{ Source, Detail string }
	}
	got = invoke(t, env, "", "config", "check", "--cold", "ftp://x", "--data", t.TempDir(), "--json")
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || report.OK || len(report.Faults) != 4 || len(report.Warnings) != 1 {
		t.Errorf("%+v: %+v (%v)", got, report, err)
	}
}

func TestConfigCheckOfGoodSettings(t *testing.T) {
	got := invoke(t, []string{"TIERD_API_KEY=x", "TIERD_URL=http://h"}, "", "config", "check", "--data", t.TempDir())
	if want := (outcome{exitDone, "the configuration is good\n", ""}); got != want {
		t.Errorf("%+v", got)
	}
}
