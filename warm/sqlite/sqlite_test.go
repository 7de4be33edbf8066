package sqlite_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
	"github.com/tierd/tierd/warm/warmtest"
)

// TestContract runs the conformance suite of the warm tier.
func TestContract(t *testing.T) {
	dir := t.TempDir()
	file := func(place string) string {
		return filepath.Join(dir, strings.NewReplacer("/", "_", "#", "_").Replace(place)+".db")
	}
	open := func(t *testing.T, place string, o warmtest.Options) (warm.Store, error) {
		return sqlite.Open(t.Context(), file(place), &sqlite.Options{Clock: o.Clock, AfterCommit: o.AfterCommit, Restore: o.Restore})
	}
	warmtest.Run(t, warmtest.Harness{
		Capabilities: warm.Capabilities{Committers: 1},
		TryOpen:      open,
		Open: func(t *testing.T, place string, o warmtest.Options) warm.Store {
			t.Helper()
			s, err := open(t, place, o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Crash: func(t *testing.T, place string) string {
			t.Helper()
			left := place + " left"
			for _, end := range []string{"", "-wal"} {
				copyFile(t, file(place)+end, file(left)+end)
			}
			return left
		},
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
