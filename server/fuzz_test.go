package server

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// FuzzRequest sends any request through the whole handler. Whatever it is, the
// answer is no redirect and no 500, and every error is a problem.
func FuzzRequest(f *testing.F) {
	fk := newFake()
	h := newTest(f, fk, func(o *Options) {
		o.MaxBody = 1 << 16
		o.As = func(tiering.Principal) tiering.Service { return fk }
	}).Handler()
	for _, seed := range [][5]string{
		{"PUT", "/v1/state/runs/a%2Fb", "ttl=30m&user=ada", `If-Match: "3"`, `{"a":1.10}`},
		{"GET", "/v1/state/runs/a", "as_of=2026-01-31T12:00:00Z&pointer=/a&default=1", `If-None-Match: W/"1", "x"`, ""},
		{"GET", "/v1/state/runs", "limit=5&include=data", "", ""},
		{"PATCH", "/v1/state/runs/../a", "", "Content-Type: application/merge-patch+json", `{}`},
		{"POST", "/v1/batch", "", "Idempotency-Key: k", `{"ops":[{"op":"put","namespace":"n","id":"i","data":1}]}`},
		{"POST", "/v1/edit/runs/a", "", "", `{"ops":[{"op":"increment","pointer":"/a","by":1}]}`},
		{"PUT", "/v1/namespaces/runs", "", "", `{"class":"session","ttl":"2h"}`},
		{"DELETE", "/v1/pin/runs", "id=a", "", ""},
		{"CONNECT", "", "", "Authorization: Bearer x", ""},
		{"HEAD", "/v1/watch", "id=a&namespace=runs", "Last-Event-ID: e.1", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, method, path, rawQuery, header, body string) {
		u, err := url.Parse("http://h" + path)
		if err != nil || u.Host != "h" || method == "" || strings.ContainsAny(method, " \t\r\n") {
			return // net/http refuses it before any handler
		}
		u.RawQuery = rawQuery
		if method == "GET" && u.Path == "/v1/watch" {
			return // a stream has no end to wait for
		}
		r := httptest.NewRequest("GET", "/", strings.NewReader(body))
		r.Method, r.URL = method, u
		if name, value, ok := strings.Cut(header, ":"); ok {
			r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
		w := httptest.NewRecorder()
		start := time.Now()
		h.ServeHTTP(w, r)
		res := w.Result()
		if res.StatusCode == 500 || res.StatusCode/100 == 3 && res.StatusCode != 304 {
			t.Fatalf("%s %s: %d %s", method, u, res.StatusCode, w.Body)
		}
		if time.Since(start) > 5*time.Second {
			t.Fatalf("%s %s took %s", method, u, time.Since(start))
		}
		if res.StatusCode >= 400 && method != "HEAD" {
			var p tiering.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != res.StatusCode || p.Code == "" {
				t.Fatalf("%s %s: %d without its problem: %s", method, u, res.StatusCode, w.Body)
			}
		}
	})
}
