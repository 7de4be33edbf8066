package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// TestScrub looks for what was erased in the bytes of every file of the store.
func TestScrub(t *testing.T) {
	small := `{"said":"canary-in-a-small-body"}`
	large := `{"said":"` + strings.Repeat("canary-in-a-large-body ", 400) + `"}`
	canaries := map[string]string{
		"id": "canary-id", "user": "canary-user", "request": "canary-request", "answer": "canary-answer", "small body": "canary-in-a-small-body",
	}
	for _, c := range []struct {
		name string
		sel  warm.Selector
	}{
		{"by id", warm.Selector{Tenant: "acme", Namespace: "notes", ID: "canary-id/1"}},
		{"by prefix", warm.Selector{Tenant: "acme", Namespace: "notes", Prefix: "canary-id"}},
		{"by user", warm.Selector{Tenant: "acme", User: "canary-user"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
			s.opts.Clock = func() time.Time { return now }
			packed := s.packBody([]byte(large))
			if packed.coding != codingZstd {
				t.Fatal("the large body is not compressed")
			}
			needles := map[string][]byte{"compressed body": packed.bytes}
			for name, text := range canaries {
				needles[name] = []byte(text)
			}
			crowd(t, s, "a")
			writeCanary(t, s, small, large)
			crowd(t, s, "z")
			if _, err := s.Demote(t.Context(), noteKey("canary-id/1"), 4, now); err != nil {
				t.Fatal(err)
			}
			for name, where := range search(t, s, needles) {
				if where == "" {
					t.Fatalf("the %s can not be found before it is erased", name)
				}
			}
			if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: c.sel}); err != nil {
				t.Fatal(err)
			}
			e := takeAll(t, s, "r", 100)
			if e.Keys != 1 {
				t.Fatalf("%d keys were taken, want 1", e.Keys)
			}
			for _, name := range e.Segments {
				if err := s.CleanSegment(t.Context(), "r", name); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Scrub(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.FinishErase(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(s.path + "-wal"); err != nil || info.Size() != 0 {
				t.Errorf("the log after the erase: %v, %v, want it empty", info, err)
			}
			for name, where := range search(t, s, needles) {
				if where != "" {
					t.Errorf("the %s is still in %s", name, where)
				}
			}
			if where := search(t, s, map[string][]byte{"namespace": []byte("notes")})["namespace"]; where == "" {
				t.Error("the namespace is gone: its floor is too")
			}
			for _, id := range []string{"a/0", "z/199"} {
				if cur, err := s.Load(t.Context(), noteKey(id)); err != nil || len(cur.Body) == 0 {
					t.Errorf("%s after the scrub: %v, %v", id, cur.Head, err)
				}
			}
		})
	}
}

// writeCanary writes one key in all the ways that leave something behind.
func writeCanary(t *testing.T, s *Store, small, large string) {
	t.Helper()
	k := noteKey("canary-id/1")
	idem := func(i int) *warm.Idempotency {
		return &warm.Idempotency{Tenant: "acme", Key: fmt.Sprint("canary-request-", i), Hash: tiering.DigestOf(fmt.Append(nil, i)), Answer: []byte(`["canary-answer"]`)}
	}
	for i, body := range []string{small, large, small, large} {
		row := putRow([]byte(body))
		row.User, row.Idempotency = "canary-user", idem(i)
		if _, err := commitRow(s, k, row); err != nil {
			t.Fatal(err)
		}
	}
	again, failed := putRow([]byte(small)), putRow([]byte(small))
	again.User, again.Idempotency = "canary-user", idem(0)
	for _, b := range []*warm.Batch{
		{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{again}}}},
		{ID: uuid.New(), Changes: []warm.Change{{Key: noteKey("a/0"), Rows: []warm.Row{putRow([]byte(`1`))}}, {Key: k, If: tiering.IfVersion(99), Rows: []warm.Row{failed}}}},
	} {
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	seg := tiering.SegmentInfo{Name: "s", Tenant: "acme", Token: 1}
	if err := s.StartSegment(t.Context(), seg); err != nil {
		t.Fatal(err)
	}
	seg.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	if err := s.FinishSegment(t.Context(), seg, []tiering.Location{{Key: k, Segment: "s", MinVersion: 1, MaxVersion: 4}}, "", 0); err != nil {
		t.Fatal(err)
	}
}

