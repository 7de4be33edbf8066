package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// users is how many users the sessions belong to.
const users = 10

// userOf gives each session one of a few users.
func userOf(s session) string {
	h := fnv.New32a()
	h.Write([]byte(s.owner))
	return fmt.Sprintf("guest-%d", h.Sum32()%users)
}

// downAndUp takes what was replayed through the rest of its life: down to cold
// and read back, damaged and repaired, lost and rebuilt from one bucket, also as
// of an earlier time, and one user erased.
func downAndUp(ctx context.Context, t *testing.T, data string, sessions []session, a *acked) {
	t.Helper()
	node := openNode(ctx, t, data)
	retireAll(ctx, t, node, sessions)
	readAll(ctx, t, node, sessions, a, "from cold")
	damage(t, filepath.Join(data, "cold"))
	readAll(ctx, t, node, sessions, a, "over damage")
	repair(ctx, t, node)
	closeNode(t, node)

	before := copyOf(t, data)
	rebuild(ctx, t, data, tierd.RebuildOptions{From: "backup"})
	node = openNode(ctx, t, data)
	readAll(ctx, t, node, sessions, a, "after a rebuild")
	eraseOne(ctx, t, node, data, sessions, a)
	closeNode(t, node)

	asOf(ctx, t, before, sessions, a)
}

