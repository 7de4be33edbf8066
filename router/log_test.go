package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// logs is the namespace that tests append to.
const logs = "chat"

// numbers are the entries from..to, whose data is their number.
func numbers(from, to int) (out []json.RawMessage) {
	for n := from; n <= to; n++ {
		out = append(out, json.RawMessage(fmt.Sprint(n)))
	}
	return out
}

func (w *world) append(id string, entries ...json.RawMessage) *tiering.Appended {
	w.Helper()
	a, err := w.writer.Append(w.ctx, logs, id, entries, nil)
	w.no(err)
	return a
}

// entries is a page of a log as text: seq=data, and + where there is more.
func (w *world) entries(id string, o *tiering.EntriesOptions) string {
	w.Helper()
	page, err := w.r.Entries(w.ctx, logs, id, o)
	w.no(err)
	return shown(page)
}

func shown(page *tiering.EntryPage) string {
	var out []string
	for _, e := range page.Entries {
		out = append(out, fmt.Sprintf("%d=%s", e.Seq, e.Data))
	}
	if page.More {
		out = append(out, "+")
	}
	return strings.Join(out, " ")
}

func TestALogIsReadInEveryWay(t *testing.T) {
	for _, place := range []place{embedded, shared, servers} {
		t.Run(place.String(), func(t *testing.T) {
			w := open(t, setup{place: place})
			a := w.append("c", numbers(1, 1)...)
			if a.FirstSeq != 1 || a.LastSeq != 1 || !a.Created {
				t.Errorf("the first append answers %+v", a)
			}
			w.advance(w.unit)
			a = w.append("c", numbers(2, 4)...)
			if a.FirstSeq != 2 || a.LastSeq != 4 || a.Created {
				t.Errorf("the second append answers %+v", a)
			}
			middle := a.Time
			w.advance(w.unit)
			w.append("c", numbers(5, 6)...)
			for _, c := range []struct {
				name string
				o    *tiering.EntriesOptions
				want string
			}{
				{"all", nil, "1=1 2=2 3=3 4=4 5=5 6=6"},
				{"the newest two", &tiering.EntriesOptions{Descending: true, Limit: 2}, "6=6 5=5 +"},
				{"on from a number", &tiering.EntriesOptions{After: 4}, "5=5 6=6"},
				{"on from the last", &tiering.EntriesOptions{After: 6}, ""},
				{"on from beyond", &tiering.EntriesOptions{After: 60}, ""},
				{"a page", &tiering.EntriesOptions{After: 1, Limit: 2}, "2=2 3=3 +"},
				{"the last page is known to be", &tiering.EntriesOptions{After: 4, Limit: 2}, "5=5 6=6"},
				{"back from a number", &tiering.EntriesOptions{Before: 3, Descending: true}, "2=2 1=1"},
				{"since", &tiering.EntriesOptions{Since: middle}, "4=4 5=5 6=6"},
				{"until", &tiering.EntriesOptions{Until: middle}, "1=1 2=2 3=3"},
			} {
				if got := w.entries("c", c.o); got != c.want {
					t.Errorf("%s: %s, want %s", c.name, got, c.want)
				}
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	w := open(t, setup{})
	w.append("c", numbers(1, 3)...)
	w.put("doc", `1`)
	w.policy("picky", tiering.Policy{Kind: tiering.KindLog, Schema: json.RawMessage(`{"type":"string"}`), MaxSize: 10})
	seq := func(n int64) *tiering.AppendOptions { return &tiering.AppendOptions{ExpectSeq: &n} }
	for _, c := range []struct {
		name    string
		ns, id  string
		entries []json.RawMessage
		o       *tiering.AppendOptions
		want    tiering.Code
		pointer string
	}{
		{"no entries", logs, "c", nil, nil, tiering.CodeInvalid, ""},
		{"too many entries", logs, "c", numbers(1, tiering.MaxAppend+1), nil, tiering.CodeInvalid, ""},
		{"what is no JSON", logs, "c", []json.RawMessage{[]byte(`1`), []byte(`{"a":1,"a":2}`)}, nil, tiering.CodeInvalid, "/1/a"},
		{"another last number", logs, "c", numbers(4, 4), seq(2), tiering.CodeSeqConflict, ""},
		{"a log that should not be", logs, "c", numbers(4, 4), seq(0), tiering.CodeSeqConflict, ""},
		{"a log that should be", logs, "new", numbers(1, 1), seq(1), tiering.CodeSeqConflict, ""},
		{"a negative number", logs, "c", numbers(4, 4), seq(-1), tiering.CodeInvalid, ""},
		{"a namespace of documents", space, "c", numbers(1, 1), nil, tiering.CodeWrongKind, ""},
		{"an entry that breaks the schema", "picky", "c", []json.RawMessage{[]byte(`"a"`), []byte(`1`)}, nil, tiering.CodeInvalid, "/1"},
		{"an entry that is too large", "picky", "c", []json.RawMessage{[]byte(`"0123456789"`)}, nil, tiering.CodeTooLarge, ""},
	} {
		_, err := w.r.Append(w.ctx, c.ns, c.id, c.entries, c.o)
		var e *tiering.Error
		if !errors.As(err, &e) || e.Code != c.want || e.Pointer != c.pointer {
			t.Errorf("%s: %v at %q, want %s at %q", c.name, err, e.Pointer, c.want, c.pointer)
		}
		if c.name == "another last number" && e.CurrentVersion != 3 {
			t.Errorf("the conflict names %d", e.CurrentVersion)
		}
	}
	if got := w.entries("c", nil); got != "1=1 2=2 3=3" {
		t.Errorf("the log holds %s", got)
	}
	for name, call := range map[string]func() error{
		"get":   func() error { _, err := w.r.Get(w.ctx, logs, "c", nil); return err },
		"put":   func() error { _, err := w.r.Put(w.ctx, logs, "c", []byte(`1`), nil); return err },
		"query": func() error { _, err := w.r.Query(w.ctx, logs, nil); return err },
		"read of documents as a log": func() error {
			_, err := w.r.Entries(w.ctx, space, "doc", nil)
			return err
		},
	} {
		if err := call(); tiering.CodeOf(err) != tiering.CodeWrongKind {
			t.Errorf("%s answers %v", name, err)
		}
	}
	if _, err := w.r.Entries(w.ctx, logs, "never", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("a log that never was: %v", err)
	}
}

// 64 appenders to one log, of single entries and of runs, some with
// expectations: no number is left out or given twice, a run is together, and
// whoever was refused left nothing.
func TestSequencesAreDense(t *testing.T) {
	for _, place := range []place{embedded, shared, servers} {
		t.Run(place.String(), func(t *testing.T) {
			w := open(t, setup{place: place})
			var mu sync.Mutex
			given := map[int64]string{}
			var wg sync.WaitGroup
			for n := range 64 {
				wg.Go(func() {
					r := []*Router{w.r, w.writer}[n%2]
					for i := range 5 {
						run := make([]json.RawMessage, 1+n%3)
						for j := range run {
							run[j] = json.RawMessage(fmt.Sprintf(`"%d.%d.%d"`, n, i, j))
						}
						var o *tiering.AppendOptions
						if n%8 == 0 {
							seq := int64(i)
							o = &tiering.AppendOptions{ExpectSeq: &seq}
						}
						a, err := r.Append(w.ctx, logs, "c", run, o)
						if o != nil && tiering.CodeOf(err) == tiering.CodeSeqConflict {
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for j, e := range run {
							given[a.FirstSeq+int64(j)] = string(e)
						}
						if a.LastSeq-a.FirstSeq != int64(len(run)-1) {
							t.Errorf("a run of %d is %d to %d", len(run), a.FirstSeq, a.LastSeq)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			page, err := w.r.Entries(w.ctx, logs, "c", &tiering.EntriesOptions{Limit: 1000})
			w.no(err)
			if len(page.Entries) != len(given) || page.More {
				t.Fatalf("%d entries are there, %d were acknowledged", len(page.Entries), len(given))
			}
			for i, e := range page.Entries {
				if e.Seq != int64(i+1) || string(e.Data) != given[e.Seq] {
					t.Fatalf("entry %d is %d=%s, acknowledged was %s", i+1, e.Seq, e.Data, given[e.Seq])
				}
			}
		})
	}
}

// An append with an Idempotency-Key happens once, runs included, also when it
// comes back in a fold with others.
func TestAnAppendHappensOnce(t *testing.T) {
	w := open(t, setup{})
	o := &tiering.AppendOptions{IdempotencyKey: "k1"}
	first, err := w.r.Append(w.ctx, logs, "c", numbers(1, 3), o)
	w.no(err)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			a, err := w.r.Append(w.ctx, logs, "c", numbers(1, 3), o)
			if err != nil || !a.Replayed || a.FirstSeq != first.FirstSeq || a.LastSeq != first.LastSeq {
				t.Errorf("the repeated append answers %+v, %v", a, err)
			}
		})
		wg.Go(func() {
			if _, err := w.r.Append(w.ctx, logs, "c", numbers(7, 8), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	page, err := w.r.Entries(w.ctx, logs, "c", &tiering.EntriesOptions{Limit: 1000})
	w.no(err)
	if len(page.Entries) != 3+32 {
		t.Errorf("the log has %d entries", len(page.Entries))
	}
	if _, err := w.r.Append(w.ctx, logs, "c", numbers(1, 2), o); tiering.CodeOf(err) != tiering.CodeIdempotencyMismatch {
		t.Errorf("the key with another request: %v", err)
	}
}

// A log that is deleted and made anew goes on above where it was, and shows
// nothing of its earlier life.
func TestALogMadeAnewGoesOnAbove(t *testing.T) {
	w := open(t, setup{})
	w.append("c", numbers(1, 3)...)
	w.advance(time.Minute)
	if _, err := w.r.Delete(w.ctx, logs, "c", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.r.Entries(w.ctx, logs, "c", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("the deleted log: %v", err)
	}
	a := w.append("c", numbers(1, 2)...)
	if a.FirstSeq != 5 || !a.Created {
		t.Errorf("the append answers %+v", a)
	}
	if got := w.entries("c", nil); got != "5=1 6=2" {
		t.Errorf("the log holds %s", got)
	}
	if got := w.entries("c", &tiering.EntriesOptions{Descending: true}); got != "6=2 5=1" {
		t.Errorf("the log holds, newest first, %s", got)
	}
}

// Appends slide a session's expiry; an expired log is not found at once.
func TestALogExpires(t *testing.T) {
	w := open(t, setup{})
	w.policy(logs, tiering.Policy{Kind: tiering.KindLog, Class: tiering.ClassSession, TTL: tiering.Duration(time.Hour)})
	w.append("c", numbers(1, 1)...)
	w.advance(50 * time.Minute)
	w.append("c", numbers(2, 2)...)
	w.advance(50 * time.Minute)
	if got := w.entries("c", nil); got != "1=1 2=2" {
		t.Errorf("after a slide: %s", got)
	}
	w.advance(10*time.Minute + time.Second)
	if _, err := w.r.Entries(w.ctx, logs, "c", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("the expired log: %v", err)
	}
	zero := int64(0)
	if a, err := w.r.Append(w.ctx, logs, "c", numbers(1, 1), &tiering.AppendOptions{ExpectSeq: &zero}); err != nil || a.FirstSeq != 3 {
		t.Errorf("an expired log counts as absent: %+v, %v", a, err)
	}
}

// A key that is limited to a user appends to and reads that user's logs alone.
func TestLogsOfAUser(t *testing.T) {
	w := open(t, setup{})
	ann := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "ann"}})
	bob := w.r.As(tiering.Principal{Tenant: w.tenant, Scope: tiering.Scope{User: "bob"}})
	_, err := ann.Append(w.ctx, logs, "c", numbers(1, 1), nil)
	w.no(err)
	if _, err := bob.Append(w.ctx, logs, "c", numbers(2, 2), nil); tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("another user's append: %v", err)
	}
	if _, err := bob.Entries(w.ctx, logs, "c", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("another user's read: %v", err)
	}
	five := int64(5)
	if _, err := bob.Append(w.ctx, logs, "c", numbers(2, 2), &tiering.AppendOptions{ExpectSeq: &five}); tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("a conflict tells another user how long the log is: %v", err)
	}
	page, err := ann.Entries(w.ctx, logs, "c", nil)
	w.no(err)
	if shown(page) != "1=1" {
		t.Errorf("the log holds %s", shown(page))
	}
}

// Appends take part in batches.
func TestAppendsInBatches(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		t.Run(fmt.Sprintf("atomic %t", atomic), func(t *testing.T) {
			w := open(t, setup{})
			b := &tiering.Batch{Atomic: atomic, IdempotencyKey: "once", Ops: []tiering.BatchOp{
				{Op: "put", Namespace: space, ID: "k", Data: []byte(`1`)},
				{Op: "append", Namespace: logs, ID: "c", Data: []byte(`[1,2]`)},
				{Op: "append", Namespace: logs, ID: "c", Data: []byte(`{"n":3}`)},
			}}
			for try := range 2 {
				res, err := w.r.Batch(w.ctx, b)
				w.no(err)
				one, two := res.Results[1].Appended, res.Results[2].Appended
				if one == nil || two == nil || one.FirstSeq != 1 || one.LastSeq != 2 || two.FirstSeq != 3 || two.LastSeq != 3 {
					t.Fatalf("try %d: %+v, %+v", try, one, two)
				}
				if !one.Created || two.Created || res.Results[0].Receipt == nil {
					t.Errorf("try %d: created %t and %t, receipt %v", try, one.Created, two.Created, res.Results[0].Receipt)
				}
			}
			if got := w.entries("c", nil); got != `1=1 2=2 3={"n":3}` {
				t.Errorf("the log holds %s", got)
			}
		})
	}
	w := open(t, setup{})
	w.append("c", numbers(1, 1)...)
	seven := int64(7)
	_, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
		{Op: "put", Namespace: space, ID: "k", Data: []byte(`1`)},
		{Op: "append", Namespace: logs, ID: "c", Data: []byte(`2`), IfVersion: &seven},
	}})
	var e *tiering.Error
	if !errors.As(err, &e) || e.Code != tiering.CodeSeqConflict || e.FailedOp != 1 || e.CurrentVersion != 1 {
		t.Errorf("an expectation that does not hold: %v", err)
	}
	if _, err := w.r.Get(w.ctx, space, "k", nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("half of the batch was done: %v", err)
	}
}

// A watcher of a log sees an event an entry, in order, with the entry.
func TestWatchOfALog(t *testing.T) {
	w := open(t, setup{})
	w.append("c", numbers(1, 2)...)
	w.append("other", numbers(1, 1)...)
	w.append("c", numbers(3, 3)...)
	_, err := w.r.Delete(w.ctx, logs, "c", nil)
	w.no(err)
	var got []string
	for _, e := range w.watched(w.r, &tiering.WatchOptions{Namespace: logs, ID: "c", From: "start", Data: true}) {
		got = append(got, fmt.Sprintf("%s %d %s", e.Type, e.Version, e.Data))
	}
	if want := "log.appended 1 1, log.appended 2 2, log.appended 3 3, log.deleted 4 "; strings.Join(got, ", ") != want {
		t.Errorf("the watch saw %s, want %s", strings.Join(got, ", "), want)
	}
}

// Entries leave warm by their age, each on its own, are read back through the
// same call, and are kept while the log lives, however old they are.
func TestALogIsReadFromEveryTier(t *testing.T) {
	a := openArchived(t)
	read := func(o *tiering.EntriesOptions) (string, string) {
		t.Helper()
		page, err := a.r.Entries(a.ctx, logs, "c", o)
		a.no(err)
		tiers := ""
		for _, e := range page.Entries {
			tiers += string(e.Tier[0])
		}
		return shown(page), tiers
	}
	check := func(when string, o *tiering.EntriesOptions, want, wantTiers string) {
		t.Helper()
		if got, tiers := read(o); got != want || tiers != wantTiers {
			t.Errorf("%s: %s (%s), want %s (%s)", when, got, tiers, want, wantTiers)
		}
	}
	pass := func(days time.Duration) {
		t.Helper()
		a.clock.advance(days * 24 * time.Hour)
		a.no(a.engine.ConfirmClock(a.ctx))
	}
	for n := 1; n <= 4; n++ {
		a.append("c", numbers(n, n)...)
		a.no(a.engine.Flush(a.ctx))
	}
	pass(20)
	a.append("c", numbers(5, 6)...)
	a.no(a.engine.Flush(a.ctx))
	a.no(a.engine.Sweep(a.ctx))
	check("younger than demote_after", nil, "1=1 2=2 3=3 4=4 5=5 6=6", "wwwwww")
	pass(11)
	a.no(a.engine.Sweep(a.ctx))
	check("the older ones have left", nil, "1=1 2=2 3=3 4=4 5=5 6=6", "ccccww")
	check("a page in cold", &tiering.EntriesOptions{After: 1, Limit: 2}, "2=2 3=3 +", "cc")
	check("a page over both", &tiering.EntriesOptions{After: 3, Limit: 2}, "4=4 5=5 +", "cw")
	check("the newest", &tiering.EntriesOptions{Descending: true, Limit: 3}, "6=6 5=5 4=4 +", "wwc")
	check("all, newest first", &tiering.EntriesOptions{Descending: true}, "6=6 5=5 4=4 3=3 2=2 1=1", "wwcccc")
	pass(30)
	a.no(a.engine.Sweep(a.ctx))
	check("all in cold", nil, "1=1 2=2 3=3 4=4 5=5 6=6", "cccccc")
	a.append("c", numbers(7, 7)...)
	check("one more", &tiering.EntriesOptions{After: 4}, "5=5 6=6 7=7", "ccw")
	// Two years on every entry is kept still.
	pass(2 * 365)
	a.no(a.engine.Flush(a.ctx))
	for range 3 {
		a.no(a.engine.Sweep(a.ctx))
		_, err := a.engine.GC(a.ctx, false)
		a.no(err)
		pass(2)
	}
	check("two years later", nil, "1=1 2=2 3=3 4=4 5=5 6=6 7=7", "ccccccc")
	// Without cold it is unavailable or damaged, never shorter.
	for _, b := range []*coldtest.FaultBucket{a.primary, a.backup} {
		b.Inject(coldtest.Fault{Before: errors.New("away")})
	}
	if _, err := a.r.Entries(a.ctx, logs, "c", nil); !errors.Is(err, tiering.ErrUnavailable) {
		t.Errorf("with both buckets away: %v", err)
	}
}

// A run is committed in one batch, with whatever fits beside it.
func TestRunsInTheQueue(t *testing.T) {
	rec := &batches{}
	w := open(t, setup{config: func(c *Config) { c.Recorder = rec }})
	w.append("c", numbers(1, 1)...)
	release := w.blockQueue()
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			if _, err := w.r.Append(w.ctx, logs, "c", numbers(1, 400), nil); err != nil {
				t.Error(n, err)
			}
		})
	}
	w.inLine(4)
	rec.take()
	release()
	wg.Wait()
	if got := rec.take(); !slices.Equal(got, []int{1, 800, 800}) {
		t.Errorf("the batches had %v rows", got)
	}
}

// batches records how many rows each batch had.
type batches struct {
	discard
	mu   sync.Mutex
	rows []int
}

func (b *batches) Batch(rows int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, rows)
}

func (b *batches) take() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows := b.rows
	b.rows = nil
	return rows
}
