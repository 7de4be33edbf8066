package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// script answers one request after the other, the last step again and again,
// and keeps what was asked.
type script struct {
	mu    sync.Mutex
	steps []http.HandlerFunc
	asked []asked
}

type asked struct {
	method, uri string
	header      http.Header
	body        string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	step := s.steps[min(len(s.asked), len(s.steps)-1)]
	s.asked = append(s.asked, asked{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
	s.mu.Unlock()
	step(w, r)
}

func (s *script) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// quick makes retries fast enough for a test.
var quick = Retry{MinDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond}

func dial(t *testing.T, o *Options, steps ...http.HandlerFunc) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return dialTo(t, srv.URL, o), s
}

func dialTo(t *testing.T, url string, o *Options) *Client {
	t.Helper()
	if o == nil {
		o = &Options{Retry: quick}
	}
	c, err := New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// The answers of a node.

func document(version int64, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("ETag", fmt.Sprintf("%q", fmt.Sprint(version)))
		h.Set("Tierd-Tier", "warm")
		h.Set("Tierd-Digest", tiering.DigestOf([]byte(body)).String())
		io.WriteString(w, body)
	}
}

func receipt(status int, version int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(tiering.Receipt{Meta: tiering.Meta{Namespace: "n", ID: "k", Version: version}, Hot: true})
	}
}

func problem(e *tiering.Error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := tiering.ProblemOf(e)
		w.Header().Set("Content-Type", "application/problem+json")
		if e.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(e.RetryAfter.Seconds())))
		}
		w.WriteHeader(p.Status)
		json.NewEncoder(w).Encode(p)
	}
}

func unavailable() http.HandlerFunc {
	return problem(tiering.Errorf(tiering.CodeUnavailable, "warm is away"))
}

// lost takes the request and drops the connection in place of an answer.
func lost(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }

func TestPathsAreEncodedBytewise(t *testing.T) {
	for id, want := range map[string]string{
		"a/b/c":            "/v1/state/n/a/b/c",
		"a.b":              "/v1/state/n/a%2Eb",
		"...":              "/v1/state/n/%2E%2E%2E",
		"a b+c":            "/v1/state/n/a%20b%2Bc",
		"a%2Fb":            "/v1/state/n/a%252Fb",
		"ü":                "/v1/state/n/%C3%BC",
		"a?b#c;d=e&f:@~!$": "/v1/state/n/a%3Fb%23c%3Bd%3De%26f%3A%40%7E%21%24",
		"A-z_09":           "/v1/state/n/A-z_09",
	} {
		t.Run(id, func(t *testing.T) {
			c, s := dial(t, nil, document(1, `1`))
			if _, err := c.Get(t.Context(), "n", id, nil); err != nil {
				t.Fatal(err)
			}
			if got := s.requests()[0].uri; got != want {
				t.Fatalf("asked for %s, want %s", got, want)
			}
		})
	}
}

