package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// asked is a server whose answers a handler makes, which is told the number of the
// request.
func asked(t *testing.T, o Options, answer func(w http.ResponseWriter, r *http.Request, n int)) *Server {
	t.Helper()
	var n atomic.Int64
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, int(n.Add(1))) }))
	t.Cleanup(fake.Close)
	o.Name, o.Base, o.MostAnswer = "the server", fake.URL+"/v1/", 1024
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

type said struct {
	Said string `json:"said"`
}

func TestWhatIsAskedAndAnswered(t *testing.T) {
	s := asked(t, Options{Place: Place{APIKey: "secret"}}, func(w http.ResponseWriter, r *http.Request, _ int) {
		fmt.Fprintf(w, `{"said":"%s %s %s"}`, r.Method, r.URL.Path, r.Header.Get("Authorization"))
	})
	var got said
	if err := s.Ask(t.Context(), "/chat", said{"hello"}, &got, "words"); err != nil || got.Said != "POST /v1/chat Bearer secret" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A server that asks to wait is waited for a little; one that asks for more, or fails
// otherwise, is the caller's to come back to.
func TestWaiting(t *testing.T) {
	for _, c := range []struct {
		name          string
		times, status int
		after         string
		waits         []time.Duration
		code          tiering.Code
		retry         time.Duration
	}{
		{"as long as it says", 2, 429, "7", []time.Duration{7 * time.Second, 7 * time.Second}, "", 0},
		{"a second where it does not say", 1, 503, "", []time.Duration{time.Second}, "", 0},
		{"a date that has passed", 1, 429, "Mon, 02 Jan 2006 15:04:05 GMT", []time.Duration{time.Millisecond}, "", 0},
		{"three times at most", 9, 429, "1", []time.Duration{time.Second, time.Second, time.Second}, tiering.CodeRateLimited, time.Second},
		{"not for minutes", 1, 429, "600", nil, tiering.CodeRateLimited, 10 * time.Minute},
		{"not after a failure", 1, 500, "1", nil, tiering.CodeUnavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var waits []time.Duration
			s := asked(t, Options{Wait: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }}, func(w http.ResponseWriter, _ *http.Request, n int) {
				if n > c.times {
					fmt.Fprint(w, `{}`)
					return
				}
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
			})
			err := s.Ask(t.Context(), "/x", said{}, &said{}, "words")
			if !slices.Equal(waits, c.waits) || tiering.CodeOf(err) != c.code {
				t.Errorf("waited %v, want %v; %v", waits, c.waits, err)
			}
			var e *tiering.Error
			if errors.As(err, &e) && e.RetryAfter != c.retry {
				t.Errorf("retry after %v, want %v", e.RetryAfter, c.retry)
			}
		})
	}
}

func TestWaitingEndsWithTheDeadline(t *testing.T) {
	s := asked(t, Options{Wait: func(context.Context, time.Duration) error { t.Error("waited for what cannot come in time"); return nil }}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Retry-After", "15")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Ask(ctx, "/x", said{}, &said{}, "words"); tiering.CodeOf(err) != tiering.CodeRateLimited {
		t.Error(err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, n int)
		says   string
	}{
		"a web page": {func(w http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprint(w, "<html>") }, "something else than words"},
		"too much":   {func(w http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprint(w, strings.Repeat(" ", 2000)) }, "more than 1 KiB"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, "redirects (status 307)"},
		"no words": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, "cannot be reached"},
	} {
		err := asked(t, Options{}, c.answer).Ask(t.Context(), "/x", said{}, &said{}, "words")
		if tiering.CodeOf(err) != tiering.CodeUnavailable || !strings.Contains(err.Error(), c.says) || strings.Contains(tiering.Told(err), "127.0.0.1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLinkLocalAddressesAreNotDialled(t *testing.T) {
	for _, c := range []struct {
		addr string
		ok   bool
	}{
		{"127.0.0.1:80", true}, {"10.0.0.1:80", true}, {"[::1]:80", true}, {"[2001:db8::1]:443", true},
		{"169.254.169.254:80", false}, {"[::ffff:169.254.169.254]:80", false}, {"[fe80::1%eth0]:80", false}, {"[fd00:ec2::254]:80", false},
	} {
		err := control("tcp", c.addr, nil)
		var forbidden *ForbiddenAddress
		if (err == nil) != c.ok || err != nil && !errors.As(err, &forbidden) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
	s := New(Options{Name: "the server", Place: Place{Base: "http://169.254.169.254/v1"}, MostAnswer: 1024})
	if err := s.Ask(t.Context(), "/x", said{}, &said{}, "words"); !errors.As(err, new(*ForbiddenAddress)) || !strings.Contains(err.Error(), "169.254.169.254") {
		t.Error(err)
	}
}
