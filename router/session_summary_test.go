package router

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// modelled is a model that says how often it was asked, and may be held up.
type modelled struct {
	asked atomic.Int64
	hold  chan struct{} // nil: not
	mu    sync.Mutex
	last  string
}

func (m *modelled) MaxInput() int { return 32 << 10 }

func (m *modelled) Extend(ctx context.Context, before, talk string) (string, error) {
	n := m.asked.Add(1)
	m.mu.Lock()
	m.last = before + "|" + talk
	m.mu.Unlock()
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return fmt.Sprintf("MADE %d", n), nil
}

func withModel(m *modelled) setup {
	return setup{config: func(c *Config) { c.Summaries, c.SummaryWait = m, patience }}
}

func (w *world) says(word string, turns int) {
	w.Helper()
	_, err := w.r.Sessions().Append(w.ctx, "s", says(word, turns), nil, nil)
	w.no(err)
}

func (w *world) summary(budget int) (string, *tiering.ContextSummary) {
	w.Helper()
	got, err := w.r.Sessions().Context(w.ctx, "s", &tiering.ContextOptions{Budget: budget})
	w.no(err)
	return string(got.Messages[0]), got.Summary
}

// However many ask for a session's first summary, one is made.
func TestContextsShareTheMakingOfASummary(t *testing.T) {
	m := &modelled{hold: make(chan struct{})}
	w := open(t, withModel(m))
	w.session(tiering.NewSession{ID: "s", Events: says("early", 20)})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if text, _ := w.summary(2000); !strings.Contains(text, "MADE 1") {
				t.Errorf("the context holds %s", text)
			}
		})
	}
	w.eventually("a request", func() bool { return m.asked.Load() > 0 })
	close(m.hold)
	all.Wait()
	if n := m.asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// Nor where one asks that found none as it was being made.
func TestASummaryThatIsThereIsNotMadeAgain(t *testing.T) {
	m := &modelled{}
	w := open(t, withModel(m))
	for n := range 20 {
		id := fmt.Sprint(n)
		w.session(tiering.NewSession{ID: id, Events: says("early", 20)})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := w.r.Sessions().Context(w.ctx, id, &tiering.ContextOptions{Budget: 2000})
				w.no(err)
			})
		}
		all.Wait()
		if asked := m.asked.Load(); asked != int64(n+1) {
			t.Fatalf("for %d sessions it was asked %d times", n+1, asked)
		}
	}
}

// A summary that is made when its session has ended is not that of the next one under
// the id.
func TestASummaryIsOfOneLife(t *testing.T) {
	m := &modelled{hold: make(chan struct{})}
	s := withModel(m)
	w := open(t, s)
	w.session(tiering.NewSession{ID: "s", Events: says("early", 20)})
	gone := make(chan struct{})
	go func() { // it is answered, or its session is gone
		defer close(gone)
		_, _ = w.r.Sessions().Context(w.ctx, "s", &tiering.ContextOptions{Budget: 2000})
	}()
	w.eventually("a request", func() bool { return m.asked.Load() > 0 })
	w.no(w.r.Sessions().Delete(w.ctx, "s", nil))
	w.clock.advance(1e9)
	w.session(tiering.NewSession{ID: "s"})
	close(m.hold)
	<-gone
	w.r.background.Wait()
	d, err := sessions{w.r}.summariesOf(w.ctx, "s")
	w.no(err)
	if len(d.Summaries) != 0 {
		t.Errorf("the new session has %+v", d.Summaries)
	}
}

// A summary of what a resume went back over is not used any longer, and what is made
// then leaves that out.
func TestAResumeLeavesSummariesBehind(t *testing.T) {
	m := &modelled{}
	w := open(t, withModel(m))
	w.session(tiering.NewSession{ID: "s", Events: says("kept", 14)})
	if text, _ := w.summary(2000); !strings.Contains(text, "MADE 1") {
		t.Fatalf("the context holds %s", text)
	}
	_, err := w.r.Sessions().Checkpoint(w.ctx, "s", "c", nil)
	w.no(err)
	w.says("gone", 30)
	w.summary(2000) // extends it
	w.r.background.Wait()
	if n := m.asked.Load(); n != 2 || !strings.Contains(m.last, "MADE 1|") || !strings.Contains(m.last, "gone 3") {
		t.Fatalf("asked %d times, last %s", n, m.last)
	}
	_, err = w.r.Sessions().Resume(w.ctx, "s", "c", nil)
	w.no(err)
	w.says("later", 12)
	text, told := w.summary(2000)
	if !strings.Contains(text, "MADE 3") || strings.Contains(m.last, "gone") || strings.Contains(m.last, "MADE 2") || !strings.Contains(m.last, "kept 13") {
		t.Errorf("%s, %+v, made of %s", text, told, m.last)
	}
}

// Budgets leave out different turns: each has its summary, and the part stays small.
func TestSummariesOfSeveralBudgets(t *testing.T) {
	m := &modelled{}
	w := open(t, withModel(m))
	w.session(tiering.NewSession{ID: "s"})
	long := strings.Repeat("why ", 40)
	for i := range 12 {
		w.says(fmt.Sprint(long, "round ", i), 4)
		for _, budget := range []int{320, 400, 3000} {
			w.summary(budget)
		}
		w.r.background.Wait()
	}
	for _, budget := range []int{320, 400, 3000} {
		if _, told := w.summary(budget); told == nil || told.Kind != tiering.SummaryModel || told.ModelTo > told.To {
			t.Errorf("budget %d: %+v", budget, told)
		}
	}
	d, err := sessions{w.r}.summariesOf(w.ctx, "s")
	w.no(err)
	if n := len(d.Summaries); n == 0 || n > summaryRanges || m.asked.Load() > 60 {
		t.Errorf("%d summaries are kept, asked %d times", n, m.asked.Load())
	}
}

// A summary is the session's: an export shows it, an import does not take it.
func TestExportsShowSummaries(t *testing.T) {
	w := open(t, withModel(&modelled{}))
	w.session(tiering.NewSession{ID: "s", Events: says("early", 20)})
	w.summary(2000)
	e, err := w.r.Sessions().Export(w.ctx, "s")
	w.no(err)
	if len(e.Summaries) != 1 || e.Summaries[0].Text != "MADE 1" || e.Summaries[0].MadeAt.IsZero() {
		t.Errorf("the export has %+v", e.Summaries)
	}
	e.Session.ID = "t"
	b, err := json.Marshal(e)
	w.no(err)
	var again tiering.SessionExport
	w.no(json.Unmarshal(b, &again))
	_, err = w.r.Sessions().Import(w.ctx, &again)
	w.no(err)
	if d, err := (sessions{w.r}).summariesOf(w.ctx, "t"); err != nil || len(d.Summaries) != 0 {
		t.Errorf("the imported session has %+v, %v", d.Summaries, err)
	}
}
