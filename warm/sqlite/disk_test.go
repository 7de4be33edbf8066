package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// noise is a body that does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return append(append([]byte{'"'}, b...), '"')
}

// limit sets how many pages the file may have; 0 lifts it.
func limit(t *testing.T, s *Store, pages int64) {
	t.Helper()
	w := <-s.writer
	defer func() { s.writer <- w }()
	if pages == 0 {
		pages = 1 << 30
	}
	if _, err := w.number(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
		t.Fatal(err)
	}
}

func TestFullDisk(t *testing.T) {
	s := fresh(t)
	if _, err := commitRow(s, noteKey("before"), putRow([]byte(`1`))); err != nil {
		t.Fatal(err)
	}
	_, last, err := s.FeedBounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limit(t, s, 1) // what it has already counts: not one page more
	for range 3 {
		_, err := commitRow(s, noteKey("big"), putRow(noise(200_000)))
		if !errors.Is(err, tiering.ErrOutOfSpace) {
			t.Fatalf("error %v, want out of space", err)
		}
		if told := tiering.Told(err); strings.Contains(told, filepath.Dir(s.path)) || !strings.Contains(err.Error(), s.path) {
			t.Fatalf("remote callers are told %q; the log says %q", told, err)
		}
		if cur, err := s.Load(t.Context(), noteKey("before")); err != nil || string(cur.Body) != `1` {
			t.Fatalf("a read while the disk is full: %q, %v", cur.Body, err)
		}
		if cur, err := s.Load(t.Context(), noteKey("big")); err != nil || cur.Head.Version != 0 {
			t.Fatalf("a write that failed left %+v, %v", cur.Head, err)
		}
	}
	limit(t, s, 0)
	r, err := commitRow(s, noteKey("big"), putRow(noise(200_000)))
	if err != nil {
		t.Fatalf("a write after there is room again: %v", err)
	}
	if r.Head.Version != 1 {
		t.Fatalf("version %d, want 1", r.Head.Version)
	}
	if _, end, err := s.FeedBounds(t.Context()); err != nil || end != last+1 {
		t.Fatalf("the feed ends at %d, %v, want %d", end, err, last+1)
	}
}

func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warm.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := tiering.Key{Tenant: "acme", Namespace: tiering.PolicyNamespace, ID: "k"}
	for range 20 {
		if _, err := commitRow(s, k, putRow(noise(50_000))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const keep = 4096 // the first page, so that it still looks like a database
	for i := keep; i < len(file); i++ {
		file[i] = 0xa5
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), path, nil)
	if err == nil {
		_, err = s.Load(t.Context(), k)
		if err := s.Close(); err != nil && !errors.Is(err, tiering.ErrCorrupt) {
			t.Errorf("Close: %v", err)
		}
	}
	if !errors.Is(err, tiering.ErrCorrupt) {
		t.Fatalf("error %v, want corrupt", err)
	}
}

func TestDeletedBytesAreGoneFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warm.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := tiering.Key{Tenant: "acme", Namespace: tiering.PolicyNamespace, ID: "k"}
	secret := []byte(`"a secret that must not stay behind"`)
	if _, err := commitRow(s, k, putRow(secret)); err != nil {
		t.Fatal(err)
	}
	if err := s.write(context.Background(), func(tx *txn) error {
		_, err := tx.exec(`DELETE FROM version`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // truncates the log
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(file, secret[1:len(secret)-1]) {
		t.Fatal("the deleted bytes are still in the file")
	}
}

func TestPanicInDecideLeavesTheStoreUsable(t *testing.T) {
	s := fresh(t)
	func() {
		defer func() { _ = recover() }()
		_ = s.write(t.Context(), func(tx *txn) error {
			if _, err := tx.exec(`DELETE FROM namespace`); err != nil {
				t.Error(err)
			}
			panic("in decide")
		})
	}()
	if _, err := commitRow(s, noteKey("k"), putRow([]byte(`1`))); err != nil {
		t.Fatal(err)
	}
}
