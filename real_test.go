package tierd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// realTiers names Redis, PostgreSQL and two S3 servers, empty.
func realTiers(t *testing.T) tierd.Config {
	t.Helper()
	warm, _ := servicestest.Schema(t)
	return tierd.Config{
		Hot: servicestest.Variable(t, "TIERD_HOT"), Warm: warm,
		Cold: bucketURL(t, "TIERD_COLD"), Backup: bucketURL(t, "TIERD_BACKUP") + "&client=minio",
	}
}

func put(t *testing.T, n *tierd.Node, id, body string, o *tiering.PutOptions) *tiering.Receipt {
	t.Helper()
	rc, err := n.Put(t.Context(), "prefs", id, []byte(body), o)
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

// Two daemons on the same Redis, PostgreSQL and buckets are one store.
func TestTwoNodesShareTheRealTiers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := realTiers(t)
	a, b := open(t, c), open(t, c)

	watcher, err := b.Watch(ctx, &tiering.WatchOptions{Namespace: "prefs", From: "start"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()

	if rc := put(t, a, "ada", `{"v":1}`, nil); rc.Version != 1 || !rc.Hot {
		t.Fatalf("%+v", rc)
	}
	d, err := b.Get(ctx, "prefs", "ada", nil)
	if err != nil || string(d.Body) != `{"v":1}` || d.Tier != tiering.Hot {
		t.Fatalf("the other node got %+v, %v", d, err)
	}
	if rc := put(t, b, "ada", `{"v":2}`, nil); rc.Version != 2 {
		t.Fatalf("%+v", rc)
	}
	if d, err = a.Get(ctx, "prefs", "ada", nil); err != nil || string(d.Body) != `{"v":2}` {
		t.Fatalf("the first node got %+v, %v", d, err)
	}
	for v := int64(1); v <= 2; v++ {
		if e, err := watcher.Next(ctx); err != nil || e.Version != v {
			t.Fatalf("the watcher of the other node saw %+v, %v, want version %d", e, err, v)
		}
	}

	// Whoever demotes, both read it back from cold.
	// The other node archives, and is asked to do so at once.
	if _, err := b.Demote(ctx, "prefs", "ada"); err != nil {
		t.Fatal(err)
	}
	if d, err = a.Get(ctx, "prefs", "ada", nil); err != nil || string(d.Body) != `{"v":2}` || d.Tier != tiering.Cold {
		t.Fatalf("after the move down: %+v, %v", d, err)
	}
	if d, err = b.Get(ctx, "prefs", "ada", &tiering.GetOptions{Version: 1}); err != nil || string(d.Body) != `{"v":1}` {
		t.Fatalf("version 1: %+v, %v", d, err)
	}
}

// The database is lost, and comes back from the backup bucket alone.
func TestTheRealTiersAreRebuiltFromTheBackup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := realTiers(t)
	warm, schema := servicestest.Schema(t)
	c.Warm = warm
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for v := range 3 {
			put(t, n, fmt.Sprint("k", i), fmt.Sprintf(`{"v":%d}`, v), &tiering.PutOptions{User: "ada"})
		}
	}
	if _, err := n.Delete(ctx, "prefs", "k7", nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	servicestest.SQL(t, servicestest.Variable(t, "TIERD_WARM"), `DROP SCHEMA `+schema+` CASCADE; CREATE SCHEMA `+schema)

	if _, err := tierd.Open(ctx, c); tiering.CodeOf(err) != tiering.CodeWrongKind {
		t.Fatalf("a new database beside full buckets: %v", err)
	}
	if _, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "backup"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tierd.Rebuild(ctx, c, tierd.RebuildOptions{From: "backup"}); tiering.CodeOf(err) != tiering.CodeWrongKind {
		t.Errorf("a rebuild over a store that stands: %v", err)
	}
	n = open(t, c)
	for i := range 50 {
		d, err := n.Get(ctx, "prefs", fmt.Sprint("k", i), nil)
		switch {
		case i == 7:
			if tiering.CodeOf(err) != tiering.CodeNotFound {
				t.Errorf("what was deleted came back: %+v, %v", d, err)
			}
		case err != nil || string(d.Body) != `{"v":2}` || d.User != "ada":
			t.Fatalf("k%d: %+v, %v", i, d, err)
		}
	}
	if rc := put(t, n, "k1", `{"v":9}`, nil); rc.Version < 1<<32 {
		t.Errorf("version %d after a rebuild is not far above those before", rc.Version)
	}
	r, err := n.Drill(ctx, tierd.DrillOptions{From: "primary", Scratch: t.TempDir()})
	if err != nil || !r.Sound() {
		t.Errorf("the drill: %+v, %v", r, err)
	}
}

// Daemons on one database use the same other tiers; hot in process memory goes
// with one daemon alone.
func TestDaemonsOnOneDatabaseShareTheirTiers(t *testing.T) {
	c := realTiers(t)
	alone := c
	alone.Hot = "memory:"
	n, err := tierd.Open(t.Context(), alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []tierd.Config{alone, c} {
		if m, err := tierd.Open(t.Context(), second); tiering.CodeOf(err) != tiering.CodeLeaseHeld {
			t.Errorf("a second daemon with hot %s: %v, %v", second.Hot, m, err)
		}
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Closed, it leaves the store to others.
	open(t, c)
	elsewhere := c
	elsewhere.Backup = bucketURL(t, "TIERD_BACKUP") + "&client=minio"
	if _, err := tierd.Open(t.Context(), elsewhere); tiering.CodeOf(err) != tiering.CodeLeaseHeld {
		t.Errorf("a daemon that names another bucket: %v", err)
	}
	if _, err := tierd.Open(t.Context(), alone); tiering.CodeOf(err) != tiering.CodeLeaseHeld || !strings.Contains(err.Error(), "redis at") {
		t.Errorf("memory beside a daemon with Redis: %v", err)
	}
}

// A daemon that is stopped leaves its work to others at once: nobody waits until
// its leases lapse.
func TestAStoppedDaemonLeavesItsWorkToOthers(t *testing.T) {
	c := realTiers(t)
	first, err := tierd.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Put(t.Context(), "docs", "a", []byte(`1`), nil); err != nil {
		t.Fatal(err)
	}
	if err := first.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := open(t, c)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Put(t.Context(), "docs", "b", []byte(`1`), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // half of what a lease lasts
	defer cancel()
	if err := second.Archive(ctx); err != nil {
		t.Errorf("the second daemon archives: %v", err)
	}
}
