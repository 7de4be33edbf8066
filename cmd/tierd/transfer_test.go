package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// shelf is a service that keeps documents in a map, for tests of import and
// export. Bodies above mostAnswer bytes do not fit in one page; those of cold
// ids are left out of pages.
type shelf struct {
	tiering.Service
	mu         sync.Mutex
	docs       map[string]tiering.Document
	puts       []string // "key=body", in order
	cold       map[string]bool
	mostAnswer int
	pages      int
	failPut    error
}

func newShelf() *shelf { return &shelf{docs: map[string]tiering.Document{}, cold: map[string]bool{}} }

func (s *shelf) Put(_ context.Context, ns, id string, body []byte, o *tiering.PutOptions) (*tiering.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failPut != nil {
		return nil, s.failPut
	}
	doc, stood := s.docs[ns+"/"+id]
	if !o.If.Holds(doc.Version) {
		return nil, &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: doc.Version}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, tiering.Invalidf("%v", err)
	}
	doc.Namespace, doc.ID, doc.Version, doc.User, doc.Body = ns, id, doc.Version+1, o.User, compact.Bytes()
	if o.TTL != nil {
		doc.ExpiresAt = time.Now().Add(o.TTL.Life)
	}
	s.docs[ns+"/"+id] = doc
	s.puts = append(s.puts, ns+"/"+id+"="+compact.String())
	return &tiering.Receipt{Meta: doc.Meta, Created: !stood}, nil
}

func (s *shelf) Get(_ context.Context, ns, id string, _ *tiering.GetOptions) (*tiering.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, ok := s.docs[ns+"/"+id]
	if !ok {
		return nil, tiering.Errorf(tiering.CodeNotFound, "gone")
	}
	return &doc, nil
}

func (s *shelf) List(_ context.Context, ns string, o *tiering.ListOptions) (*tiering.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages++
	var ids []string
	for _, d := range s.docs {
		if d.Namespace == ns && d.ID > o.Cursor {
			ids = append(ids, d.ID)
		}
	}
	slices.Sort(ids)
	page, size := &tiering.Page{}, 0
	for i, id := range ids {
		if i == o.Limit {
			page.NextCursor = ids[i-1]
			break
		}
		doc := s.docs[ns+"/"+id]
		it := tiering.Item{Meta: doc.Meta, Body: doc.Body}
		if s.cold[id] {
			it.Body, it.Cold = nil, true
		}
		size += len(it.Body)
		page.Items = append(page.Items, it)
	}
	if s.mostAnswer > 0 && size > s.mostAnswer {
		return nil, tiering.Errorf(tiering.CodeTooLarge, "ask for less")
	}
	return page, nil
}

// importing runs the lines of an import against s.
func importing(t *testing.T, s *shelf, c importCommand, lines ...string) (importCounts, string, error) {
	t.Helper()
	if c.Concurrency == 0 {
		c.Concurrency = 4
	}
	var report bytes.Buffer
	job := newImportJob(&c, s, &progress{}, &report)
	err := job.run(t.Context(), strings.NewReader(strings.Join(lines, "\n")))
	return job.counts, report.String(), err
}

const (
	lineA = `{"namespace":"n","id":"a","version":7,"user":"ann","data":{"v": 1.10}}`
	lineB = `{"namespace":"n","id":"b/c","version":1,"data":"<&>\u0000"}`
)

func TestImportStoresEveryLine(t *testing.T) {
	s := newShelf()
	expires := time.Now().Add(time.Hour)
	counts, _, err := importing(t, s, importCommand{}, lineA, "", lineB,
		`{"namespace":"n","id":"later","expires_at":"`+expires.Format(time.RFC3339Nano)+`","data":1}`,
		`{"namespace":"n","id":"past","expires_at":"2001-01-01T00:00:00Z","data":1}`)
	if err != nil || counts != (importCounts{Created: 3, Expired: 1}) {
		t.Fatalf("%+v, %v", counts, err)
	}
	if a := s.docs["n/a"]; a.User != "ann" || string(a.Body) != `{"v":1.10}` {
		t.Errorf("a is %+v with %s", a.Meta, a.Body)
	}
	if b := s.docs["n/b/c"]; string(b.Body) != `"<&>\u0000"` {
		t.Errorf("b is %s", b.Body)
	}
	if got := s.docs["n/later"].ExpiresAt; got.Before(expires.Add(-time.Second)) || got.After(expires.Add(3*time.Second)) {
		t.Errorf("expires at %v, want %v", got, expires)
	}
}

func TestImportIntoAnotherNamespace(t *testing.T) {
	s := newShelf()
	if _, _, err := importing(t, s, importCommand{Namespace: "other"}, lineA); err != nil || s.docs["other/a"].Version != 1 {
		t.Errorf("%v, %v", s.puts, err)
	}
}

