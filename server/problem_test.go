package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	for _, code := range tiering.Codes() {
		t.Run(string(code), func(t *testing.T) {
			f := newFake()
			f.fail = &tiering.Error{Code: code, Detail: "why", Err: errors.New("secret cause")}
			r := exchange(newTest(t, f, nil).Handler(), "GET /v1/state/runs/a")
			body := bodyOf(t, r)
			var p tiering.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if r.StatusCode != code.Status() || p.Status != code.Status() || p.Code != code || r.Header.Get("Tierd-Code") != string(code) {
				t.Errorf("status %d, problem %+v, want %d %s", r.StatusCode, p, code.Status(), code)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("the cause leaked: %s", body)
			}
			if r.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
			}
			again := r.StatusCode == 429 || r.StatusCode == 503
			if got := r.Header.Get("Retry-After"); again != (got != "") {
				t.Errorf("Retry-After %q", got)
			}
		})
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	f := newFake()
	f.fail = &tiering.Error{Code: tiering.CodeUnavailable, RetryAfter: 2100 * time.Millisecond}
	r := exchange(newTest(t, f, nil).Handler(), "GET /v1/state/runs/a")
	if got := r.Header.Get("Retry-After"); got != "3" {
		t.Errorf("Retry-After %q, want 3", got)
	}
}

func TestForeignErrorsAndPanicsAreA500ThatSaysNothing(t *testing.T) {
	for name, svc := range map[string]*fake{"foreign error": {fail: errors.New("secret cause")}, "panic": nil} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			h := newTest(t, nil, func(o *Options) {
				o.As = func(tiering.Principal) tiering.Service { return svc } // a nil *fake panics when it is used
				o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			}).Handler()
			r := exchange(h, "GET /v1/state/runs/a")
			body := bodyOf(t, r)
			if r.StatusCode != 500 || !strings.Contains(body, `"detail":"internal error"`) || strings.Contains(body, "secret") {
				t.Errorf("%d %s", r.StatusCode, body)
			}
			if !strings.Contains(logged.String(), "level=ERROR") {
				t.Errorf("nothing at error level: %s", logged.String())
			}
			if svc != nil && !strings.Contains(logged.String(), "secret cause") {
				t.Errorf("the cause is not in the log: %s", logged.String())
			}
		})
	}
}

func TestRequestsAreLoggedAtDebug(t *testing.T) {
	var logged bytes.Buffer
	h := newTest(t, newFake(), func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}).Handler()
	exchange(h, "GET /v1/state/runs/a\nAuthorization: Bearer s3cret")
	got := logged.String()
	if !strings.Contains(got, "level=DEBUG msg=request method=GET path=/v1/state/runs/a status=404") {
		t.Errorf("log: %s", got)
	}
	if strings.Contains(got, "s3cret") {
		t.Errorf("a key in the log: %s", got)
	}
}

func TestNotReadyIs503(t *testing.T) {
	h := newTest(t, newFake(), func(o *Options) {
		o.Ready = func(context.Context) error { return errors.New("dial tcp 10.0.0.7:5432: refused") }
	}).Handler()
	r := exchange(h, "GET /readyz")
	if body := bodyOf(t, r); r.StatusCode != 503 || strings.Contains(body, "10.0.0.7") || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	h = newTest(t, newFake(), func(o *Options) {
		o.Ready = func(context.Context) error {
			return &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeOutOfSpace, Detail: "the disk is full", Err: errors.New("/var/lib/tierd")}
		}
	}).Handler()
	r = exchange(h, "GET /readyz")
	if body := bodyOf(t, r); r.StatusCode != 503 || !strings.Contains(body, `"code":"unavailable"`) ||
		!strings.Contains(body, "out_of_space: the disk is full") || strings.Contains(body, "/var") {
		t.Errorf("a full disk: %d %s", r.StatusCode, body)
	}
	if r := exchange(h, "GET /healthz"); r.StatusCode != 200 {
		t.Errorf("liveness %d, want 200 whatever the tiers do", r.StatusCode)
	}
}

// heard collects what a Recorder is told.
type heard []string

func (h *heard) Request(route, method string, status int, took time.Duration) {
	if took < 0 {
		status = -1
	}
	*h = append(*h, fmt.Sprint(method, " ", route, " ", status))
}

// Routes are labels of metrics: they must not grow with what callers ask for.
func TestRequestsAreMeasuredByRoute(t *testing.T) {
	var got heard
	h := newTest(t, newFake(), func(o *Options) { o.Recorder = &got }).Handler()
	for _, r := range []string{"PUT /v1/state/runs/a\n\n1", "GET /v1/state/runs?id=b", "GET /v1/state/runs", "GET /wp-admin", "GET /v1//x", "POST /healthz"} {
		exchange(h, r)
	}
	want := heard{"PUT /v1/state/{ns}/{id...} 201", "GET /v1/state/{ns}/{id...} 404", "GET /v1/state/{ns} 200", "GET  404", "GET  400", "POST  405"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
