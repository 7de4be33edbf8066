package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
)

// problemType is the media type of every error (RFC 9457).
const problemType = "application/problem+json"

// defaultRetryAfter is said with 429 and 503 when the error names no time.
const defaultRetryAfter = time.Second

// statusError gives an error of the closed set a status of HTTP's own, such as
// 405, that no code stands for.
type statusError struct {
	status int
	err    *tiering.Error
}

// Error is the inner error's.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap returns the inner error.
func (e *statusError) Unwrap() error { return e.err }

// refuse answers r with the problem of err. The cause goes to the log, never
// into the answer.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := tiering.ProblemOf(err)
	var forced *statusError
	if errors.As(err, &forced) {
		p.Status = forced.status
	}
	var e *tiering.Error
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		wait := defaultRetryAfter
		if errors.As(err, &e) && e.RetryAfter > 0 {
			wait = e.RetryAfter
		}
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	if p.Status >= 500 {
		level := slog.LevelError
		if errors.Is(r.Context().Err(), context.Canceled) {
			level = slog.LevelDebug // the caller went away: nothing is wrong with the node
		}
		s.log.LogAttrs(r.Context(), level, "request failed", slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", p.Status), slog.String("error", err.Error()))
	}
	writeProblem(w, r, p)
}

// writeProblem writes p, whose status it sends.
func writeProblem(w http.ResponseWriter, r *http.Request, p *tiering.Problem) {
	b, err := json.Marshal(p)
	if err != nil {
		// A problem is strings and numbers: this cannot be, but an answer must go out.
		b = []byte(`{"type":"about:blank","title":"internal","status":500,"code":"corrupt"}`)
		p.Status = http.StatusInternalServerError
	}
	h := w.Header()
	h.Set("Tierd-Code", string(p.Code)) // the answer to a HEAD has no body to say it
	h.Set("Content-Type", problemType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b) // the caller went away: there is nobody to tell
	}
}
