package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// newTest returns a server over f; set may change its options.
func newTest(t testing.TB, f *fake, set func(*Options)) *Server {
	t.Helper()
	o := Options{As: func(tiering.Principal) tiering.Service { return f }, Version: "test"}
	if set != nil {
		set(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exchange sends "METHOD target", header lines, an empty line and a body, and
// returns the answer.
func exchange(h http.Handler, request string) *http.Response {
	head, body, _ := strings.Cut(request, "\n\n")
	lines := strings.Split(head, "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ":")
		r.Header.Add(name, strings.TrimPrefix(value, " "))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNewNeedsAs(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Fatal("New without As succeeded")
	}
}

func TestEncodedSlashIsASlash(t *testing.T) {
	h := newTest(t, newFake(), nil).Handler()
	if r := exchange(h, "PUT /v1/state/runs/a%2Fb\n\n[1.10]"); r.StatusCode != 201 {
		t.Fatalf("put: %d %s", r.StatusCode, bodyOf(t, r))
	}
	for _, target := range []string{"/v1/state/runs/a/b", "/v1/state/runs/a%2fb", "/v1/state/runs?id=a/b", "/v1/state/runs?id=a%2Fb"} {
		r := exchange(h, "GET "+target)
		if got := bodyOf(t, r); r.StatusCode != 200 || got != "[1.10]" {
			t.Errorf("GET %s: %d %s, want the bytes of a/b", target, r.StatusCode, got)
		}
	}
}