// crowd writes keys around the canary, so that pages split and rows move.
func crowd(t *testing.T, s *Store, prefix string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		body := make([]byte, 20+r.IntN(6000))
		for j := range body {
			body[j] = byte('a' + r.IntN(26))
		}
		if _, err := commitRow(s, noteKey(fmt.Sprint(prefix, "/", i)), putRow(body)); err != nil {
			t.Fatal(err)
		}
	}
}

// takeAll takes keys until there are no more.
func takeAll(t testing.TB, s *Store, id string, limit int) warm.Erasure {
	t.Helper()
	for {
		e, more, err := s.EraseKeys(t.Context(), id, limit)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return e
		}
	}
}

// search returns the file that each needle is in, "" for none.
func search(t *testing.T, s *Store, needles map[string][]byte) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.path), "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the files of the store: %v, %v", files, err)
	}
	found := map[string]string{}
	for name := range needles {
		found[name] = ""
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, needle := range needles {
			if bytes.Contains(content, needle) {
				found[name] = file
			}
		}
	}
	return found
}

// TestScrubWhileReading waits for the readers that are under way.
func TestScrubWhileReading(t *testing.T) {
	s := fresh(t)
	if _, err := commitRow(s, noteKey("k"), putRow([]byte(`1`))); err != nil {
		t.Fatal(err)
	}
	reading, end := make(chan struct{}), make(chan struct{})
	read, scrubbed := make(chan error, 1), make(chan error, 1)
	go func() {
		read <- s.reader(t.Context(), func(c *conn) error {
			return c.each(t.Context(), `SELECT kid FROM head`, nil, func([]driver.Value) error {
				close(reading)
				<-end
				return nil
			})
		})
	}()
	<-reading
	if _, err := commitRow(s, noteKey("k"), putRow([]byte(`2`))); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Scrub(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a scrub under a reader that stays: %v, want its deadline", err)
	}
	go func() { scrubbed <- s.Scrub(t.Context()) }()
	close(end)
	if err := errors.Join(<-read, <-scrubbed); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the log after the scrub: %v, %v, want it empty", info, err)
	}
}

// TestScrubMovedRows erases keys that lie among others on every page: copies
// of them stay where pages were split.
func TestScrubMovedRows(t *testing.T) {
	s := fresh(t)
	r := rand.New(rand.NewPCG(1, 2))
	var changes []warm.Change
	for i := range 3000 {
		id, owner := fmt.Sprintf("%08x", r.Uint32()), "bob"
		body := bytes.Repeat([]byte("x"), r.IntN(500))
		if i%3 == 0 {
			id, owner, body = id+"canary", "canary", append(body, "canary"...)
		}
		row := putRow(body)
		row.User = owner
		changes = append(changes, warm.Change{Key: noteKey(id), Rows: []warm.Row{row}})
	}
	for part := range slices.Chunk(changes, 10) {
		slices.SortFunc(part, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
		if _, err := s.Commit(t.Context(), &warm.Batch{ID: uuid.New(), Changes: part}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", User: "canary"}}); err != nil {
		t.Fatal(err)
	}
	if e := takeAll(t, s, "r", 100); e.Keys != 1000 {
		t.Fatalf("%d keys were taken, want 1000", e.Keys)
	}
	if err := s.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FinishErase(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	if where := search(t, s, map[string][]byte{"canary": []byte("canary")})["canary"]; where != "" {
		t.Fatalf("something of the keys is in %s", where)
	}
}
