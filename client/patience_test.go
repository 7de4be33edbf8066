package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/tiering"
)

// roundTrip stands in for the network where a test needs the clock.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// play records an answer of h without a network.
func play(r *http.Request, h http.HandlerFunc) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h(rec, r)
	res := rec.Result()
	res.Request = r
	return res, nil
}

func TestPatience(t *testing.T) {
	after := func(d time.Duration) http.HandlerFunc {
		return problem(&tiering.Error{Code: tiering.CodeUnavailable, RetryAfter: d})
	}
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		retry    Retry
		deadline time.Duration
		tries    int
		min, max time.Duration
	}{
		{"delays double up to the cap, each shortened by up to half", unavailable(),
			Retry{Attempts: 5, MinDelay: time.Second, MaxDelay: 3 * time.Second}, 0, 5, 4500 * time.Millisecond, 9 * time.Second},
		{"one attempt does not wait", unavailable(), Retry{Attempts: 1}, 0, 1, 0, 0},
		{"Retry-After lengthens a delay", after(7 * time.Second), Retry{Attempts: 3}, 0, 3, 14 * time.Second, 14 * time.Second},
		{"a Retry-After beyond patience ends the tries", after(time.Hour), Retry{}, 0, 1, 0, 0},
		{"a deadline that a delay would pass ends them at once", after(7 * time.Second), Retry{}, 5 * time.Second, 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				tries := 0
				cl := dialTo(t, "http://node", &Options{Retry: c.retry, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					tries++
					return play(r, c.answer)
				})}})
				start := time.Now()
				_, err := cl.Get(ctx, "n", "k", nil)
				took := time.Since(start)
				if !errors.Is(err, tiering.ErrUnavailable) || tries != c.tries || took < c.min || took > c.max {
					t.Fatalf("%v after %d tries and %s", err, tries, took)
				}
			})
		})
	}
}

func TestTheContextEndsACall(t *testing.T) {
	hang := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	t.Run("while it waits for an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c := dialTo(t, "http://node", &Options{HTTPClient: &http.Client{Transport: hang}})
			start := time.Now()
			_, err := c.Put(ctx, "n", "k", []byte(`1`), nil)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, tiering.ErrUnavailable) || time.Since(start) != time.Second {
				t.Fatalf("%v after %s", err, time.Since(start))
			}
			if !strings.Contains(err.Error(), "not known") {
				t.Fatalf("%v does not say that the write may have happened", err)
			}
		})
	})
	t.Run("while it waits to try again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			c := dialTo(t, "http://node", &Options{Retry: Retry{MinDelay: time.Minute, MaxDelay: time.Minute}, HTTPClient: &http.Client{
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) { return play(r, unavailable()) })}})
			start := time.Now()
			if _, err := c.Get(ctx, "n", "k", nil); !errors.Is(err, tiering.ErrUnavailable) || time.Since(start) != time.Second {
				t.Fatalf("%v after %s", err, time.Since(start))
			}
		})
	})
	t.Run("and a try that hangs is given up for the next", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			c := dialTo(t, "http://node", &Options{Timeout: 5 * time.Second, HTTPClient: &http.Client{
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if tries++; tries == 1 {
						return hang(r)
					}
					return play(r, document(1, `1`))
				})}})
			if _, err := c.Get(t.Context(), "n", "k", nil); err != nil || tries != 2 {
				t.Fatalf("%v after %d tries", err, tries)
			}
		})
	})
}
