package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// open starts an embedded node in a folder of its own.
func open(t testing.TB) *tierd.Node {
	t.Helper()
	n, err := tierd.Open(t.Context(), tierd.Config{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// serve puts the HTTP API in front of a node; keys says whether it asks for API
// keys.
func serve(t testing.TB, n *tierd.Node, keys bool) string {
	t.Helper()
	o := server.Options{As: func(p tiering.Principal) tiering.Service { return n.As(p) }}
	if keys {
		o.Authenticate = n.Authenticate
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL
}

func dial(t testing.TB, url string, o *client.Options) *client.Client {
	t.Helper()
	c, err := client.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// An embedded node and a client of a served one answer every call alike: the
// same values and the same errors, but for the words.
func TestEmbeddedAndRemoteAgree(t *testing.T) {
	embedded := open(t)
	remote := dial(t, serve(t, open(t), false), nil)
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			want := outcome(s.do(ctx, embedded))
			got := outcome(s.do(ctx, remote))
			if got != want {
				t.Errorf("remote:   %s\nembedded: %s", got, want)
			}
		})
	}
}

// What a get says of a version is what the write said of it, on both sides.
func TestAReceiptAndAGetSayTheSame(t *testing.T) {
	embedded := open(t)
	for name, s := range map[string]tiering.Service{"embedded": embedded, "remote": dial(t, serve(t, embedded, false), nil)} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			wrote, err := s.Put(ctx, "meta", name, []byte(`{"a": 1.10}`), &tiering.PutOptions{User: "ä b", WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: time.Hour}}})
			if err != nil {
				t.Fatal(err)
			}
			read, err := s.Get(ctx, "meta", name, nil)
			if err != nil {
				t.Fatal(err)
			}
			head, err := s.Head(ctx, "meta", name, &tiering.GetOptions{Strong: true})
			if err != nil {
				t.Fatal(err)
			}
			for what, m := range map[string]tiering.Meta{"get": read.Meta, "head": *head} {
				m.Revision, m.TTL = wrote.Revision, wrote.TTL // not part of the API
				if fmt.Sprintf("%+v", utc(m)) != fmt.Sprintf("%+v", utc(wrote.Meta)) {
					t.Errorf("%s: %+v\nput: %+v", what, utc(m), utc(wrote.Meta))
				}
			}
		})
	}
}

