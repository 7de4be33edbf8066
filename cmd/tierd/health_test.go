package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHealthOfADaemonThatRequiresKeysNeedsNone(t *testing.T) {
	d := start(t, t.TempDir(), nil, "--require-keys")
	if got := execute(t, nil, "", "health", "--url", d.url); got.code != exitDone || got.stdout != "ready\n" {
		t.Errorf("%+v", got)
	}
	if got := execute(t, nil, "", "health", "--json", "--url", d.url); got.code != exitDone || got.stdout != `{"status":"ready"}`+"\n" {
		t.Errorf("%+v", got)
	}
	d.stop()
	if got := execute(t, nil, "", "health", "--url", d.url); got.code != exitUnavailable || !strings.Contains(got.stderr, "no daemon answers at") {
		t.Errorf("after the daemon ended: %+v", got)
	}
}

func TestHealthSaysWhyADaemonCannotServeAndAsksOnce(t *testing.T) {
	asked := 0
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"code":"unavailable","detail":"the warm tier does not answer"}`)
	}))
	defer daemon.Close()
	began := time.Now()
	got := execute(t, nil, "", "health", "--url", daemon.URL)
	if got.code != exitUnavailable || !strings.Contains(got.stderr, "the warm tier does not answer") {
		t.Errorf("%+v", got)
	}
	if asked != 1 || time.Since(began) > 10*time.Second {
		t.Errorf("asked %d times in %s", asked, time.Since(began))
	}
}
