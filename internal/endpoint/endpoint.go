// Package endpoint asks servers that speak OpenAI's protocol, as Ollama, vLLM,
// text-embeddings-inference and OpenAI do, over a client that goes nowhere it should
// not: it follows no redirect, uses no proxy and dials no link-local address. What a
// server says is bounded, and its errors quote nothing of it.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

const (
	// mostRetries of one request are made after 429 and 503, if the server does
	// not ask for more than longestWait.
	mostRetries = 3
	longestWait = 20 * time.Second
	// unsaidWait is for a server that does not say how long to wait.
	unsaidWait = time.Second
)

// Options configure a Server. Name and MostAnswer are required.
type Options struct {
	// Name is what errors call it, such as "the embedding server".
	Name string
	Place
	// Timeout is for one request; 0 means 30 s.
	Timeout time.Duration
	// MostAnswer bounds an answer, in bytes.
	MostAnswer int64
	// Wait is for tests; nil waits.
	Wait func(context.Context, time.Duration) error
}

// Server is one that is asked. It is safe for concurrent use.
type Server struct {
	options Options
	client  *http.Client
}

// New returns a server. It is asked nothing yet.
func New(o Options) *Server {
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Wait == nil {
		o.Wait = sleep
	}
	o.Base = strings.TrimRight(o.Base, "/")
	return &Server{options: o, client: newClient()}
}

// Close gives up idle connections.
func (s *Server) Close() { s.client.CloseIdleConnections() }

// Refusal says that the server does not take what it was sent.
type Refusal struct {
	Status  int
	TooLong bool
	server  string
	text    string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s refuses the input with status %d", r.server, r.Status)
}

// Says reports whether the server's reason holds a word, whatever its case. The reason
// is shown to nobody.
func (r *Refusal) Says(word string) bool { return strings.Contains(r.text, strings.ToLower(word)) }

// Unavailable is the error of a server that did something it should not: it may be
// mended, so trying again later makes sense.
func (s *Server) Unavailable(format string, args ...any) error {
	return tiering.Errorf(tiering.CodeUnavailable, s.options.Name+" "+format, args...)
}

// Ask posts question as JSON to path behind the base, again where the server asks to
// wait a little, and reads the answer into answer, which is of what. A *Refusal says
// that the question is at fault; other errors are unavailable, or rate_limited with
// what the server wants a caller to wait.
func (s *Server) Ask(ctx context.Context, path string, question, answer any, what string) error {
	body, err := json.Marshal(question)
	if err != nil {
		return tiering.Invalidf("the request cannot be written: %v", err)
	}
	for try := 0; ; try++ {
		text, again, err := s.post(ctx, path, body)
		if err == nil {
			if json.Unmarshal(text, answer) != nil {
				return s.Unavailable("answers with something else than %s", what)
			}
			return nil
		}
		if again <= 0 || again > longestWait || try == mostRetries || !enough(ctx, again) {
			return err
		}
		if s.options.Wait(ctx, again) != nil {
			return err
		}
	}
}

// enough reports whether the context lives longer than d.
func enough(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > d
}

// post sends one request. Again is above zero when the server asks to be asked
// again after that time.
func (s *Server) post(ctx context.Context, path string, body []byte) (text []byte, again time.Duration, err error) {
	within, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(within, http.MethodPost, s.options.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, tiering.Invalidf("the URL of %s cannot be asked", s.options.Name)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if s.options.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.options.APIKey)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, 0, s.unreached(ctx, err)
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, s.options.MostAnswer+1))
	switch {
	case err != nil:
		return nil, 0, s.unreached(ctx, err)
	case int64(len(text)) > s.options.MostAnswer:
		return nil, 0, s.Unavailable("answers with more than %d KiB", s.options.MostAnswer>>10)
	case resp.StatusCode != http.StatusOK:
		return nil, waitAsked(resp), s.refused(resp, text)
	}
	return text, 0, nil
}

// unreached is the error of a request without an answer.
func (s *Server) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return tiering.Wrap(ctx.Err(), "ask", "", tiering.Key{})
	}
	var forbidden *ForbiddenAddress
	if errors.As(err, &forbidden) {
		return &tiering.Error{Code: tiering.CodeUnavailable, Detail: forbidden.Error(), Err: err}
	}
	return &tiering.Error{Code: tiering.CodeUnavailable, Detail: s.options.Name + " cannot be reached", Err: err}
}

// waitAsked is how long the server wants a caller to wait.
func waitAsked(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
		return max(time.Duration(min(seconds, 1<<20))*time.Second, time.Millisecond)
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(time.Until(at), time.Millisecond)
	}
	return unsaidWait
}

// refused is the error of an answer that is none.
func (s *Server) refused(resp *http.Response, text []byte) error {
	reason := strings.ToLower(string(text[:min(len(text), 4096)]))
	switch status := resp.StatusCode; {
	case status == http.StatusRequestEntityTooLarge:
		return &Refusal{status, true, s.options.Name, reason}
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return &Refusal{status, saysTooLong(reason), s.options.Name, reason}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return s.Unavailable("refuses the API key (status %d): set %s", status, s.options.KeyVariable)
	case status == http.StatusNotFound:
		return s.Unavailable("does not know the path or the model (status 404)")
	case status >= 300 && status < 400:
		return s.Unavailable("redirects (status %d), which is not followed: name the final URL", status)
	case status == http.StatusTooManyRequests:
		return &tiering.Error{Code: tiering.CodeRateLimited, Detail: s.options.Name + " asks to wait", RetryAfter: waitAsked(resp)}
	default:
		return &tiering.Error{Code: tiering.CodeUnavailable, Detail: fmt.Sprintf("%s fails with status %d", s.options.Name, status), RetryAfter: waitAsked(resp)}
	}
}

// saysTooLong reads the error of a server that has no status of its own for an
// input beyond what the model takes.
func saysTooLong(reason string) bool {
	for _, sign := range []string{"context_length", "context length", "maximum input length", "max_tokens", "too long", "too large", "token limit"} {
		if strings.Contains(reason, sign) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