func TestImportAgainFinishesWhatWasInterrupted(t *testing.T) {
	for _, c := range []struct {
		name    string
		command importCommand
	}{
		{"by default", importCommand{}}, {"overwriting", importCommand{Overwrite: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf()
			if _, _, err := importing(t, s, c.command, lineA); err != nil {
				t.Fatal(err)
			}
			counts, _, err := importing(t, s, c.command, lineA, lineB)
			if err != nil || counts != (importCounts{Created: 1, Unchanged: 1}) || len(s.puts) != 2 {
				t.Errorf("%+v, %v after %q", counts, err, s.puts)
			}
		})
	}
}

func TestImportOfWhatStandsWithOtherData(t *testing.T) {
	other := `{"namespace":"n","id":"a","data":2}`
	for _, c := range []struct {
		name    string
		command importCommand
		counts  importCounts
		exit    int
		body    string // under n/a afterwards
	}{
		{"is a conflict", importCommand{}, importCounts{}, exitConflict, `{"v":1.10}`},
		{"is left alone", importCommand{IfAbsent: true}, importCounts{Skipped: 1}, exitDone, `{"v":1.10}`},
		{"is replaced", importCommand{Overwrite: true}, importCounts{Replaced: 1}, exitDone, `2`},
		{"is counted when going on", importCommand{ContinueOnError: true}, importCounts{Failed: 1}, exitFailed, `{"v":1.10}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf()
			if _, _, err := importing(t, s, importCommand{}, lineA); err != nil {
				t.Fatal(err)
			}
			counts, _, err := importing(t, s, c.command, other)
			if counts != c.counts || exitCode(err) != c.exit || string(s.docs["n/a"].Body) != c.body {
				t.Errorf("%+v, exit %d (%v), %s stands", counts, exitCode(err), err, s.docs["n/a"].Body)
			}
		})
	}
}

func TestTheLastLineOfADocumentWins(t *testing.T) {
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf(`{"namespace":"n","id":"k%d","data":%d}`, i%3, i))
	}
	s := newShelf()
	if _, _, err := importing(t, s, importCommand{Overwrite: true, Concurrency: 16}, lines...); err != nil {
		t.Fatal(err)
	}
	for i := 197; i < 200; i++ {
		if got := string(s.docs[fmt.Sprintf("n/k%d", i%3)].Body); got != fmt.Sprint(i) {
			t.Errorf("k%d is %s, want %d", i%3, got, i)
		}
	}
}

func TestBadLinesAreNamedByNumber(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `{"namespace":`, "is no line of an export"},
		{"two values", lineA + lineA, "more behind"},
		{"an unknown field", `{"namespace":"n","id":"a","ttl":"1h","data":1}`, `unknown field "ttl"`},
		{"no id", `{"namespace":"n","data":1}`, "id is 0 bytes long"},
		{"no namespace", `{"id":"a","data":1}`, "namespace is 0 bytes long"},
		{"a bad id", `{"namespace":"n","id":"a//b","data":1}`, "segment"},
		{"no data", `{"namespace":"n","id":"a"}`, "has no data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf()
			_, _, err := importing(t, s, importCommand{}, lineB, "", c.line)
			if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want line 3 and %q", err, c.want)
			}
			counts, report, err := importing(t, newShelf(), importCommand{ContinueOnError: true}, c.line, lineB)
			if counts != (importCounts{Created: 1, Failed: 1}) || exitCode(err) != exitFailed || !strings.HasPrefix(report, "tierd: line 1: ") {
				t.Errorf("going on: %+v, %v, %q", counts, err, report)
			}
		})
	}
}

func TestNullIsData(t *testing.T) {
	s := newShelf()
	if _, _, err := importing(t, s, importCommand{}, `{"namespace":"n","id":"a","data":null}`); err != nil || string(s.docs["n/a"].Body) != "null" {
		t.Errorf("%q, %v", s.puts, err)
	}
}

func TestImportKeepsTheDaemonsExitCode(t *testing.T) {
	s := newShelf()
	s.failPut = tiering.Errorf(tiering.CodeUnavailable, "the database is down")
	_, _, err := importing(t, s, importCommand{}, lineA)
	if text := describe(err, ""); exitCode(err) != exitUnavailable || !strings.HasPrefix(text, "tierd: line 1: unavailable: the database is down\n") {
		t.Errorf("exit %d, %q", exitCode(err), text)
	}
}

func TestAnInterruptedImportEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job := newImportJob(&importCommand{Concurrency: 1, ContinueOnError: true}, newShelf(), &progress{}, io.Discard)
	err := job.run(ctx, strings.NewReader(strings.Repeat(lineA+"\n", 100)))
	if !errors.Is(err, context.Canceled) || exitCode(err) != exitFailed {
		t.Errorf("exit %d, %v", exitCode(err), err)
	}
}

func TestExportRoundTrip(t *testing.T) {
	s := newShelf()
	var lines []string
	for i := range 250 {
		lines = append(lines, fmt.Sprintf(`{"namespace":"n","id":"k%03d","data":{"i":%d,"html":"<&>"}}`, i, i))
	}
	if _, _, err := importing(t, s, importCommand{}, lines...); err != nil {
		t.Fatal(err)
	}
	s.cold["k007"] = true
	for _, c := range []struct {
		name       string
		mostAnswer int
	}{{"in full pages", 0}, {"where only few bodies fit in a page", 300}} {
		t.Run(c.name, func(t *testing.T) {
			s.mostAnswer = c.mostAnswer
			var out bytes.Buffer
			n, err := (&exportCommand{NS: "n"}).write(t.Context(), s, "", &out)
			if err != nil || n != 250 {
				t.Fatalf("%d, %v", n, err)
			}
			if !strings.Contains(out.String(), `"id":"k007","version":1,"data":{"i":7,"html":"<&>"}}`) {
				t.Errorf("the document in cold is missing or changed")
			}
			back := newShelf()
			counts, _, err := importing(t, back, importCommand{}, out.String())
			if err != nil || counts.Created != 250 {
				t.Fatalf("%+v, %v", counts, err)
			}
			for key, doc := range s.docs {
				if !bytes.Equal(back.docs[key].Body, doc.Body) {
					t.Errorf("%s came back as %s", key, back.docs[key].Body)
				}
			}
		})
	}
}

func TestExportPassesOverWhatWasDeletedMeanwhile(t *testing.T) {
	line, ok, err := exported(t.Context(), newShelf(), tiering.Item{Meta: tiering.Meta{Namespace: "n", ID: "a"}, Cold: true})
	if ok || err != nil {
		t.Errorf("%+v, %v, %v", line, ok, err)
	}
}

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out.jsonl")
	failure := errors.New("half way")
	err := writeFile(name, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return failure
	})
	entries, readErr := os.ReadDir(dir)
	if !errors.Is(err, failure) || readErr != nil || len(entries) != 0 {
		t.Errorf("%v; %v left behind (%v)", err, entries, readErr)
	}
	if err := writeFile(name, func(w io.Writer) error { _, err := io.WriteString(w, "whole"); return err }); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(name); err != nil || string(raw) != "whole" {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestLinesThatAreTooLongArePassedOver(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	r := newLineReader(strings.NewReader("one\n"+long+"\nthree"), 100<<10)
	for i, want := range []struct {
		line string
		err  error
		size int64
	}{{"one\n", nil, 4}, {"", errLineTooLong, 200<<10 + 1}, {"three", nil, 5}, {"", io.EOF, 0}} {
		line, err := r.next()
		if string(line) != want.line || !errors.Is(err, want.err) || r.size != want.size {
			t.Errorf("line %d: %q, %v, %d bytes; want %+v", i+1, line, err, r.size, want)
		}
		if want.err == nil && r.number != int64(i+1) {
			t.Errorf("line %d has the number %d", i+1, r.number)
		}
	}
}

func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 100, "[                              ]   0%  0 B of 100 B"},
		{512, 1024, "[===============               ]  50%  512 B of 1.0 KiB"},
		{200, 100, "[==============================] 100%  200 B of 100 B"},
		{2048, 0, "2.0 KiB"},
	} {
		if got := barText(c.done, c.total); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.total, got, c.want)
		}
	}
	var out bytes.Buffer
	b := newProgress(&process{stderr: &out}, 10)
	b.add(5)
	b.finish()
	if out.Len() > 0 {
		t.Errorf("no terminal, and yet %q", out.String())
	}
}

// Memories are imported a line each; again, nothing is stored twice; a line that
// is no memory is told with its number.
func TestImportOfMemories(t *testing.T) {
	d := start(t, t.TempDir(), nil)
	file := filepath.Join(t.TempDir(), "memories.jsonl")
	var lines []string
	for i := range 250 {
		lines = append(lines, fmt.Sprintf(`{"text":"note number %d","user":"ada"}`, i))
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"created 250, replaced 0, already there 0", "created 0, replaced 0, already there 250"} {
		if got := d.must("import", file, "--kind", "memory", "--namespace", "people"); !strings.Contains(got, want) {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(file, []byte(lines[0]+"\n"+`{"txet":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.run("import", file, "--kind", "memory", "--namespace", "people"); got.code == exitDone || !strings.Contains(got.stderr, "line 2") {
		t.Errorf("%+v", got)
	}
}

// What was exported from a namespace of memories is recalled where it is
// imported; logs are refused, because an export has a document a line.
func TestExportKeepsTheKind(t *testing.T) {
	from, to := start(t, t.TempDir(), nil), start(t, t.TempDir(), nil)
	file := filepath.Join(t.TempDir(), "people.jsonl")
	from.must("remember", "people", "Ada prefers a window seat", "--id", "seat")
	from.must("export", "people", "-o", file)
	to.must("import", file)
	if got := to.must("recall", "people", "window"); !strings.Contains(got, "people/seat") {
		t.Errorf("recalled %q", got)
	}
	from.must("append", "chats/1", `{"n":1}`)
	if got := from.run("export", "chats"); got.code != exitUsage || !strings.Contains(got.stderr, "tierd entries") {
		t.Errorf("%+v", got)
	}
}
