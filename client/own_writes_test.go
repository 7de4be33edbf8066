package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// node is a key-value store that judges min_version as tierd does.
type node struct {
	mu      sync.Mutex
	version map[string]int64 // of the head, also of a tombstone
	live    map[string]bool
	last    int64
	mins    []string // min_version of every read, "strong" for a strong one
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := r.URL.Path[len("/v1/state/n/"):]
	switch r.Method {
	case http.MethodPut, http.MethodDelete:
		n.last++
		n.version[id], n.live[id] = n.last, r.Method == http.MethodPut
		if r.Method == http.MethodPut {
			receipt(200, n.last)(w, r)
			return
		}
		w.Header().Set("ETag", strconv.Quote(fmt.Sprint(n.last)))
		w.WriteHeader(http.StatusNoContent)
	default:
		q := r.URL.Query()
		least := q.Get("min_version")
		if q.Get("consistency") == "strong" {
			least += "strong"
		}
		n.mins = append(n.mins, least)
		v, _ := strconv.ParseInt(q.Get("min_version"), 10, 64)
		switch {
		case n.version[id] < v:
			problem(&tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: n.version[id]})(w, r)
		case !n.live[id]:
			problem(tiering.Errorf(tiering.CodeNotFound, "nothing stands"))(w, r)
		default:
			document(n.version[id], `1`)(w, r)
		}
	}
}

func (n *node) asked() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("%q", n.mins)
}

func TestReadingOwnWrites(t *testing.T) {
	start := func(t *testing.T, o *Options) (*Client, *node) {
		n := &node{version: map[string]int64{}, live: map[string]bool{}}
		if o == nil {
			o = &Options{Retry: quick}
		}
		c, _ := dial(t, o, n.ServeHTTP)
		return c, n
	}
	put := func(t *testing.T, c *Client, id string) {
		t.Helper()
		if _, err := c.Put(t.Context(), "n", id, []byte(`1`), nil); err != nil {
			t.Fatal(err)
		}
	}
	get := func(t *testing.T, c *Client, id string, o *tiering.GetOptions, want tiering.Code) {
		t.Helper()
		if _, err := c.Get(t.Context(), "n", id, o); tiering.CodeOf(err) != want {
			t.Fatalf("got %v, want %q", err, want)
		}
	}
	for _, c := range []struct {
		name string
		o    *Options
		run  func(t *testing.T, c *Client, n *node)
		asks string
	}{
		{"a plain get asks for the own write", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			put(t, c, "k")
			get(t, c, "k", nil, "")
			if _, err := c.Head(t.Context(), "n", "k", nil); err != nil {
				t.Fatal(err)
			}
		}, `["2" "2"]`},
		{"another key is none of its business", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			get(t, c, "other", nil, tiering.CodeNotFound)
		}, `[""]`},
		{"after an own delete the value before it is not seen", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			if _, err := c.Delete(t.Context(), "n", "k", nil); err != nil {
				t.Fatal(err)
			}
			get(t, c, "k", nil, tiering.CodeNotFound)
		}, `["2"]`},
		{"strong, version and as_of say themselves what they want", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			get(t, c, "k", &tiering.GetOptions{Strong: true}, "")
			get(t, c, "k", &tiering.GetOptions{Version: 1}, "")
			get(t, c, "k", &tiering.GetOptions{AsOf: time.Unix(1, 0)}, "")
		}, `["strong" "" ""]`},
		{"a higher min_version of the caller's stands, and its 412", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			get(t, c, "k", &tiering.GetOptions{MinVersion: 9}, tiering.CodeVersionConflict)
		}, `["9"]`},
		{"a lower one is raised", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "other")
			put(t, c, "k")
			get(t, c, "k", &tiering.GetOptions{MinVersion: 1}, "")
		}, `["2"]`},
		{"what warm no longer knows is forgotten", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			put(t, c, "k")
			n.mu.Lock()
			n.version["k"] = 1 // warm was restored from an earlier state
			n.mu.Unlock()
			get(t, c, "k", nil, "")
			get(t, c, "k", nil, "")
		}, `["2" "strong" ""]`},
		{"and what it never knew is not found", nil, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			n.mu.Lock()
			n.version["k"], n.live["k"] = 0, false
			n.mu.Unlock()
			get(t, c, "k", nil, tiering.CodeNotFound)
		}, `["1" "strong"]`},
		{"switched off", &Options{Retry: quick, RememberWrites: -1}, func(t *testing.T, c *Client, n *node) {
			put(t, c, "k")
			get(t, c, "k", nil, "")
		}, `[""]`},
		{"bounded", &Options{Retry: quick, RememberWrites: 2}, func(t *testing.T, c *Client, n *node) {
			for _, id := range []string{"a", "b", "c"} {
				put(t, c, id)
			}
			for _, id := range []string{"a", "b", "c"} {
				get(t, c, id, nil, "")
			}
		}, `["" "2" "3"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, n := start(t, c.o)
			c.run(t, cl, n)
			if got := n.asked(); got != c.asks {
				t.Fatalf("asked for %s, want %s", got, c.asks)
			}
		})
	}
}

func TestEveryWriteIsRemembered(t *testing.T) {
	ctx := context.Background()
	for name, write := range map[string]func(c *Client) error{
		"patch": func(c *Client) error {
			_, err := c.Patch(ctx, "n", "k", tiering.MergePatch, []byte(`{}`), nil)
			return err
		},
		"edit":     func(c *Client) error { _, err := c.Apply(ctx, "n", "k", nil, nil); return err },
		"rollback": func(c *Client) error { _, err := c.Rollback(ctx, "n", "k", 1, nil); return err },
		"batch": func(c *Client) error {
			_, err := c.Batch(ctx, &tiering.Batch{Ops: []tiering.BatchOp{{Op: "get", Namespace: "n", ID: "o"}, {Op: "put", Namespace: "n", ID: "k"}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := receipt(200, 6)
			if name == "batch" {
				answer = func(w http.ResponseWriter, r *http.Request) {
					json.NewEncoder(w).Encode(tiering.BatchResult{Results: []tiering.OpResult{
						{Status: 200, Document: &tiering.Document{Meta: tiering.Meta{Version: 9}}},
						{Status: 200, Receipt: &tiering.Receipt{Meta: tiering.Meta{Version: 6}}},
					}})
				}
			}
			c, s := dial(t, nil, answer, document(6, `1`))
			if err := write(c); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Get(ctx, "n", "k", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Get(ctx, "n", "o", nil); err != nil {
				t.Fatal(err)
			}
			if a, b := s.requests()[1].uri, s.requests()[2].uri; a != "/v1/state/n/k?min_version=6" || b != "/v1/state/n/o" {
				t.Fatalf("asked %s, %s", a, b)
			}
		})
	}
	t.Run("a replayed result does not lower what is known", func(t *testing.T) {
		c, s := dial(t, nil, receipt(200, 6), receipt(200, 4), document(6, `1`))
		for range 2 {
			if _, err := c.Put(ctx, "n", "k", []byte(`1`), nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Get(ctx, "n", "k", nil); err != nil || s.requests()[2].uri != "/v1/state/n/k?min_version=6" {
			t.Fatalf("asked %s, %v", s.requests()[2].uri, err)
		}
	})
}
