package tierd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

func open(t *testing.T, c tierd.Config) *tierd.Node {
	t.Helper()
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	n, err := tierd.Open(t.Context(), c)
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

func TestDocumentLifeOnTheEmbeddedNode(t *testing.T) {
	ctx := t.Context()
	n := open(t, tierd.Config{})
	rc, err := n.Put(ctx, "prefs", "ada", []byte(`{ "seat": "window", "n": 1.10 }`), nil)
	if err != nil || rc.Version != 1 || !rc.Created || !rc.Hot {
		t.Fatalf("put: %+v, %v", rc, err)
	}
	d, err := n.Get(ctx, "prefs", "ada", nil)
	if err != nil || string(d.Body) != `{"seat":"window","n":1.10}` || d.Tier != tiering.Hot {
		t.Fatalf("get: %+v, %v", d, err)
	}
	if rc, err = n.Patch(ctx, "prefs", "ada", tiering.MergePatch, []byte(`{"meal":"vegan"}`), nil); err != nil || rc.Version != 2 {
		t.Fatalf("patch: %+v, %v", rc, err)
	}
	_, err = n.Put(ctx, "prefs", "ada", []byte(`{}`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(1)}})
	var e *tiering.Error
	if !errors.As(err, &e) || e.Code != tiering.CodeVersionConflict || e.CurrentVersion != 2 {
		t.Fatalf("stale put: %v", err)
	}
	if rc, err = n.Rollback(ctx, "prefs", "ada", 1, nil); err != nil || rc.Version != 3 {
		t.Fatalf("rollback: %+v, %v", rc, err)
	}
	if d, err = n.Get(ctx, "prefs", "ada", &tiering.GetOptions{Strong: true}); err != nil || string(d.Body) != `{"seat":"window","n":1.10}` {
		t.Fatalf("strong get: %+v, %v", d, err)
	}
	h, err := n.History(ctx, "prefs", "ada", nil)
	if err != nil || len(h.Versions) != 3 {
		t.Fatalf("history: %+v, %v", h, err)
	}
	diff, err := n.Diff(ctx, "prefs", "ada", 1, 2)
	if err != nil || string(diff) != `[{"op":"add","path":"/meal","value":"vegan"}]` {
		t.Fatalf("diff: %s, %v", diff, err)
	}
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	x, err := n.Explain(ctx, "prefs", "ada")
	if err != nil || len(x.Copies) != 4 || x.Next.Move != tiering.MoveDemote {
		t.Fatalf("explain: %+v, %v", x, err)
	}
	if rc, err = n.Delete(ctx, "prefs", "ada", nil); err != nil || rc.Version != 4 {
		t.Fatalf("delete: %+v, %v", rc, err)
	}
	if _, err = n.Get(ctx, "prefs", "ada", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Fatalf("get after delete: %v", err)
	}
}

func TestConcurrentIncrementsAreExact(t *testing.T) {
	ctx := t.Context()
	n := open(t, tierd.Config{})
	const writers, each = 64, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if _, err := n.Apply(ctx, "counters", "c", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	d, err := n.Get(ctx, "counters", "c", nil)
	if err != nil || string(d.Body) != fmt.Sprintf(`{"n":%d}`, writers*each) || d.Version != writers*each {
		t.Fatalf("%s version %d, %v", d.Body, d.Version, err)
	}
}
