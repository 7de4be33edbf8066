package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// BenchmarkRestore fills a store with keys of 1 KB, 2,000 a transaction, each
// with its place in a segment.
func BenchmarkRestore(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "warm.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	if err := s.BeginRestore(b.Context(), "01J0000000000000000000000A", 1<<40); err != nil {
		b.Fatal(err)
	}
	at := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	const page = 2000
	keys := make([]warm.Restored, page)
	bodies := make([][]byte, page)
	for i := range bodies {
		bodies[i] = random(uint64(i), 1024)
	}
	for n := 0; b.Loop(); n += page {
		for i, body := range bodies {
			keys[i] = warm.Restored{Query: true, Body: body, Head: warm.Head{
				Key: noteKey(fmt.Sprintf("doc-%08d", n+i)), Op: tiering.OpPut, Version: 1, CreatedAt: at, UpdatedAt: at, User: "ada", Size: 1024, Digest: tiering.Digest{1},
			}}
		}
		if err := s.RestoreKeys(b.Context(), keys); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*page/b.Elapsed().Seconds(), "keys/s")
}

// random is a body that does not compress.
func random(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	return body
}

// BenchmarkErase erases 1,000 keys of a store whose feed has 200,000 entries.
func BenchmarkErase(b *testing.B) {
	for _, c := range []struct {
		name string
		sel  func(i int) warm.Selector
	}{
		{"by=prefix", func(i int) warm.Selector {
			return warm.Selector{Tenant: "acme", Namespace: "notes", Prefix: fmt.Sprintf("u%d/", i)}
		}},
		{"by=user", func(i int) warm.Selector { return warm.Selector{Tenant: "acme", User: fmt.Sprintf("u%d", i)} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "warm.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			if _, err := s.EnsureNamespace(b.Context(), warm.Namespace{Tenant: "acme", Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
				b.Fatal(err)
			}
			feedOf(b, s, 200_000, func(i int) (tiering.Key, string) { return noteKey(fmt.Sprint("other", i)), "bob" })
			longest := time.Duration(0)
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				for j := range 1000 {
					row := putRow(bytes.Repeat([]byte("x"), 1024))
					row.User = fmt.Sprintf("u%d", i)
					if _, err := commitRow(s, noteKey(fmt.Sprintf("u%d/%d", i, j)), row); err != nil {
						b.Fatal(err)
					}
				}
				id := fmt.Sprint("r", i)
				if err := s.StartErase(b.Context(), warm.Erasure{ID: id, Selector: c.sel(i)}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				for more := true; more; {
					began := time.Now()
					if _, more, err = s.EraseKeys(b.Context(), id, 500); err != nil {
						b.Fatal(err)
					}
					longest = max(longest, time.Since(began))
				}
			}
			b.ReportMetric(longest.Seconds()*1000, "ms-longest-call")
		})
	}
}

// BenchmarkWalkVersions walks over 100,000 keys, a tenth with a version that
// does not stand.
func BenchmarkWalkVersions(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "warm.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	if err := s.BeginRestore(b.Context(), "01J0000000000000000000000A", 1<<40); err != nil {
		b.Fatal(err)
	}
	var keys []warm.Restored
	at := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100_000 {
		body := random(uint64(i), 1024)
		keys = append(keys, warm.Restored{Body: body, Head: warm.Head{Key: noteKey(fmt.Sprintf("doc-%08d", i)), Op: tiering.OpPut, Version: 1, CreatedAt: at, UpdatedAt: at, Digest: tiering.DigestOf(body)}})
	}
	if err := s.RestoreKeys(b.Context(), keys); err != nil {
		b.Fatal(err)
	}
	if err := s.write(b.Context(), func(t *txn) error {
		_, err := t.exec(`UPDATE head SET version = 2 WHERE kid % 10 = 0`)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := 0
		for cursor := ""; ; {
			rows, next, err := s.WalkVersions(b.Context(), cursor, 500)
			if err != nil {
				b.Fatal(err)
			}
			n += len(rows)
			if cursor = next; next == "" {
				break
			}
		}
		if n != 10_000 {
			b.Fatalf("%d rows, want 10000", n)
		}
	}
}
