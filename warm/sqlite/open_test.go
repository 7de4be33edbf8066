package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/schema"
)

// openStore opens the store at path, and closes it with the test.
func openStore(t *testing.T, path string, o *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// fresh opens a new store with a namespace to write to.
func fresh(t *testing.T) *Store {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "warm.db"), nil)
	if _, err := s.EnsureNamespace(t.Context(), warm.Namespace{Tenant: "acme", Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}
	return s
}

func noteKey(id string) tiering.Key {
	return tiering.Key{Tenant: "acme", Namespace: "notes", ID: id}
}

// commitRow commits one row and returns its result.
func commitRow(s *Store, k tiering.Key, row warm.Row) (warm.Result, error) {
	results, err := s.Commit(context.Background(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{row}}}})
	if err != nil {
		return warm.Result{}, err
	}
	if r := results[0][0]; r.Status != warm.Done {
		return r, fmt.Errorf("status %d", r.Status)
	}
	return results[0][0], nil
}

func putRow(body []byte) warm.Row {
	return warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), Query: true}
}

func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warm.db")
	first, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a second Open in this process: error %v, want one that names %s", err, path)
	}
	if out, err := child(path, "open").CombinedOutput(); err == nil || !strings.Contains(string(out), path) {
		t.Errorf("an Open in another process: %v, it said %q, want an error that names %s", err, out, path)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openStore(t, path, nil)
}

func TestKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warm.db")
	cmd := child(path, "write")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for lines := bufio.NewScanner(out); acknowledged < 30 && lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "done %d", &acknowledged); err != nil {
			t.Fatalf("the writer said %q", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if acknowledged < 30 {
		t.Fatalf("the writer ended after %d writes", acknowledged)
	}
	s := openStore(t, path, nil)
	cur, err := s.Load(t.Context(), noteKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	if cur.Head.Version < int64(acknowledged) || string(cur.Body) != fmt.Sprint(cur.Head.Version) {
		t.Fatalf("version %d with body %s stands, %d writes were acknowledged", cur.Head.Version, cur.Body, acknowledged)
	}
	if _, last, err := s.FeedBounds(t.Context()); err != nil || last != cur.Head.Version {
		t.Fatalf("the feed ends at %d, %v, want %d", last, err, cur.Head.Version)
	}
}

// child runs this test binary again as another process that does what.
func child(path, what string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestChild$")
	cmd.Env = append(os.Environ(), "SQLITE_CHILD="+what, "SQLITE_CHILD_PATH="+path)
	return cmd
}

// TestChild is the other process of the tests above.
func TestChild(t *testing.T) {
	what, path := os.Getenv("SQLITE_CHILD"), os.Getenv("SQLITE_CHILD_PATH")
	if what == "" {
		t.Skip("it runs in a process of its own")
	}
	s := openStore(t, path, nil)
	if _, err := s.EnsureNamespace(t.Context(), warm.Namespace{Tenant: "acme", Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}
	for i := 1; what == "write" && i < 100_000; i++ {
		if _, err := commitRow(s, noteKey("k"), putRow(fmt.Append(nil, i))); err != nil {
			t.Fatal(err)
		}
		fmt.Println("done", i)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warm.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), func(tx *txn) error {
		_, err := tx.exec(`UPDATE meta SET value = 99 WHERE name = 'schema_version'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "newer tierd") {
		t.Fatalf("error %v, want one that says which schema it is and what to use", err)
	}
}

func TestMigrationsRunBothWays(t *testing.T) {
	c, err := dial(t.Context(), filepath.Join(t.TempDir(), "warm.db"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	steps, err := schema.Steps(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	latest := int64(len(steps))
	schema := func() string {
		row, _, err := c.one(`SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema WHERE name <> 'meta' ORDER BY name)`)
		if err != nil {
			t.Fatal(err)
		}
		return text(row[0])
	}
	var first string
	for _, target := range []int64{0, latest, 0, latest} {
		if err := migrate(c, target); err != nil {
			t.Fatalf("to %d: %v", target, err)
		}
		switch got := schema(); {
		case target == 0 && got != "":
			t.Fatalf("after the way back the file still has %s", got)
		case target > 0 && first == "":
			first = got
		case target > 0 && got != first:
			t.Fatalf("the second time the schema is %s, want %s", got, first)
		}
	}
}

func TestReadersCanNotWrite(t *testing.T) {
	s := fresh(t)
	err := s.reader(t.Context(), func(c *conn) error {
		_, err := c.exec(`DELETE FROM meta`)
		return err
	})
	if err == nil {
		t.Fatal("a reader wrote")
	}
}

func TestVerifyFindsAPragmaThatDidNotTake(t *testing.T) {
	c, err := dial(t.Context(), filepath.Join(t.TempDir(), "warm.db"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.script(`PRAGMA synchronous = NORMAL`); err != nil {
		t.Fatal(err)
	}
	if err := c.verify(pragmas(false)); err == nil || !strings.Contains(err.Error(), "synchronous") {
		t.Fatalf("error %v, want one that names synchronous", err)
	}
}

func TestPathWithOddCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%41&e.db")
	openStore(t, path, nil)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

func TestOpenOfWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warm.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is not a database. ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, nil); !errors.Is(err, tiering.ErrCorrupt) {
		t.Fatalf("error %v, want corrupt", err)
	}
}
