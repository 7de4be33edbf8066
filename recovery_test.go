package tierd_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // damages rows behind the node's back

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm/sqlite"
)

// TestRecovery: what a node archived comes back from one bucket alone, and
// an old condition does not fit any more.
func TestRecovery(t *testing.T) {
	ctx := t.Context()
	c := tierd.Config{Data: t.TempDir()}
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	put := func(body string) {
		t.Helper()
		if _, err := n.Put(ctx, "prefs", "ada", []byte(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"n":1.10}`)
	put(`{"n":2}`)
	key, err := n.CreateKey(ctx, tiering.APIKey{Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	put(`{"n":3}`)
	if err := n.RevokeKey(ctx, key.ID); err != nil {
		t.Fatal(err)
	}
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	if r, err := n.Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthRestore}); err != nil || !r.Sound() || r.Documents == 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
	if r, err := n.Drill(ctx, tierd.DrillOptions{From: "primary", Scratch: t.TempDir()}); err != nil || !r.Sound() || r.Documents == 0 {
		t.Errorf("drill: %+v, %v", r, err)
	}
	if _, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "backup"}); !errors.Is(err, tierd.ErrInUse) {
		t.Errorf("a rebuild beside the node: %v", err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "backup"}); err == nil || !strings.Contains(err.Error(), filepath.Join(c.Data, "warm.db")+" is not empty") {
		t.Errorf("a rebuild over the store: %v", err)
	}
	if _, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "both"}); !errors.Is(err, tiering.ErrInvalid) {
		t.Errorf("from two buckets: %v", err)
	}
	for _, f := range []string{"warm.db", "warm.db-wal", "warm.db-shm", "cold"} {
		if err := os.RemoveAll(filepath.Join(c.Data, f)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "backup", AsOf: at})
	if err != nil || r.Documents == 0 || r.Revoked != 1 {
		t.Fatalf("rebuild: %+v, %v", r, err)
	}
	n = open(t, c)
	d, err := n.Get(ctx, "prefs", "ada", nil)
	if err != nil || string(d.Body) != `{"n":2}` {
		t.Errorf("as of then it is %+v, %v", d, err)
	}
	if d, err = n.Get(ctx, "prefs", "ada", &tiering.GetOptions{Version: 1}); err != nil || string(d.Body) != `{"n":1.10}` || d.Tier != tiering.Cold {
		t.Errorf("its history is %+v, %v", d, err)
	}
	if _, err := n.Authenticate(ctx, key.Secret); !errors.Is(err, tiering.ErrUnauthenticated) {
		t.Errorf("a revoked key: %v", err)
	}
	rc, err := n.Put(ctx, "prefs", "ada", []byte(`{}`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(2)}})
	if err != nil || rc.Version <= r.Floor {
		t.Errorf("the next version is %+v, %v, the floor %d", rc, err, r.Floor)
	}
}

// TestDamagedBytesInWarmAreMended: a read that meets bytes which rotted is
// served from cold, and puts the right ones in their place.
func TestDamagedBytesInWarmAreMended(t *testing.T) {
	ctx := t.Context()
	long := `"` + strings.Repeat("a long document is compressed ", 200) + `"`
	for name, body := range map[string]string{"stored as it is": `{"n":1.10}`, "compressed": long} {
		t.Run(name, func(t *testing.T) {
			c := tierd.Config{Data: t.TempDir()}
			reopen := func(n *tierd.Node) *tierd.Node {
				t.Helper()
				if n != nil {
					if err := n.Close(ctx); err != nil {
						t.Fatal(err)
					}
				}
				n, err := tierd.Open(ctx, c)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			n := reopen(nil)
			for _, b := range []string{body, `"newer"`} {
				if _, err := n.Put(ctx, "notes", "current", []byte(b), nil); err != nil {
					t.Fatal(err)
				}
			}
			n = reopen(n)
			db, err := sql.Open("sqlite", "file:"+filepath.Join(c.Data, "warm.db")+"?_pragma=busy_timeout(5000)")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(`UPDATE version SET body = substr(body, 1, 2) || X'a5a5' || substr(body, 5)`); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, want := range []tiering.Tier{tiering.Cold, tiering.Warm} {
				d, err := n.Get(ctx, "notes", "current", nil)
				if err != nil || string(d.Body) != `"newer"` || d.Tier != want {
					t.Errorf("the document is %+v, %v, want it from %s", d, err, want)
				}
				d, err = n.Get(ctx, "notes", "current", &tiering.GetOptions{Version: 1})
				if err != nil || string(d.Body) != body || d.Tier != want {
					t.Errorf("its first version is %+v, %v, want it from %s", d, err, want)
				}
				n = reopen(n)
			}
			if err := n.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// A store that lost its warm database must not start a second life beside the
// first: versions would begin again below those in cold.
func TestAnEmptyStoreBesideFullBucketsIsRefused(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	n, err := tierd.Open(ctx, tierd.Config{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Put(ctx, "prefs", "ada", []byte(`{"n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(ctx); err != nil { // archives
		t.Fatal(err)
	}
	for _, f := range []string{"warm.db", "warm.db-wal", "warm.db-shm"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if n, err = tierd.Open(ctx, tierd.Config{Data: dir}); !errors.Is(err, tiering.ErrWrongKind) || !strings.Contains(err.Error(), "tierd rebuild") {
		if err == nil {
			n.Close(ctx)
		}
		t.Fatalf("open: %v, want a refusal that names tierd rebuild", err)
	}
	if _, err := tierd.Rebuild(ctx, tierd.Config{Data: dir}, tierd.RebuildOptions{From: "backup"}); err != nil {
		t.Fatal(err)
	}
	n = open(t, tierd.Config{Data: dir})
	if d, err := n.Get(ctx, "prefs", "ada", nil); err != nil || string(d.Body) != `{"n":1}` {
		t.Fatalf("after the rebuild: %+v, %v", d, err)
	}
}

// TestADrillRemovesWhatKilledOnesLeft, and nothing that is in use or is no drill's.
func TestADrillRemovesWhatKilledOnesLeft(t *testing.T) {
	n := open(t, tierd.Config{Data: t.TempDir()})
	if _, err := n.Put(t.Context(), "prefs", "ada", []byte(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	stays := []string{"a-folder-of-others", "tierd-drill-that-runs", "tierd-drill-without-a-store"}
	for _, name := range append(stays, "tierd-drill-that-was-killed") {
		if err := os.Mkdir(filepath.Join(scratch, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	store := func(folder string) *sqlite.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(scratch, folder, "scratch.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, dead := range []string{"a-folder-of-others", "tierd-drill-that-was-killed"} {
		if err := store(dead).Close(); err != nil {
			t.Fatal(err)
		}
	}
	running := store("tierd-drill-that-runs")
	defer running.Close()
	if r, err := n.Drill(t.Context(), tierd.DrillOptions{From: "primary", Scratch: scratch}); err != nil || !r.Sound() {
		t.Errorf("drill: %+v, %v", r, err)
	}
	entries, err := os.ReadDir(scratch)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, stays) {
		t.Errorf("there are %q, want %q", left, stays)
	}
}
