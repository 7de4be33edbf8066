package openai

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
	"github.com/tierd/tierd/vector"
)

const (
	// mostAnswer bounds an answer, in bytes: 32 vectors of 4,096 numbers take
	// less than 4 MB.
	mostAnswer = 64 << 20
	// mostRetries of one request are made after 429 and 503, if the server does
	// not ask for more than longestWait.
	mostRetries = 3
	longestWait = 20 * time.Second
	// unsaidWait is for a server that does not say how long to wait.
	unsaidWait = time.Second
)

// refusal says that the server does not take this input.
type refusal struct {
	status  int
	tooLong bool
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the embedding server refuses the input with status %d", r.status)
}

type question struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type answer struct {
	Data []struct {
		Index     *int    `json:"index"`
		Embedding numbers `json:"embedding"`
	} `json:"data"`
}

// numbers are a JSON array of numbers, none of them null.
type numbers []float32

func (n *numbers) UnmarshalJSON(b []byte) error {
	if bytes.IndexByte(b, 'n') >= 0 {
		return errors.New("null where a number should be")
	}
	return json.Unmarshal(b, (*[]float32)(n))
}

// unavailable is the error of a server that did something it should not: it may
// be mended, so trying again later makes sense.
func unavailable(format string, args ...any) error {
	return tiering.Errorf(tiering.CodeUnavailable, "the embedding server "+format, args...)
}

// ask sends one batch, again where the server asks to wait a little, and returns
// normalised vectors in its order. A *refusal says that the input is at fault.
func (e *Embedder) ask(ctx context.Context, batch []item) ([][]float32, error) {
	q := question{Model: e.options.Model, Format: "float", Dimensions: e.options.Dimensions}
	for _, it := range batch {
		q.Input = append(q.Input, it.input)
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		a, again, err := e.post(ctx, body)
		if err == nil {
			return e.check(a, len(batch))
		}
		if again <= 0 || again > longestWait || try == mostRetries || !enough(ctx, again) {
			return nil, err
		}
		if e.wait(ctx, again) != nil {
			return nil, err
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
func (e *Embedder) post(ctx context.Context, body []byte) (a answer, again time.Duration, err error) {
	within, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(within, http.MethodPost, e.options.Base+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return a, 0, tiering.Invalidf("the URL of the embedder cannot be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if e.options.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+e.options.APIKey)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return a, 0, unreached(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return a, 0, unreached(ctx, err)
	case len(text) > mostAnswer:
		return a, 0, unavailable("answers with more than %d MiB", mostAnswer>>20)
	case resp.StatusCode != http.StatusOK:
		return a, waitAsked(resp), refused(resp, text)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, 0, unavailable("answers with something else than embeddings")
	}
	return a, 0, nil
}

// unreached is the error of a request without an answer.
func unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return tiering.Wrap(ctx.Err(), "embed", "", tiering.Key{})
	}
	var forbidden *forbiddenAddress
	if errors.As(err, &forbidden) {
		return &tiering.Error{Code: tiering.CodeUnavailable, Detail: forbidden.Error(), Err: err}
	}
	return &tiering.Error{Code: tiering.CodeUnavailable, Detail: "the embedding server cannot be reached", Err: err}
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
func refused(resp *http.Response, text []byte) error {
	switch status := resp.StatusCode; {
	case status == http.StatusRequestEntityTooLarge:
		return &refusal{status, true}
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return &refusal{status, saysTooLong(text)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return unavailable("refuses the API key (status %d): set %s", status, defaultKeyVariable)
	case status == http.StatusNotFound:
		return unavailable("does not know the path or the model (status 404)")
	case status >= 300 && status < 400:
		return unavailable("redirects (status %d), which is not followed: name the final URL", status)
	case status == http.StatusTooManyRequests:
		return &tiering.Error{Code: tiering.CodeRateLimited, Detail: "the embedding server asks to wait", RetryAfter: waitAsked(resp)}
	default:
		return &tiering.Error{Code: tiering.CodeUnavailable, Detail: fmt.Sprintf("the embedding server fails with status %d", status), RetryAfter: waitAsked(resp)}
	}
}

// saysTooLong reads the error of a server that has no status of its own for an
// input beyond what the model takes.
func saysTooLong(text []byte) bool {
	s := strings.ToLower(string(text[:min(len(text), 4096)]))
	for _, sign := range []string{"context_length", "context length", "maximum input length", "max_tokens", "too long", "too large", "token limit"} {
		if strings.Contains(s, sign) {
			return true
		}
	}
	return false
}

// check holds an answer against the request: a vector for each text, each index
// once, all of the dimensions that the space has.
func (e *Embedder) check(a answer, texts int) ([][]float32, error) {
	if len(a.Data) != texts {
		return nil, unavailable("answers with %d embeddings for %d texts", len(a.Data), texts)
	}
	out := make([][]float32, texts)
	seen := make([]bool, texts)
	for i, d := range a.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= texts || seen[at] {
			return nil, unavailable("answers with the index %d of %d twice, or out of range", at, texts)
		}
		seen[at] = true
		want := e.dimensions.Load()
		if want == 0 && len(d.Embedding) > 0 {
			e.dimensions.CompareAndSwap(0, int64(len(d.Embedding)))
			want = e.dimensions.Load()
		}
		if int64(len(d.Embedding)) != want || want == 0 {
			return nil, unavailable("answers with %d dimensions, and the space has %d", len(d.Embedding), want)
		}
		out[at] = vector.Normalise(d.Embedding)
	}
	return out, nil
}
