package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Browsers on this machine reach a loopback port for whatever page they show.
func TestPagesOfOthersDoNotGetInWithoutKeys(t *testing.T) {
	f := newFake()
	h := newTest(t, f, func(o *Options) { o.LocalHosts = true }).Handler()
	for _, c := range []struct {
		name, method, host, origin string
		status                     int
	}{
		{"an address", "GET", "127.0.0.1:8437", "", 200},
		{"all of 127", "GET", "127.8.8.8", "", 200},
		{"IPv6", "GET", "[::1]:8437", "", 200},
		{"IPv6 without a port", "GET", "[::1]", "", 200},
		{"localhost", "GET", "LocalHost:1", "", 200},
		{"below localhost", "GET", "tierd.localhost:1", "", 200},
		{"a name that means loopback now", "GET", "evil.example:8437", "", 403},
		{"one that begins like loopback", "GET", "127.0.0.1.evil.example", "", 403},
		{"one that ends like localhost", "GET", "evillocalhost", "", 403},
		{"another address", "GET", "192.0.2.1:8437", "", 403},
		{"none", "GET", "", "", 403},
		{"a write of the node's own page", "PUT", "127.0.0.1:8437", "http://127.0.0.1:8437", 201},
		{"a write of another page", "PUT", "127.0.0.1:8437", "http://evil.example", 403},
		{"a write of a rebound page", "PUT", "evil.example:8437", "http://evil.example:8437", 403},
		{"a write of no page", "PUT", "localhost:8437", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := "/v1/status"
			if c.method == "PUT" {
				path = "/v1/state/runs/a"
			}
			r := httptest.NewRequest(c.method, path, strings.NewReader("1"))
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || w.Code >= 400 && w.Header().Get("Content-Type") != problemType {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.status)
			}
			if c.host != "" && w.Code == http.StatusForbidden && c.origin == "" && !strings.Contains(w.Body.String(), "http://127.0.0.1:PORT") {
				t.Errorf("the answer does not say what to do: %s", w.Body)
			}
		})
	}
}

// The directory and the mux are built from one table, and send a request to the same
// operation, whichever is asked.
func TestTheDirectoryAgreesWithTheMux(t *testing.T) {
	s := newTest(t, newFake(), nil)
	known := 0
	for _, op := range s.operations() {
		if !op.onDocument() {
			continue
		}
		path := strings.Replace(strings.Replace(op.path, "{ns}", "runs", 1), "{id...}", "run/7", 1)
		got, ns, id := s.direct.find(op.method, path)
		if got == nil || got.id != op.id || ns != "runs" || id != "run/7" {
			t.Errorf("%s %s leads to %+v, %q, %q", op.method, path, got, ns, id)
		}
		if _, pattern := s.mux.Handler(httptest.NewRequest(op.method, path, nil)); pattern != op.method+" "+op.path {
			t.Errorf("%s %s: the mux has %q", op.method, path, pattern)
		}
		known++
	}
	if known == 0 || known != len(s.direct) {
		t.Errorf("%d operations on a document, %d in the directory", known, len(s.direct))
	}
	for _, path := range []string{"/", "/v1", "/v1/state", "/v1/state/runs", "/v2/state/runs/run", "/v1/status/a/b", "/docs"} {
		if op, _, _ := s.direct.find("GET", path); op != nil {
			t.Errorf("%s leads to %s", path, op.id)
		}
	}
}
