package tierd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// TestALogIsRebuiltAndErased: a log comes back from the backup alone, whole and in
// order, and goes on above where it was; an erase of its owner leaves nothing of
// it anywhere.
func TestALogIsRebuiltAndErased(t *testing.T) {
	ctx := t.Context()
	c := tierd.Config{Data: t.TempDir()}
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	const canary = "tell-nobody-of-this"
	for i := range 30 {
		entry := json.RawMessage(fmt.Sprintf(`{"n":%d,"text":%q}`, i+1, canary))
		if _, err := n.Append(ctx, "chats", "7", []json.RawMessage{entry}, &tiering.AppendOptions{User: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := n.Entries(ctx, "chats", "7", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.Archive(ctx), n.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"warm.db", "warm.db-wal", "warm.db-shm", "cold"} {
		if err := os.RemoveAll(filepath.Join(c.Data, lost)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "backup"}); err != nil {
		t.Fatal(err)
	}
	if n, err = tierd.Open(ctx, c); err != nil {
		t.Fatal(err)
	}
	after, err := n.Entries(ctx, "chats", "7", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Entries) != 30 {
		t.Fatalf("%d of 30 entries came back", len(after.Entries))
	}
	for i, e := range after.Entries {
		if want := before.Entries[i]; e.Seq != want.Seq || string(e.Data) != string(want.Data) || !e.Time.Equal(want.Time) {
			t.Errorf("entry %d is %+v, was %+v", i, e, want)
		}
	}
	a, err := n.Append(ctx, "chats", "7", []json.RawMessage{[]byte(`31`)}, nil)
	if err != nil || a.FirstSeq <= 1<<32 || a.Created {
		t.Errorf("the next append: %+v, %v", a, err)
	}
	page, err := n.Entries(ctx, "chats", "7", &tiering.EntriesOptions{After: 29})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Seq != 30 || page.Entries[1].Seq != a.FirstSeq {
		t.Errorf("over the gap: %+v, %v", page, err)
	}
	receipt, err := n.Erase(ctx, tiering.EraseRequest{User: "ann", DryRun: new(bool)})
	for err == nil && receipt.State != "done" {
		receipt, err = n.Erasure(ctx, receipt.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Entries(ctx, "chats", "7", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("the erased log: %v", err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(c.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), canary) {
			t.Errorf("%s holds it still", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
