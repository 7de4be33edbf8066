package server

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Handler returns the whole API. It may be mounted at the root of a host only.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.guard) }

// nosniff is a header's value that all answers share. Nobody changes it.
var nosniff = []string{"nosniff"}

// guard stands before the mux: it records, recovers, and refuses what the mux
// would answer with a redirect, because clients resend a redirected write to
// the other path, which is another key.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	start := time.Now()
	defer s.finish(rec, r, start)
	w = rec
	w.Header()["X-Content-Type-Options"] = nosniff

	if r.Method == http.MethodConnect {
		w.Header().Set("Allow", strings.Join(methods[:], ", "))
		s.refuse(w, r, &statusError{status: http.StatusMethodNotAllowed,
			err: tiering.Errorf(tiering.CodeUnsupported, "CONNECT is not allowed: tierd is no proxy")})
		return
	}
	if err := checkPath(r.URL.Path); err != nil {
		s.refuse(w, r, err)
		return
	}
	if s.opts.LocalHosts && !localHost(r.Host) {
		s.refuse(w, r, tiering.Errorf(tiering.CodeForbidden,
			"host %s: this node takes no keys, and so answers to names of its own machine alone: ask http://127.0.0.1:PORT, or make API keys and start it with --require-keys", clip(r.Host)))
		return
	}
	if err := s.origin.Check(r); err != nil {
		s.refuse(w, r, tiering.Errorf(tiering.CodeForbidden, "a page of another origin may not write here"))
		return
	}
	if r.URL.RawPath != "" || r.URL.Path == "" {
		// An encoded slash is a slash: routing on the decoded path makes a%2Fb
		// and a/b one id. No path at all is the root, which the mux would
		// redirect to. The caller's URL stays as it was.
		u := *r.URL
		u.RawPath = ""
		if u.Path == "" {
			u.Path = "/"
		}
		r2 := *r
		r2.URL = &u
		r = &r2
	}
	if op, ns, id := s.direct.find(r.Method, r.URL.Path); op != nil {
		s.answer(&call{s: s, op: op, w: w, r: r, ns: ns, id: id})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// checkPath refuses a decoded path with an empty, "." or ".." segment. The
// decoded path shows such a segment whichever way it was encoded.
func checkPath(path string) error {
	if path == "" || path == "/" {
		return nil
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return tiering.Invalidf("path %q does not begin with a slash", path)
	}
	for seg := range strings.SplitSeq(rest, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return tiering.Invalidf("path %q: segment %q between slashes is not allowed, raw or encoded", path, seg)
		}
	}
	return nil
}

// finish answers for a handler that panicked, and logs.
func (s *Server) finish(rec *recorder, r *http.Request, start time.Time) {
	if v := recover(); v != nil {
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		s.log.Error("handler panicked", slog.Any("panic", v), slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
		if rec.status != 0 {
			// Part of an answer is out: cutting the connection is the only way
			// left to say that it is not whole.
			panic(http.ErrAbortHandler)
		}
		writeProblem(rec, r, &tiering.Problem{Type: "about:blank", Title: "internal", Status: http.StatusInternalServerError,
			Code: tiering.CodeCorrupt, Detail: "internal error"})
	}
	took := time.Since(start)
	if s.opts.Recorder != nil {
		s.opts.Recorder.Request(rec.route, r.Method, rec.status, took)
	}
	ctx := r.Context()
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took))
	}
}

// recorder remembers the operation and the status and counts the bytes of an answer.
type recorder struct {
	http.ResponseWriter
	route  string // of the operation that ran
	status int
	bytes  int64
}

// WriteHeader remembers the first final status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach deadlines and Flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
