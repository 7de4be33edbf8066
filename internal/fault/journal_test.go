package fault_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tierd/tierd/internal/fault"
)

// image is what the folder holds after power was lost at the end of j.
func image(t *testing.T, j *fault.Journal, kept float64) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := j.Image(dir, j.Len(), kept, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	err := filepath.Walk(dir, func(at string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		b, err := os.ReadFile(at)
		out[strings.TrimPrefix(filepath.ToSlash(at), filepath.ToSlash(dir)+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// create makes a file with contents.
func create(t *testing.T, j *fault.Journal, name, text string) int {
	t.Helper()
	f, err := j.Create(name)
	if err == nil {
		err = j.Write(f, 0, []byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestImage: what is left when nothing that was not synced is.
func TestImage(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(j *fault.Journal)
		want map[string]string
	}{
		"nothing synced": {func(j *fault.Journal) { create(t, j, "a", "text") }, nil},
		"bytes synced, the name not": {func(j *fault.Journal) {
			j.Sync(create(t, j, "a", "text"), "a")
		}, nil},
		"the name synced, bytes not": {func(j *fault.Journal) {
			create(t, j, "a", "text")
			j.SyncDir(".")
		}, map[string]string{"a": ""}},
		"both": {func(j *fault.Journal) {
			j.Sync(create(t, j, "a", "text"), "a")
			j.SyncDir(".")
		}, map[string]string{"a": "text"}},
		"written on after the sync": {func(j *fault.Journal) {
			f := create(t, j, "a", "text")
			j.Sync(f, "a")
			j.SyncDir(".")
			_ = j.Write(f, 2, []byte("nt on"))
			j.Truncate(f, 1)
		}, map[string]string{"a": "text"}},
		"cut and written on, synced": {func(j *fault.Journal) {
			f := create(t, j, "a", "text")
			j.Truncate(f, 2)
			_ = j.Write(f, 4, []byte("!"))
			j.Sync(f, "a")
			j.SyncDir(".")
		}, map[string]string{"a": "te\x00\x00!"}},
		"a folder that is not synced": {func(j *fault.Journal) {
			_ = j.Mkdir("d")
			j.Sync(create(t, j, "d/a", "text"), "d/a")
			j.SyncDir("d")
		}, nil},
		"a second name": {func(j *fault.Journal) {
			_ = j.Mkdir("d")
			j.Sync(create(t, j, "d/a", "text"), "d/a")
			_ = j.Link("d/a", "b")
			j.SyncDir(".")
		}, map[string]string{"b": "text"}},
		"a removal that is not synced": {func(j *fault.Journal) {
			j.Sync(create(t, j, "a", "text"), "a")
			j.SyncDir(".")
			j.Remove("a")
		}, map[string]string{"a": "text"}},
		"a removal": {func(j *fault.Journal) {
			j.Sync(create(t, j, "a", "text"), "a")
			j.SyncDir(".")
			j.Remove("a")
			j.SyncDir(".")
		}, nil},
		"a sync that is left out": {func(j *fault.Journal) {
			j.Forget(func(name string) bool { return name == "a" })
			j.Sync(create(t, j, "a", "text"), "a")
			j.SyncDir(".")
		}, map[string]string{"a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			j := fault.NewJournal()
			c.do(j)
			if got := image(t, j, 0); !maps.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestImageOfAnEarlierMoment knows nothing of what came later, and the same
// chances give the same image.
func TestImageOfAnEarlierMoment(t *testing.T) {
	j := fault.NewJournal()
	f := create(t, j, "a", "text")
	j.SyncDir(".")
	j.Sync(f, "a")
	at := j.Len()
	j.Remove("a")
	j.SyncDir(".")
	dir := t.TempDir()
	if err := j.Image(dir, at, 0, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestTornWrites: of writes that were not synced any may be there, whole or up to
// a sector; never anything that was not written.
func TestTornWrites(t *testing.T) {
	j := fault.NewJournal()
	page := bytes.Repeat([]byte("p"), 4096)
	f := create(t, j, "a", "")
	j.SyncDir(".")
	for n := range int64(400) {
		if err := j.Write(f, n*4096, page); err != nil {
			t.Fatal(err)
		}
	}
	if got := image(t, j, 1); len(got["a"])%512 != 0 || image(t, j, 1)["a"] != got["a"] {
		t.Errorf("%d bytes, or not the same twice", len(got["a"]))
	}
	got := []byte(image(t, j, 0.5)["a"])
	whole, none, torn := 0, 0, 0
	for part := range slices.Chunk(got, 4096) {
		switch n := bytes.Count(part, []byte("p")); {
		case n == 4096:
			whole++
		case n == 0:
			none++
		case n%512 == 0 && bytes.HasPrefix(part, page[:n]):
			torn++
		default:
			t.Fatalf("a page has %d bytes of what was written", n)
		}
	}
	if whole < 50 || none < 50 || torn < 10 {
		t.Errorf("%d whole, %d not there, %d torn", whole, none, torn)
	}
}

// TestRoom: a disk that is full takes nothing that needs room.
func TestRoom(t *testing.T) {
	j := fault.NewJournal()
	f := create(t, j, "a", "text")
	j.Room(1)
	if err := j.Write(f, 0, []byte("x")); err != nil {
		t.Errorf("the last room: %v", err)
	}
	_, made := j.Create("b")
	for what, err := range map[string]error{"write": j.Write(f, 0, []byte("x")), "create": made, "mkdir": j.Mkdir("d"), "link": j.Link("a", "c")} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v, want ENOSPC", what, err)
		}
	}
	j.Room(-1)
	if err := j.Mkdir("d"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
