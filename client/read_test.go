package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

func TestGetReadsEverythingThatHeadersSay(t *testing.T) {
	body := `{"n":1.10,"s":"` + "\u20ac" + `\u0000"}`
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	full := func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("ETag", `"9007199254740993"`)
		h.Set("Tierd-Tier", "cold")
		h.Set("Tierd-Stale", "true")
		h.Set("Tierd-Digest", tiering.DigestOf([]byte(body)).String())
		h.Set("Tierd-Created-At", at.Format(time.RFC3339Nano))
		h.Set("Tierd-Updated-At", at.Add(time.Hour).Format(time.RFC3339Nano))
		h.Set("Tierd-Expires-At", at.Add(2*time.Hour).Format(time.RFC3339Nano))
		h.Set("Last-Modified", at.Add(time.Hour).Format(http.TimeFormat))
		h.Set("Tierd-User", url.PathEscape("ada/ü %"))
		h.Set("Tierd-Pinned", "true")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		io.WriteString(w, body)
	}
	want := tiering.Meta{
		Namespace: "n", ID: "a/k", Version: 9007199254740993, Digest: tiering.DigestOf([]byte(body)), Size: int64(len(body)),
		CreatedAt: at, UpdatedAt: at.Add(time.Hour), ExpiresAt: at.Add(2 * time.Hour), User: "ada/ü %", Pinned: true,
	}
	c, _ := dial(t, nil, full)
	doc, err := c.Get(t.Context(), "n", "a/k", nil)
	if err != nil || !reflect.DeepEqual(doc.Meta, want) || string(doc.Body) != body || doc.Tier != tiering.Cold || !doc.Stale || doc.Default != "" {
		t.Fatalf("got %+v, %v", doc, err)
	}
	m, err := c.Head(t.Context(), "n", "a/k", nil)
	if err != nil || !reflect.DeepEqual(*m, want) {
		t.Fatalf("head: got %+v, %v", m, err)
	}
}