func openNode(ctx context.Context, t *testing.T, data string) *tierd.Node {
	t.Helper()
	n, err := tierd.Open(ctx, tierd.Config{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func closeNode(t *testing.T, n *tierd.Node) {
	t.Helper()
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// retireAll drops every byte from warm: old versions retire, current ones
// demote.
func retireAll(ctx context.Context, t *testing.T, n *tierd.Node, sessions []session) {
	t.Helper()
	if _, err := n.PatchNamespace(ctx, namespace, []byte(`{"retire_after":"1s","demote_after":"1s"}`), nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	began := time.Now()
	if err := n.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("swept in %v", time.Since(began).Round(time.Millisecond))
	for _, s := range sessions {
		x, err := n.Explain(ctx, namespace, s.id)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range x.Copies {
			if c.Tier == tiering.Warm && c.State != "absent" || c.Tier == tiering.Cold && c.State != string(tiering.CopyVerified) {
				t.Fatalf("%s after the sweep: %+v", s.id, x.Copies)
			}
		}
	}
}

// readAll reads every acknowledged version back, byte for byte, and times it
// beside whole files of the same sizes.
func readAll(ctx context.Context, t *testing.T, n *tierd.Node, sessions []session, a *acked, when string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "record")
	var reads, files []time.Duration
	for _, s := range sessions {
		for i, v := range a.versions[s.id] {
			if err := os.WriteFile(file, s.docs[i], 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if b, err := os.ReadFile(file); err != nil || tiering.DigestOf(b) != tiering.DigestOf(s.docs[i]) {
				t.Fatal("the file does not come back", err)
			}
			files = append(files, time.Since(began))
			began = time.Now()
			d, err := n.Get(ctx, namespace, s.id, &tiering.GetOptions{Version: v})
			reads = append(reads, time.Since(began))
			if err != nil || !bytes.Equal(d.Body, s.docs[i]) {
				t.Fatalf("%s: %s version %d: %v", when, s.id, v, err)
			}
			if when == "from cold" && d.Tier != tiering.Cold {
				t.Fatalf("%s version %d came from %s", s.id, v, d.Tier)
			}
		}
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	r, f := median(reads), median(files)
	t.Logf("%s: %d versions read back, p50 %v, p99 %v; a whole file with its digest: p50 %v (ratio %.2f)",
		when, len(reads), r, reads[len(reads)*99/100], f, float64(r)/float64(f))
}

// damage flips twenty bytes anywhere in the segments of one bucket.
func damage(t *testing.T, bucket string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(bucket, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".tseg") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal("no segments to damage", err)
	}
	for range 20 {
		path := files[rand.IntN(len(files))]
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[rand.IntN(len(b))] ^= byte(1 + rand.IntN(255))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// repair finds the damage and mends it from the other copy.
func repair(ctx context.Context, t *testing.T, n *tierd.Node) {
	t.Helper()
	r, err := n.Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthRestore, Repair: true})
	if err != nil || !r.Sound() {
		t.Fatalf("verify with repair: %+v, %v", r, err)
	}
	again, err := n.Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthRestore})
	if err != nil || len(again.Faults) != 0 {
		t.Fatalf("verify after the repair: %+v, %v", again, err)
	}
	t.Logf("damage: %d faults found, %d mended", len(r.Faults), r.Repaired)
}

// copyOf copies a closed node's folder.
func copyOf(t *testing.T, data string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	return to
}

// rebuild deletes the warm database and makes it again from a bucket.
func rebuild(ctx context.Context, t *testing.T, data string, o tierd.RebuildOptions) {
	t.Helper()
	for _, f := range []string{"warm.db", "warm.db-wal", "warm.db-shm"} {
		if err := os.Remove(filepath.Join(data, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	began := time.Now()
	r, err := tierd.Rebuild(ctx, tierd.Config{Data: data}, o)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("rebuilt from %s in %v: %d versions, %.0f versions/s", o.From, took.Round(time.Millisecond), r.Versions, float64(r.Versions)/took.Seconds())
}

// asOf rebuilds a copy as of the middle of the replay: everything acknowledged
// by then is there, nothing that was sent later is.
func asOf(ctx context.Context, t *testing.T, data string, sessions []session, a *acked) {
	t.Helper()
	middle := a.middle()
	rebuild(ctx, t, data, tierd.RebuildOptions{From: "primary", AsOf: middle})
	n := openNode(ctx, t, data)
	defer closeNode(t, n)
	standsAsOf(ctx, t, n, sessions, a, middle, 0)
}

// standsAsOf: each session stands where it stood at a time: everything that was
// acknowledged by then is there, and nothing that was sent later than beside it.
func standsAsOf(ctx context.Context, t *testing.T, n *tierd.Node, sessions []session, a *acked, middle time.Time, beside time.Duration) {
	t.Helper()
	for _, s := range sessions {
		var least, most int // how many versions must, and may, be there
		for i := range s.docs {
			if !a.done[s.id][i].After(middle) {
				least = i + 1
			}
			if a.began[s.id][i].Before(middle.Add(beside)) {
				most = i + 1
			}
		}
		d, err := n.Get(ctx, namespace, s.id, nil)
		if errors.Is(err, tiering.ErrNotFound) && least == 0 {
			continue
		}
		if err != nil {
			t.Fatalf("%s as of the middle: %v", s.id, err)
		}
		i := slices.Index(a.versions[s.id], d.Version)
		if i+1 < least || i+1 > most || !bytes.Equal(d.Body, s.docs[i]) {
			t.Fatalf("%s as of the middle stands at step %d, want %d to %d", s.id, i+1, least, most)
		}
	}
}

// eraseOne erases one user and looks for a trace of it in every file, and in
// every record of both buckets.
func eraseOne(ctx context.Context, t *testing.T, n *tierd.Node, data string, sessions []session, a *acked) {
	t.Helper()
	user := userOf(sessions[0])
	var gone, kept []session
	for _, s := range sessions {
		if userOf(s) == user {
			gone = append(gone, s)
		} else {
			kept = append(kept, s)
		}
	}
	no := false
	began := time.Now()
	receipt, err := n.Erase(ctx, tiering.EraseRequest{User: user, DryRun: &no})
	for err == nil && receipt.State != "done" && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		receipt, err = n.Erasure(ctx, receipt.ID)
	}
	if err != nil || receipt.State != "done" || receipt.Keys != int64(len(gone)) {
		t.Fatalf("erase: %+v, %v; want %d keys", receipt, err, len(gone))
	}
	t.Logf("erased %d sessions of one user in %v", len(gone), time.Since(began).Round(time.Millisecond))
	searchFiles(t, data, gone)
	searchRecords(ctx, t, data, gone)
	readAll(ctx, t, n, kept, a, "others after the erase")
}

func searchFiles(t *testing.T, data string, gone []session) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, s := range gone {
			if bytes.Contains(b, []byte(s.id)) {
				t.Errorf("%s still holds %s", filepath.Base(path), s.id)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func searchRecords(ctx context.Context, t *testing.T, data string, gone []session) {
	t.Helper()
	for _, bucket := range []string{"cold", "backup"} {
		b, err := dir.Open(filepath.Join(data, bucket), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		archive := cold.NewArchive(b, b, nil)
		for info, err := range b.List(ctx, cold.SegmentPrefix) {
			if err != nil {
				t.Fatal(err)
			}
			seg, err := archive.OpenObject(ctx, tiering.Primary, info.Name)
			if errors.Is(err, tiering.ErrGone) {
				continue // a marker, so that no late upload lands on the name
			}
			if err != nil {
				t.Fatal(err)
			}
			for rec, err := range seg.Records() {
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range gone {
					if rec.Key.ID == s.id || bytes.Contains(rec.Body, []byte(s.id)) {
						t.Fatalf("%s in %s still holds %s", info.Name, bucket, s.id)
					}
				}
			}
		}
	}
}