// A limited key reaches over HTTP what its principal reaches in process.
func TestAKeysLimitsAreTheSame(t *testing.T) {
	node := open(t)
	url := serve(t, node, true)
	for _, id := range []string{"a/1", "b/1"} {
		for ns, user := range map[string]string{"docs": "ada", "other": "bob"} {
			if _, err := node.Put(t.Context(), ns, id, []byte(`{"n":1}`), &tiering.PutOptions{User: user}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := dial(t, url, nil).Get(t.Context(), "docs", "a/1", nil); !errors.Is(err, tiering.ErrUnauthenticated) {
		t.Fatalf("without a key: %v", err)
	}
	if _, err := dial(t, url, &client.Options{APIKey: "tierd_x_y_default"}).Head(t.Context(), "docs", "a/1", nil); !errors.Is(err, tiering.ErrUnauthenticated) {
		t.Fatalf("with a wrong one: %v", err)
	}
	for name, scope := range map[string]tiering.Scope{
		"reads":     {Verbs: []tiering.Verb{tiering.VerbRead}},
		"namespace": {Namespaces: []string{"docs"}},
		"prefix":    {Prefixes: []string{"a/"}},
		"user":      {User: "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := node.CreateKey(t.Context(), tiering.APIKey{Scope: scope})
			if err != nil {
				t.Fatal(err)
			}
			principal, err := node.Authenticate(t.Context(), key.Secret)
			if err != nil {
				t.Fatal(err)
			}
			embedded, remote := node.As(principal), dial(t, url, &client.Options{APIKey: key.Secret})
			for _, s := range []step{
				{"get", get("docs", "a/1", nil)}, {"get b", get("docs", "b/1", nil)}, {"get other", get("other", "a/1", nil)}, {"head other", head("other", "a/1", nil)},
				{"list", list("docs", nil)}, {"list other", list("other", nil)}, {"query", query("docs", &tiering.Query{})},
				{"patch", patch("docs", "a/1", tiering.MergePatch, `{}`)}, {"patch b", patch("other", "b/1", tiering.MergePatch, `{}`)},
				{"delete", del("docs", "b/1", nil)}, {"policy", setNamespace("docs", tiering.Policy{}, nil)},
				{"keys", func(ctx context.Context, s tiering.Service) (any, error) { return s.APIKeys(ctx) }},
				{"watch", func(ctx context.Context, s tiering.Service) (any, error) {
					w, err := s.Watch(ctx, &tiering.WatchOptions{Namespace: "other"})
					if err != nil {
						return nil, err
					}
					return nil, w.Close()
				}},
			} {
				_, want := s.do(t.Context(), embedded)
				_, got := s.do(t.Context(), remote)
				if outcome(nil, got) != outcome(nil, want) {
					t.Errorf("%s: remote %v, embedded %v", s.name, got, want)
				}
			}
		})
	}
}

// Many clients of one node edit one document, and nothing is lost.
func TestRemoteEditorsLoseNothing(t *testing.T) {
	url := serve(t, open(t), false)
	var wg sync.WaitGroup
	for range 8 {
		c := dial(t, url, nil)
		for range 4 {
			wg.Go(func() {
				if _, err := tiering.Edit(t.Context(), c, "docs", "n", func(n *int) error { *n++; return nil }); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n, _, err := tiering.GetAs[int](t.Context(), dial(t, url, nil), "docs", "n", nil); err != nil || n != 32 {
		t.Fatalf("got %d, %v", n, err)
	}
}

// A watch from now that loses its connection before it has seen anything goes on
// from where it began: what was written meanwhile is not missed.
func TestAQuietWatchMissesNothing(t *testing.T) {
	for name, before := range map[string]int{"on a store that is empty": 0, "on one that is not": 3} {
		t.Run(name, func(t *testing.T) {
			node := open(t)
			api, err := server.New(server.Options{As: func(p tiering.Principal) tiering.Service { return node.As(p) }})
			if err != nil {
				t.Fatal(err)
			}
			cut, mend := make(chan struct{}), make(chan struct{})
			connections := make(chan int, 2)
			connections <- 1
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				n := <-connections
				connections <- n + 1
				if n == 1 {
					go func() { <-cut; cancel() }()
				} else {
					<-mend
				}
				api.Handler().ServeHTTP(w, r.WithContext(ctx))
			}))
			t.Cleanup(h.Close)
			for i := range before {
				if _, err := tiering.Create(t.Context(), node, "docs", fmt.Sprint("old", i), i); err != nil {
					t.Fatal(err)
				}
			}
			w, err := dial(t, h.URL, nil).Watch(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Close() })
			close(cut)
			if _, err := tiering.Create(t.Context(), node, "docs", "new", 1); err != nil {
				t.Fatal(err)
			}
			close(mend)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if ev, err := w.Next(ctx); err != nil || ev.Key != "new" {
				t.Fatalf("got %+v, %v", ev, err)
			}
		})
	}
}

// outcome is what a call answered, as text, without what differs between any
// two stores: times, epochs, random ids, and the versions of ephemeral keys,
// which are a clock's.
func outcome(v any, err error) string {
	var b bytes.Buffer
	var e *tiering.Error
	switch {
	case errors.Is(err, tiering.ErrInvalid) && errors.As(err, &e) && e.Siblings == nil:
		// The API may refuse the same thing earlier, in words of its own.
		fmt.Fprintf(&b, "%s: %s %s", e.Op, e.Key, e.Code)
	case errors.As(err, &e):
		fmt.Fprintf(&b, "%s: %s %s %d at %q, %d stands, siblings %q, failed op %v %d",
			e.Op, e.Key, e.Code, e.Status(), e.Pointer, e.CurrentVersion, e.Siblings, e.Batch, e.FailedOp)
	case err != nil:
		return "not an *Error: " + err.Error()
	case v == nil || reflect.ValueOf(v).Kind() == reflect.Pointer && reflect.ValueOf(v).IsNil():
		return "ok"
	default:
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return err.Error()
		}
	}
	s := b.String()
	for _, n := range noise {
		s = n.re.ReplaceAllString(s, n.to)
	}
	return s
}

var noise = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`"next_cursor":"[^"]+"`), `"next_cursor":"CURSOR"`},
	{regexp.MustCompile(`"version":\d{16}\b`), `"version":CLOCK`},
	// Which writes share a transaction, and so a position, is a matter of time.
	{regexp.MustCompile(`"ID":"[^"]+\.\d+\.\d+"`), `"ID":"EPOCH.POS.INDEX"`},
	{regexp.MustCompile(`tierd_[a-z0-9]+_[a-z0-9]+_`), "tierd_SECRET_"},
	{regexp.MustCompile(`"id":"[a-z2-7]{16}"`), `"id":"RANDOM"`},
	{regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}(-[0-9a-z]+)*`), "SEGMENT"},
	{regexp.MustCompile(`hmac-sha256:[0-9a-f]{64}`), "SUBJECT"},
	{regexp.MustCompile(`\b[0-9a-hjkmnp-tv-z]{26}(-\d+\.tseg)?`), "SEGMENT"},
}

func utc(m tiering.Meta) tiering.Meta {
	m.CreatedAt, m.UpdatedAt, m.ExpiresAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC(), m.ExpiresAt.UTC()
	return m
}

// A watch ends for good when its API key is revoked: the client makes no new
// connections that could only be refused.
func TestAWatchEndsWhenItsKeyIsRevoked(t *testing.T) {
	node := open(t)
	key, err := node.CreateKey(t.Context(), tiering.APIKey{})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, node, true), &client.Options{APIKey: key.Secret})
	w, err := c.Watch(t.Context(), &tiering.WatchOptions{Namespace: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := node.RevokeKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Put(t.Context(), "docs", "secret", []byte(`1`), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if ev, err := w.Next(ctx); !errors.Is(err, tiering.ErrUnauthenticated) {
			t.Fatalf("got %+v, %v", ev, err)
		}
	}
}