func TestAGetFromAPlainNode(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	t.Run("Last-Modified stands in for the exact time, a weak tag for a strong one", func(t *testing.T) {
		c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `W/"7"`)
			w.Header().Set("Last-Modified", at.Format(http.TimeFormat))
			io.WriteString(w, `1`)
		})
		doc, err := c.Get(t.Context(), "n", "k", nil)
		if err != nil || doc.Version != 7 || !doc.UpdatedAt.Equal(at) || doc.Size != 1 {
			t.Fatalf("got %+v, %v", doc, err)
		}
	})
	t.Run("a default has no version", func(t *testing.T) {
		c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Tierd-Default", "absent")
			io.WriteString(w, `{}`)
		})
		doc, err := c.Get(t.Context(), "n", "k", nil)
		if err != nil || doc.Version != 0 || doc.Default != "absent" || string(doc.Body) != `{}` {
			t.Fatalf("got %+v, %v", doc, err)
		}
	})
	for name, tag := range map[string]string{"no version and no default": "", "a tag of another server": `"abc-gzip"`} {
		t.Run(name, func(t *testing.T) {
			c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if tag != "" {
					w.Header().Set("ETag", tag)
				}
				io.WriteString(w, `{"status":"ok"}`)
			})
			if _, err := c.Get(t.Context(), "n", "k", nil); !errors.Is(err, tiering.ErrInvalid) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestTheBytesAreCheckedAgainstTheirDigest(t *testing.T) {
	wrong := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Tierd-Digest", tiering.DigestOf([]byte(`{"a":1}`)).String())
		io.WriteString(w, `{"a":2}`)
	}
	c, s := dial(t, nil, wrong)
	if _, err := c.Get(t.Context(), "n", "k", nil); !errors.Is(err, tiering.ErrCorrupt) || len(s.requests()) != 1 {
		t.Fatalf("got %v after %d tries", err, len(s.requests()))
	}
	// The digest is the document's; a part of it has another.
	if doc, err := c.Get(t.Context(), "n", "k", &tiering.GetOptions{Pointer: "/a"}); err != nil || string(doc.Body) != `{"a":2}` {
		t.Fatalf("a part: %v", err)
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	ctx := context.Background()
	ttl, v := &tiering.TTL{Life: 30 * time.Minute}, int64(4)
	for _, c := range []struct {
		name, method, path, query, body string
		header                          map[string]string
		call                            func(c *Client) error
	}{
		{"get", "GET", "/v1/state/n/k", "as_of=2026-01-02T03%3A04%3A05.000000006Z&pointer=%2Fa~1b", "", nil, func(c *Client) error {
			_, err := c.Get(ctx, "n", "k", &tiering.GetOptions{AsOf: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Pointer: "/a~1b"})
			return err
		}},
		{"get strongly, without a default", "GET", "/v1/state/n/k", "consistency=strong&no_default=true", "", nil, func(c *Client) error {
			_, err := c.Get(ctx, "n", "k", &tiering.GetOptions{Strong: true, NoDefault: true})
			return err
		}},
		{"get with an own default, which the policy's never joins", "GET", "/v1/state/n/k", "default=%7B%22a%22%3A%22%26%22%7D&min_version=4", "", nil, func(c *Client) error {
			_, err := c.Get(ctx, "n", "k", &tiering.GetOptions{Default: json.RawMessage(`{"a":"&"}`), NoDefault: true, MinVersion: 4})
			return err
		}},
		{"head of a version", "HEAD", "/v1/state/n/k", "version=4", "", nil, func(c *Client) error {
			_, err := c.Head(ctx, "n", "k", &tiering.GetOptions{Version: 4})
			return err
		}},
		{"put if a version stands", "PUT", "/v1/state/n/k", "ttl=30m&user=ada", `{"a":1.10}`,
			map[string]string{"If-Match": `"4"`, "Content-Type": "application/json"}, func(c *Client) error {
				_, err := c.Put(ctx, "n", "k", []byte(`{"a":1.10}`), &tiering.PutOptions{User: "ada", WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(4), TTL: ttl}})
				return err
			}},
		{"put if nothing stands", "PUT", "/v1/state/n/k", "ttl=none", `1`, map[string]string{"If-None-Match": "*", "If-Match": ""}, func(c *Client) error {
			_, err := c.Put(ctx, "n", "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(0), TTL: &tiering.TTL{None: true}}})
			return err
		}},
		{"patch if anything stands", "PATCH", "/v1/state/n/k", "", `[]`,
			map[string]string{"If-Match": "*", "Content-Type": "application/json-patch+json"}, func(c *Client) error {
				_, err := c.Patch(ctx, "n", "k", tiering.JSONPatch, []byte(`[]`), &tiering.WriteOptions{If: tiering.IfExists()})
				return err
			}},
		{"edit", "POST", "/v1/edit/n/k", "", `{"ops":[{"op":"increment","pointer":"/a","by":1.10},{"op":"append","pointer":"/<b>","value":"<&>"}]}` + "\n",
			map[string]string{"If-Match": `"4"`}, func(c *Client) error {
				_, err := c.Apply(ctx, "n", "k", []tiering.EditOp{
					{Op: "increment", Pointer: "/a", By: json.RawMessage(`1.10`)}, {Op: "append", Pointer: "/<b>", Value: json.RawMessage(`"<&>"`)},
				}, &tiering.WriteOptions{If: tiering.IfVersion(4)})
				return err
			}},
		{"delete", "DELETE", "/v1/state/n/k", "", "", map[string]string{"If-Match": `"4"`}, func(c *Client) error {
			_, err := c.Delete(ctx, "n", "k", &tiering.WriteOptions{If: tiering.IfVersion(4)})
			return err
		}},
		{"touch", "POST", "/v1/touch/n/k", "", `{"ttl":"30m","exact":true}` + "\n", nil, func(c *Client) error {
			_, err := c.Touch(ctx, "n", "k", &tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: ttl}, Exact: true})
			return err
		}},
		{"pin", "PUT", "/v1/pin/n/k", "", "", nil, func(c *Client) error { _, err := c.Pin(ctx, "n", "k", true, nil); return err }},
		{"unpin", "DELETE", "/v1/pin/n/k", "", "", nil, func(c *Client) error { _, err := c.Pin(ctx, "n", "k", false, nil); return err }},
		{"rollback", "POST", "/v1/rollback/n/k", "", `{"version":4}` + "\n", nil, func(c *Client) error { _, err := c.Rollback(ctx, "n", "k", 4, nil); return err }},
		{"list", "GET", "/v1/state/n", "cursor=c&include=data&limit=5&prefix=a%2F&user=ada", "", nil, func(c *Client) error {
			_, err := c.List(ctx, "n", &tiering.ListOptions{Prefix: "a/", User: "ada", Limit: 5, Cursor: "c", Data: true})
			return err
		}},
		{"query", "POST", "/v1/query/n", "", `{"filter":{"a":"<"},"limit":2}` + "\n", nil, func(c *Client) error {
			_, err := c.Query(ctx, "n", &tiering.Query{Filter: json.RawMessage(`{"a":"<"}`), Limit: 2})
			return err
		}},
		{"history", "GET", "/v1/versions/n/k", "limit=2", "", nil, func(c *Client) error {
			_, err := c.History(ctx, "n", "k", &tiering.HistoryOptions{Limit: 2})
			return err
		}},
		{"diff", "GET", "/v1/diff/n/k", "from=1&to=2", "", nil, func(c *Client) error { _, err := c.Diff(ctx, "n", "k", 1, 2); return err }},
		{"explain", "GET", "/v1/explain/n/k", "", "", nil, func(c *Client) error { _, err := c.Explain(ctx, "n", "k"); return err }},
		{"batch", "POST", "/v1/batch", "", `{"atomic":true,"ops":[{"op":"put","namespace":"n","id":"k","data":{"a":"<1.10>"},"if_version":4}]}` + "\n",
			map[string]string{"Idempotency-Key": "mine"}, func(c *Client) error {
				_, err := c.Batch(ctx, &tiering.Batch{Atomic: true, IdempotencyKey: "mine", Ops: []tiering.BatchOp{
					{Op: "put", Namespace: "n", ID: "k", Data: json.RawMessage(`{"a":"<1.10>"}`), IfVersion: &v}}})
				return err
			}},
		{"namespaces", "GET", "/v1/namespaces", "", "", nil, func(c *Client) error { _, err := c.Namespaces(ctx); return err }},
		{"namespace", "GET", "/v1/namespaces/n", "", "", nil, func(c *Client) error { _, err := c.Namespace(ctx, "n"); return err }},
		{"set namespace", "PUT", "/v1/namespaces/n", "", `{"class":"session","ttl":"2h"}` + "\n", map[string]string{"If-None-Match": "*"}, func(c *Client) error {
			_, err := c.SetNamespace(ctx, "n", tiering.Policy{Class: tiering.ClassSession, TTL: tiering.Duration(2 * time.Hour)}, &tiering.WriteOptions{If: tiering.IfAbsent()})
			return err
		}},
		{"patch namespace", "PATCH", "/v1/namespaces/n", "", `{"ttl":null}`, map[string]string{"Content-Type": "application/merge-patch+json"}, func(c *Client) error {
			_, err := c.PatchNamespace(ctx, "n", []byte(`{"ttl":null}`), nil)
			return err
		}},
		{"delete namespace", "DELETE", "/v1/namespaces/n", "", "", nil, func(c *Client) error { return c.DeleteNamespace(ctx, "n", nil) }},
		{"create key", "POST", "/v1/keys", "", `{"name":"a","scope":{"verbs":["read"]}}` + "\n", map[string]string{"Idempotency-Key": ""}, func(c *Client) error {
			_, err := c.CreateKey(ctx, tiering.APIKey{Name: "a", Scope: tiering.Scope{Verbs: []tiering.Verb{tiering.VerbRead}}})
			return err
		}},
		{"keys", "GET", "/v1/keys", "", "", nil, func(c *Client) error { _, err := c.APIKeys(ctx); return err }},
		{"status", "GET", "/v1/status", "", "", nil, func(c *Client) error { _, err := c.Status(ctx); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, s := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				io.WriteString(w, `{}`)
			})
			if err := c.call(cl); err != nil {
				t.Fatal(err)
			}
			r := s.requests()[0]
			want := c.path
			if c.query != "" {
				want += "?" + c.query
			}
			if r.method != c.method || r.uri != want || r.body != c.body {
				t.Errorf("asked %s %s %q\nwant  %s %s %q", r.method, r.uri, r.body, c.method, want, c.body)
			}
			for name, value := range c.header {
				if got := r.header.Get(name); got != value {
					t.Errorf("%s: %q, want %q", name, got, value)
				}
			}
		})
	}
}

func TestReceipts(t *testing.T) {
	t.Run("status and headers complete the body", func(t *testing.T) {
		c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Idempotent-Replayed", "true")
			w.Header().Set("Tierd-Warning", "size, depth")
			receipt(201, 3)(w, r)
		})
		got, err := c.Put(t.Context(), "n", "k", []byte(`1`), nil)
		if err != nil || !got.Created || !got.Replayed || !got.Hot || got.Version != 3 || fmt.Sprint(got.Warnings) != "[size depth]" {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
	t.Run("a delete's is in the headers", func(t *testing.T) {
		c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"8"`)
			w.Header().Set("Tierd-Hot", "true")
			w.WriteHeader(http.StatusNoContent)
		})
		got, err := c.Delete(t.Context(), "n", "k", nil)
		if err != nil || got.Version != 8 || got.ID != "k" || !got.Hot {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
	t.Run("a delete of what never was has no version", func(t *testing.T) {
		c, _ := dial(t, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
		if got, err := c.Delete(t.Context(), "n", "k", nil); err != nil || got.Version != 0 {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}
