package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func TestEphemeralNamespacesRefuseTheKey(t *testing.T) {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "" {
			problem(tiering.Errorf(tiering.CodeUnsupported, "ephemeral"))(w, r)
			return
		}
		receipt(201, 1)(w, r)
	}
	put := func(c *Client, o *tiering.PutOptions) error {
		_, err := c.Put(t.Context(), "n", "k", []byte(`1`), o)
		return err
	}
	t.Run("so the client's own is left out, and remembered to be", func(t *testing.T) {
		c, s := dial(t, nil, refuse)
		if err := errors.Join(put(c, nil), put(c, nil)); err != nil || len(s.requests()) != 3 {
			t.Fatalf("got %v after %d requests", err, len(s.requests()))
		}
	})
	t.Run("but the caller's is not", func(t *testing.T) {
		c, s := dial(t, nil, refuse)
		err := put(c, &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "mine"}})
		if !errors.Is(err, tiering.ErrUnsupported) || len(s.requests()) != 1 {
			t.Fatalf("got %v after %d requests", err, len(s.requests()))
		}
	})
	t.Run("and a write without one is sent once", func(t *testing.T) {
		c, s := dial(t, nil, refuse, receipt(201, 1), unavailable())
		if err := put(c, nil); err != nil {
			t.Fatal(err)
		}
		if err := put(c, nil); !errors.Is(err, tiering.ErrUnavailable) || len(s.requests()) != 3 {
			t.Fatalf("got %v after %d requests", err, len(s.requests()))
		}
	})
	t.Run("what is unsupported anyway stays so, and nothing is remembered", func(t *testing.T) {
		never := problem(tiering.Errorf(tiering.CodeUnsupported, "no history"))
		c, s := dial(t, nil, never, never, receipt(201, 1))
		if _, err := c.Rollback(t.Context(), "n", "k", 1, nil); !errors.Is(err, tiering.ErrUnsupported) {
			t.Fatal(err)
		}
		if err := put(c, nil); err != nil || s.requests()[2].header.Get("Idempotency-Key") == "" {
			t.Fatalf("got %v, key %q", err, s.requests()[2].header.Get("Idempotency-Key"))
		}
	})
}

func TestABatchWithAnEphemeralNamespace(t *testing.T) {
	refused := tiering.OpResult{Status: 400, Error: tiering.ProblemOf(tiering.Errorf(tiering.CodeUnsupported, "ephemeral"))}
	missing := tiering.OpResult{Status: 404, Error: tiering.ProblemOf(tiering.Errorf(tiering.CodeNotFound, ""))}
	wrote := func(v int64) tiering.OpResult {
		return tiering.OpResult{Status: 201, Receipt: &tiering.Receipt{Meta: tiering.Meta{Version: v}}}
	}
	answers := func(results ...tiering.OpResult) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			json.NewEncoder(w).Encode(tiering.BatchResult{Results: results})
		}
	}
	op := func(op, ns string) tiering.BatchOp { return tiering.BatchOp{Op: op, Namespace: ns, ID: "k"} }
	ops := []tiering.BatchOp{op("put", "durable"), op("put", "eph"), op("get", "eph")}

	t.Run("its operations are sent again without the key", func(t *testing.T) {
		c, s := dial(t, nil, answers(wrote(1), refused, missing), answers(wrote(7), tiering.OpResult{Status: 200}))
		res, err := c.Batch(t.Context(), &tiering.Batch{Ops: ops})
		if err != nil || res.Results[0].Receipt.Version != 1 || res.Results[1].Receipt.Version != 7 || res.Results[2].Status != 200 {
			t.Fatalf("got %+v, %v", res, err)
		}
		r := s.requests()
		if len(r) != 2 || r[1].header.Get("Idempotency-Key") != "" || strings.Contains(r[1].body, "durable") || strings.Count(r[1].body, `"eph"`) != 2 {
			t.Fatalf("sent %+v", r)
		}
	})
	t.Run("an outage then is the result of those alone", func(t *testing.T) {
		c, _ := dial(t, nil, answers(wrote(1), refused, missing), unavailable())
		res, err := c.Batch(t.Context(), &tiering.Batch{Ops: ops})
		if err != nil || res.Results[0].Status != 201 || res.Results[1].Status != 503 || res.Results[2].Status != 503 {
			t.Fatalf("got %+v, %v", res, err)
		}
	})
	for name, c := range map[string]struct {
		batch   tiering.Batch
		results []tiering.OpResult
	}{
		"not where something was done":     {tiering.Batch{Ops: []tiering.BatchOp{op("put", "n"), op("append", "n")}}, []tiering.OpResult{wrote(1), refused}},
		"not where something may be done":  {tiering.Batch{Ops: []tiering.BatchOp{op("put", "n"), op("append", "n")}}, []tiering.OpResult{{Status: 503, Error: &tiering.Problem{Code: tiering.CodeUnavailable}}, refused}},
		"not under a key of the caller's":  {tiering.Batch{IdempotencyKey: "mine", Ops: []tiering.BatchOp{op("put", "eph")}}, []tiering.OpResult{refused}},
		"not where the answer is no match": {tiering.Batch{Ops: []tiering.BatchOp{op("put", "eph")}}, []tiering.OpResult{refused, refused}},
	} {
		t.Run(name, func(t *testing.T) {
			cl, s := dial(t, nil, answers(c.results...))
			res, err := cl.Batch(t.Context(), &c.batch)
			if err != nil || len(s.requests()) != 1 || len(res.Results) != len(c.results) {
				t.Fatalf("got %+v, %v after %d requests", res, err, len(s.requests()))
			}
		})
	}
}
