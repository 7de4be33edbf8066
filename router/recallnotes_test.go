package router

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// noted notes n recalls for the session, a second apart.
func (w *world) noted(n int) {
	w.Helper()
	s := sessions{w.r}
	for i := range n {
		w.advance(time.Second)
		at, err := s.find(w.ctx, "s")
		w.no(err)
		s.noteRecall("s", at, fmt.Sprint("query ", i), &tiering.ContextRecall{Memories: []tiering.RecalledMemory{{Namespace: "people", ID: "m", Version: 1}}})
	}
}

// However often a session's contexts recall, what they recalled is written together, and
// the newest of it is kept; whoever reads the timeline sees all of it at once.
func TestRecallsAreWrittenTogether(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s"})
	before := w.count("warm.Atomic")
	w.noted(100)
	line, err := w.r.Sessions().Timeline(w.ctx, "s", nil)
	w.no(err)
	if n := w.count("warm.Atomic") - before; n != 1 {
		t.Errorf("100 recalls made %d transactions", n)
	}
	var recalled []string
	for _, i := range line.Items {
		if i.What == "recalled" {
			recalled = append(recalled, string(i.Data[len(`{"time":"2026-03-01T12:00:00Z",`):][:len(`"query":"query 00"`)]))
		}
	}
	if len(recalled) != recallsKept || recalled[0] != `"query":"query 60"` || recalled[recallsKept-1] != `"query":"query 99"` {
		t.Errorf("the timeline has %v", recalled)
	}
	w.noted(1)
	e, err := w.r.Sessions().Export(w.ctx, "s")
	w.no(err)
	if n := len(e.Recalls); n != recallsKept || e.Recalls[n-1].Query != "query 0" {
		t.Errorf("the export has %+v", e.Recalls)
	}
}

// What was recalled for a session is not told of the next one under its id.
func TestRecallsAreOfOneLife(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s"})
	w.noted(1)
	w.no(w.r.Sessions().Delete(w.ctx, "s", nil))
	w.advance(time.Second)
	w.session(tiering.NewSession{ID: "s"})
	got, err := sessions{w.r}.recallsOf(w.ctx, "s")
	w.no(err)
	if len(got) != 0 {
		t.Errorf("the new session has %+v", got)
	}
}

// A memory that is gone is named by no recall of it, whether it was noted when the
// memory went or not yet; nor by what is stored of recalls, which an erase leaves as
// it is. Whatever takes its place is not what was recalled.
func TestRecallsNameNothingThatIsGone(t *testing.T) {
	ends := map[string]func(w *world, id string){
		"deleted": func(w *world, id string) {
			_, err := w.r.Delete(w.ctx, "people", id, nil)
			w.no(err)
		},
		"erased": func(w *world, id string) {
			w.no(w.warm.StartErase(w.ctx, warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: w.tenant, Namespace: "people", ID: id}}))
			for more := true; more; {
				var err error
				_, more, err = w.warm.EraseKeys(w.ctx, "r", 100)
				w.no(err)
			}
		},
	}
	for name, end := range ends {
		for _, noted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, noted before %t", name, noted), func(t *testing.T) {
				w := open(t, setup{})
				w.session(tiering.NewSession{ID: "s"})
				remember := func(id string) {
					_, err := w.r.Put(w.ctx, "people", id, []byte(`{}`), nil)
					w.no(err)
				}
				told := func() string {
					recalls, err := sessions{w.r}.recallsOf(w.ctx, "s")
					w.no(err)
					return fmt.Sprint(recalls[0].Memories)
				}
				remember("stays")
				remember("canary")
				at, err := sessions{w.r}.find(w.ctx, "s")
				w.no(err)
				sessions{w.r}.noteRecall("s", at, "q", &tiering.ContextRecall{Memories: []tiering.RecalledMemory{
					{Namespace: "people", ID: "canary", Version: 1, Score: 2}, {Namespace: "people", ID: "stays", Version: 1, Score: 1},
				}})
				if noted {
					if got := told(); got != "[{people canary 1 2 false} {people stays 1 1 false}]" {
						t.Fatalf("before it is %s", got)
					}
				}
				w.advance(time.Second)
				end(w, "canary")
				want := "[{people  1 2 true} {people stays 1 1 false}]"
				if got := told(); got != want {
					t.Errorf("told is %s", got)
				}
				part, err := w.warm.Load(w.ctx, sessions{w.r}.partKey("s", recallsPart))
				w.no(err)
				if body := string(part.Body); body == "" || strings.Contains(body, "canary") || strings.Contains(body, "stays") {
					t.Errorf("stored is %s", body)
				}
				remember("canary")
				if got := told(); got != want {
					t.Errorf("once another has the id it is %s", got)
				}
			})
		}
	}
}

// Recalls stand among the entries and versions of their time, in pages as in one.
func TestRecallsInPagesOfATimeline(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s"})
	for i := range 4 {
		w.advance(time.Second)
		_, err := w.r.Sessions().Append(w.ctx, "s", numbers(i, i), nil, nil)
		w.no(err)
		w.noted(i % 2)
	}
	whole, err := w.r.Sessions().Timeline(w.ctx, "s", nil)
	w.no(err)
	var order []string
	for _, i := range whole.Items {
		order = append(order, i.What)
	}
	if got := fmt.Sprint(order); got != "[created version event event recalled event event recalled]" {
		t.Errorf("the timeline is %s", got)
	}
	var paged []tiering.TimelineItem
	o := &tiering.EntriesOptions{Limit: 2}
	for more := true; more; {
		page, err := w.r.Sessions().Timeline(w.ctx, "s", o)
		w.no(err)
		paged, more = append(paged, page.Items...), page.More
		for _, i := range page.Items {
			o.After = max(o.After, i.Seq)
		}
	}
	if fmt.Sprintf("%+v", paged) != fmt.Sprintf("%+v", whole.Items) {
		t.Errorf("pages have %+v, want %+v", paged, whole.Items)
	}
}