func TestNamesThatAnyHopWouldRewriteAreNotSent(t *testing.T) {
	c, s := dial(t, nil, document(1, `1`))
	for _, k := range []docKey{{"n", ".."}, {"n", "a/./b"}, {"n", "a//b"}, {"n", ""}, {"n", "/a"}, {"n", "a\x00"}, {"..", "a"}, {"", "a"}, {"N", "a"}} {
		_, getErr := c.Get(t.Context(), k.ns, k.id, nil)
		_, putErr := c.Put(t.Context(), k.ns, k.id, []byte(`1`), nil)
		if !errors.Is(getErr, tiering.ErrInvalid) || !errors.Is(putErr, tiering.ErrInvalid) {
			t.Errorf("%q: got %v and %v", k, getErr, putErr)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Fatalf("%d requests were sent", n)
	}
}

func TestNewRefusesWhatIsNoNode(t *testing.T) {
	for _, u := range []string{"", "127.0.0.1:8437", "ftp://h", "http://", "http://h?x=1", "http://h#f", "http://user:secret@h", "http://h\x7f"} {
		c, err := New(u, nil)
		if !errors.Is(err, tiering.ErrInvalid) || c != nil {
			t.Errorf("%q: got %v", u, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password", u)
		}
	}
	if _, err := New("http://h", &Options{APIKey: "a\r\nb"}); !errors.Is(err, tiering.ErrInvalid) {
		t.Errorf("an API key with a line break: %v", err)
	}
}

func TestAPrefixAndTheKeyGoWithEveryRequest(t *testing.T) {
	s := &script{steps: []http.HandlerFunc{document(1, `1`)}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	c := dialTo(t, srv.URL+"/state-of/agents/", &Options{APIKey: "k1.secret"})
	if _, err := c.Get(t.Context(), "n", "k", nil); err != nil {
		t.Fatal(err)
	}
	r := s.requests()[0]
	if r.uri != "/state-of/agents/v1/state/n/k" || r.header.Get("Authorization") != "Bearer k1.secret" {
		t.Fatalf("asked for %s with %q", r.uri, r.header.Get("Authorization"))
	}
}

func TestRetries(t *testing.T) {
	truncated := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"half":`)
	}
	proxy := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "upstream timed out", http.StatusGatewayTimeout)
	}
	inFlight := problem(tiering.Errorf(tiering.CodeIdempotencyInFlight, "the first try runs"))

	for _, c := range []struct {
		name  string
		steps []http.HandlerFunc
		tries int
		code  tiering.Code // "": succeeds
	}{
		{"503 then 200", []http.HandlerFunc{unavailable(), nil}, 2, ""},
		{"429 then 200", []http.HandlerFunc{problem(tiering.Errorf(tiering.CodeRateLimited, "slow")), nil}, 2, ""},
		{"the first try still runs", []http.HandlerFunc{inFlight, inFlight, nil}, 3, ""},
		{"a lost reply", []http.HandlerFunc{lost, nil}, 2, ""},
		{"a truncated reply", []http.HandlerFunc{truncated, nil}, 2, ""},
		{"a proxy's page", []http.HandlerFunc{proxy, nil}, 2, ""},
		{"it stays away", []http.HandlerFunc{unavailable()}, 4, tiering.CodeUnavailable},
		{"every reply is truncated", []http.HandlerFunc{truncated}, 4, tiering.CodeUnavailable},
		{"a refusal stays one", []http.HandlerFunc{problem(tiering.Errorf(tiering.CodeForbidden, "no"))}, 1, tiering.CodeForbidden},
		{"a conflict stays one", []http.HandlerFunc{problem(tiering.Errorf(tiering.CodeVersionConflict, "no"))}, 1, tiering.CodeVersionConflict},
		{"damage is not asked for again", []http.HandlerFunc{problem(tiering.Errorf(tiering.CodeCorrupt, "no"))}, 1, tiering.CodeCorrupt},
	} {
		with := func(last http.HandlerFunc) []http.HandlerFunc {
			steps := append([]http.HandlerFunc(nil), c.steps...)
			if steps[len(steps)-1] == nil {
				steps[len(steps)-1] = last
			}
			return steps
		}
		t.Run("get: "+c.name, func(t *testing.T) {
			cl, s := dial(t, nil, with(document(1, `1`))...)
			_, err := cl.Get(t.Context(), "n", "k", nil)
			if tiering.CodeOf(err) != c.code || len(s.requests()) != c.tries {
				t.Fatalf("got %v after %d tries", err, len(s.requests()))
			}
		})
		t.Run("put: "+c.name, func(t *testing.T) {
			cl, s := dial(t, nil, with(receipt(201, 1))...)
			_, err := cl.Put(t.Context(), "n", "k", []byte(`{"a":1.10}`), nil)
			if tiering.CodeOf(err) != c.code || len(s.requests()) != c.tries {
				t.Fatalf("got %v after %d tries", err, len(s.requests()))
			}
			first := s.requests()[0]
			for _, r := range s.requests() {
				if r.body != `{"a":1.10}` || r.header.Get("Idempotency-Key") == "" || r.header.Get("Idempotency-Key") != first.header.Get("Idempotency-Key") {
					t.Fatalf("sent %q under %q", r.body, r.header.Get("Idempotency-Key"))
				}
			}
		})
	}
}

func TestEveryMutationCarriesItsOwnIdempotencyKey(t *testing.T) {
	c, s := dial(t, nil, receipt(200, 1))
	ctx, one := t.Context(), []byte(`1`)
	calls := []func() error{
		func() error { _, err := c.Put(ctx, "n", "k", one, nil); return err },
		func() error { _, err := c.Patch(ctx, "n", "k", tiering.MergePatch, one, nil); return err },
		func() error {
			_, err := c.Apply(ctx, "n", "k", []tiering.EditOp{{Op: "remove", Pointer: "/a"}}, nil)
			return err
		},
		func() error { _, err := c.Delete(ctx, "n", "k", nil); return err },
		func() error { _, err := c.Touch(ctx, "n", "k", nil); return err },
		func() error { _, err := c.Pin(ctx, "n", "k", true, nil); return err },
		func() error { _, err := c.Rollback(ctx, "n", "k", 1, nil); return err },
		func() error { _, err := c.Batch(ctx, &tiering.Batch{}); return err },
		func() error { _, err := c.SetNamespace(ctx, "n", tiering.Policy{}, nil); return err },
		func() error { _, err := c.PatchNamespace(ctx, "n", one, nil); return err },
		func() error { return c.DeleteNamespace(ctx, "n", nil) },
	}
	seen := map[string]bool{}
	for i, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		key := s.requests()[i].header.Get("Idempotency-Key")
		if len(key) < 20 || seen[key] {
			t.Errorf("call %d, %s %s: key %q", i, s.requests()[i].method, s.requests()[i].uri, key)
		}
		seen[key] = true
	}
	if _, err := c.Put(ctx, "n", "k", one, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "mine"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests()[len(calls)].header.Get("Idempotency-Key"); got != "mine" {
		t.Errorf("the caller's key became %q", got)
	}
}

// A node that commits and loses its reply must be asked again under the same
// key, and the caller sees one write.
func TestALostReplyIsOneWrite(t *testing.T) {
	var mu sync.Mutex
	results := map[string]int64{}
	writes := int64(0)
	c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if v, done := results[key]; done {
			w.Header().Set("Idempotent-Replayed", "true")
			receipt(201, v)(w, r)
			return
		}
		writes++
		results[key] = writes
		lost(w, r)
	})
	got, err := c.Put(t.Context(), "n", "k", []byte(`1`), nil)
	if err != nil || writes != 1 || got.Version != 1 || !got.Replayed || !got.Created || !got.Hot {
		t.Fatalf("got %+v, %v after %d writes", got, err, writes)
	}
}

func TestAnUnknownOutcomeIsSaid(t *testing.T) {
	const says = "whether the write happened is not known"
	put := func(c *Client) error {
		_, err := c.Put(t.Context(), "n", "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "id-7"}})
		return err
	}
	t.Run("when the last reply was lost", func(t *testing.T) {
		c, _ := dial(t, nil, lost)
		if err := put(c); !errors.Is(err, tiering.ErrUnavailable) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "id-7") {
			t.Fatal(err)
		}
	})
	t.Run("when an earlier one was, and the node is too busy since", func(t *testing.T) {
		c, _ := dial(t, nil, lost, problem(tiering.Errorf(tiering.CodeRateLimited, "slow")))
		if err := put(c); tiering.CodeOf(err) != tiering.CodeRateLimited || !strings.Contains(err.Error(), says) {
			t.Fatal(err)
		}
	})
	t.Run("not when a later try was answered", func(t *testing.T) {
		c, _ := dial(t, nil, lost, problem(tiering.Errorf(tiering.CodeVersionConflict, "no")))
		if err := put(c); !errors.Is(err, tiering.ErrVersionConflict) || strings.Contains(err.Error(), says) {
			t.Fatal(err)
		}
	})
	t.Run("not for a read", func(t *testing.T) {
		c, _ := dial(t, nil, lost)
		if _, err := c.Get(t.Context(), "n", "k", nil); !errors.Is(err, tiering.ErrUnavailable) || strings.Contains(err.Error(), says) {
			t.Fatal(err)
		}
	})
	t.Run("not when nobody was there to hear it", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		if err := put(dialTo(t, srv.URL, nil)); !errors.Is(err, tiering.ErrUnavailable) || strings.Contains(err.Error(), says) {
			t.Fatal(err)
		}
	})
}

func TestKeysAreMadeOnce(t *testing.T) {
	c, s := dial(t, nil, unavailable())
	if _, err := c.CreateKey(t.Context(), tiering.APIKey{}); !errors.Is(err, tiering.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := c.RevokeKey(t.Context(), "k1"); !errors.Is(err, tiering.ErrUnavailable) {
		t.Fatal(err)
	}
	if len(s.requests()) != 2 || s.requests()[1].uri != "/v1/keys/k1" {
		t.Fatalf("asked %v", s.requests())
	}
}

func TestRedirects(t *testing.T) {
	elsewhere := &script{steps: []http.HandlerFunc{document(1, `1`)}}
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			before := len(elsewhere.requests())
			c, s := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+"/v1/state/n/other", status)
			})
			if _, err := c.Get(t.Context(), "n", "k", nil); err != nil || len(elsewhere.requests()) != before+1 {
				t.Fatalf("a read: %v", err)
			}
			_, err := c.Put(t.Context(), "n", "k", []byte(`1`), nil)
			if !errors.Is(err, tiering.ErrInvalid) || !strings.Contains(err.Error(), other.URL) || len(s.requests()) != 2 {
				t.Fatalf("a write: %v", err)
			}
			if len(elsewhere.requests()) != before+1 {
				t.Fatal("the write was sent on")
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	big := bytes.Repeat([]byte(" "), MaxAnswer+1)
	c, s := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Write(big)
	})
	if _, err := c.Get(t.Context(), "n", "k", nil); !errors.Is(err, tiering.ErrTooLarge) || len(s.requests()) != 1 {
		t.Fatal(err)
	}
}
