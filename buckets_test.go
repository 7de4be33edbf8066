package tierd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// A store is served with the buckets that it was written to: with others what
// is archived would be found nowhere. Buckets that moved are the same ones.
func TestAStoreIsServedWithItsBuckets(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return "dir:" + filepath.Join(base, name) }
	c := tierd.Config{Data: filepath.Join(base, "data"), Cold: at("cold"), Backup: at("backup")}
	starts := func(when string, c tierd.Config, serves bool) {
		t.Helper()
		n, err := tierd.Open(t.Context(), c)
		if serves != (err == nil) || !serves && (tiering.CodeOf(err) != tiering.CodeWrongKind || !strings.Contains(err.Error(), "verify --repair")) {
			t.Errorf("%s: %v, serves is to be %v", when, err, serves)
		}
		if err != nil {
			return
		}
		if _, err := n.Put(t.Context(), "prefs", "ada", []byte(`1`), nil); err != nil {
			t.Error(err)
		}
		if err := n.Archive(t.Context()); err != nil {
			t.Error(err)
		}
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	other := c
	other.Backup = at("other")
	starts("a new store", other, true)
	starts("another backup", c, false)
	starts("its own", other, true)
	elsewhere := other
	elsewhere.Cold = at("elsewhere")
	starts("another primary", elsewhere, false)
	starts("its own after a refusal", other, true)

	if err := os.Rename(filepath.Join(base, "other"), filepath.Join(base, "moved")); err != nil {
		t.Fatal(err)
	}
	moved := other
	moved.Backup = at("moved")
	starts("a backup that moved with its objects", moved, true)
	starts("where it was before", other, false)

	lost := moved
	lost.Backup = at("new")
	starts("a new backup in place of a lost one", lost, false)
	if _, err := tierd.Verify(t.Context(), lost, lifecycle.VerifyOptions{Repair: true}); err != nil {
		t.Fatal(err)
	}
	starts("once its copies were made", lost, true)
}
