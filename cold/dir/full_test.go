package dir

import (
	"bytes"
	"errors"
	"io/fs"
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
	disk := &fullDisk{Root: b.root, full: true}
	b.root = disk
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
	disk.full = false
	if err := a.Write(t.Context(), tiering.Primary, "seg/a", body); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// fullDisk takes no bytes while it is full.
type fullDisk struct {
	Root
	full bool
}

func (d *fullDisk) Create(name string, mode fs.FileMode) (File, error) {
	if d.full {
		return os.OpenFile("/dev/full", os.O_WRONLY, 0)
	}
	return d.Root.Create(name, mode)
}

// TestNothingUnfinishedStays: whatever comes of a Create, the file that it
// wrote to is gone.
func TestNothingUnfinishedStays(t *testing.T) {
	b, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	create := func(size int64) error {
		return b.Create(t.Context(), "seg/a", bytes.NewReader([]byte("body")), size)
	}
	for _, c := range []struct {
		name string
		size int64
		want error // nil with size 5: any
	}{{"too short", 5, nil}, {"good", 4, nil}, {"taken", 4, cold.ErrExist}} {
		if err := create(c.size); !errors.Is(err, c.want) && c.size == 4 || err == nil && c.size == 5 {
			t.Errorf("%s: %v", c.name, err)
		}
		f, err := b.root.Open(unfinished)
		if err != nil {
			t.Fatal(err)
		}
		names, err := f.Readdirnames(-1)
		if err != nil || len(names) > 0 {
			t.Errorf("%s: left %q: %v", c.name, names, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
