package outage_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// TestWhenTheDiskIsFull: an embedded node on a small disk refuses writes for
// lack of room, reads on, and recovers without a restart.
func TestWhenTheDiskIsFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("a small disk cannot be made: %v", err)
		}
		t.Skipf("a small disk cannot be made: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	t.Run("full", func(t *testing.T) {
		n := startNode(t, tierd.Config{Data: filepath.Join(disk, "data"), SegmentAge: 100 * time.Millisecond})
		n.must("PUT", "/v1/namespaces/passing", `{"hot_ttl":"1ms"}`)
		n.must("PUT", "/v1/state/kept/a", `{"v":1}`)
		n.must("PUT", "/v1/state/passing/a", `{"v":1}`)

		ballast := filepath.Join(disk, "ballast")
		fillDisk(t, ballast)
		acked := 0
		for refused := false; !refused; acked++ {
			a := n.call("PUT", fmt.Sprintf("/v1/state/kept/many/%d", acked), `{"v":1}`)
			switch {
			case a.status == http.StatusInsufficientStorage:
				refused = true
			case a.status != http.StatusCreated || acked > 100_000:
				t.Fatalf("write %d on a full disk was answered %d: %s", acked, a.status, a.body)
			}
		}
		if acked--; acked == 0 {
			t.Fatal("no write was acknowledged before the disk was full")
		}
		for path, tier := range map[string]string{"kept/a": "hot", "passing/a": "warm"} {
			if got := n.must("GET", "/v1/state/"+path, ""); got.tier() != tier || string(got.body) != `{"v":1}` {
				t.Errorf("on a full disk %s is %s from %s", path, got.body, got.tier())
			}
		}

		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for ready := false; !ready; time.Sleep(100 * time.Millisecond) {
			a := n.call("PUT", "/v1/state/kept/back", `{"v":1}`)
			ready = a.status < 300
			if !ready && time.Since(began) > within {
				t.Fatalf("%v after there was room a write is answered %d: %s", within, a.status, a.body)
			}
		}
		for drained := false; !drained; time.Sleep(100 * time.Millisecond) {
			var st tiering.NodeStatus
			n.must("GET", "/v1/status", "").into(t, &st)
			drained = st.Archive.Behind == 0 && st.Archive.Missing == 0
			if !drained && time.Since(began) > within {
				t.Fatalf("%v after there was room the archive is %+v, parked %+v", within, st.Archive, st.Parked)
			}
		}
		for i := range acked {
			n.must("GET", fmt.Sprintf("/v1/state/kept/many/%d", i), "")
		}
		t.Logf("%d writes were acknowledged before the disk was full, and none is lost", acked)
	})
}

// some is room for a few writes.
const some = 512 << 10

// fillDisk takes all the room that is left but some.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); err == nil {
			continue
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		break
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		err = f.Truncate(at - some)
	}
	if err != nil {
		t.Fatal(err)
	}
}
