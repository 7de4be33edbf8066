package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// A guard that an operation does not take would be a write without a guard: each of
// them is refused on each operation that does not list it, by its name and that of
// the route.
func TestNoGuardIsPassedOver(t *testing.T) {
	s := newTest(t, newFake(), withMetrics)
	h := s.Handler()
	names := strings.NewReplacer("{ns}", "runs", "{id...}", "a", "{id}", "a", "{name}", "n")
	values := map[string]string{"If-Match": `"7"`, "If-None-Match": "*", "Idempotency-Key": "k", "Tierd-Fence": "s/7"}
	refused := 0
	for _, op := range s.operations() {
		if op.id == "watch" { // its stream has no end
			continue
		}
		for _, name := range guardHeaders {
			request := op.method + " " + names.Replace(op.path) + "\n" + name + ": " + values[name]
			if op.body != nil {
				request += "\nContent-Type: " + op.body.media[0].kind + "\n\n{}"
			}
			r := exchange(h, request)
			body := bodyOf(t, r)
			listed := slices.ContainsFunc(op.headers, func(p param) bool { return p.name == name })
			read := op.method == http.MethodGet || op.method == http.MethodHead || op.id == "recall" || op.id == "queryDocuments"
			idle := read && (name == "If-None-Match" || name == "Idempotency-Key")
			told := r.Header.Get("Tierd-Code") == "unsupported" &&
				(op.method == http.MethodHead || strings.Contains(body, op.method+" "+op.path+" takes no "+name))
			if want := !listed && !idle; told != want {
				t.Errorf("%s with %s: %d %s, want it refused: %v", op.id, name, r.StatusCode, body, want)
			}
			if told {
				refused++
			}
		}
	}
	if refused < 60 {
		t.Errorf("only %d guards were refused", refused)
	}
}

// What is no token of one lease is no fence, and never taken for none.
func TestFencesThatSayNothingAreRefused(t *testing.T) {
	h := newTest(t, newFake(), nil).Handler()
	for _, fence := range []string{"", "s1", "s1/", "s1/0", "/7", "s1/7\nTierd-Fence: s2/8"} {
		if r := exchange(h, "PUT /v1/state/runs/a\nTierd-Fence: "+fence+"\n\n1"); r.StatusCode != 400 || tiering.Code(r.Header.Get("Tierd-Code")) != tiering.CodeInvalid {
			t.Errorf("Tierd-Fence: %q: %d %s", fence, r.StatusCode, bodyOf(t, r))
		}
	}
}
