package dir

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// TestDiskFull: a full disk is out_of_space, leaves nothing, and is over when
// there is room again. /dev/full refuses every write as a full disk does.
func TestDiskFull(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	b, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	room := b.open
	b.open = func(string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) }
	body := []byte("body")
	if err := b.Create(t.Context(), "seg/a", bytes.NewReader(body), 4); !errors.Is(err, tiering.ErrOutOfSpace) {
		t.Errorf("create: %v, want out_of_space", err)
	}
	if err := b.Ping(t.Context()); !errors.Is(err, tiering.ErrOutOfSpace) {
		t.Errorf("ping: %v, want out_of_space", err)
	}
	if _, err := b.Stat(t.Context(), "seg/a"); !errors.Is(err, cold.ErrNotExist) {
		t.Errorf("stat: %v, want ErrNotExist", err)
	}
	a := cold.NewArchive(b, b, nil)
	if err := a.Write(t.Context(), tiering.Primary, "seg/a", body); !errors.Is(err, tiering.ErrOutOfSpace) {
		t.Errorf("archive: %v, want out_of_space", err)
	}
	b.open = room
	if err := a.Write(t.Context(), tiering.Primary, "seg/a", body); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
