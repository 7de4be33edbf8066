package tierd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// chatServer speaks the chat completions protocol. Its n-th answer says which one it
// is, unless fault makes another one and reports so.
type chatServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // what the user's messages said
	fault func(w http.ResponseWriter, r *http.Request, n int) bool
}

func newChatServer(t *testing.T) *chatServer {
	t.Helper()
	c := &chatServer{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" || q.Model != "m" || len(q.Messages) != 2 {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		c.mu.Lock()
		c.asked = append(c.asked, q.Messages[1].Content)
		n, fault := len(c.asked), c.fault
		c.mu.Unlock()
		if fault == nil || !fault(w, r, n) {
			say(w, fmt.Sprintf("MODEL SUMMARY %d.", n))
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func say(w http.ResponseWriter, text string) {
	b, _ := json.Marshal(text)
	fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}]}`, b)
}

// calls are what it was asked so far.
func (c *chatServer) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}

// fails makes its further answers.
func (c *chatServer) fails(fault func(w http.ResponseWriter, r *http.Request, n int) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

func (c *chatServer) url() string { return "openai+" + c.URL + "/v1?model=m&timeout=5m" }

// summaries is a node with a session of turns.
type summaries struct {
	*testing.T
	*tierd.Node
	turns int
}

func openSummaries(t *testing.T, c tierd.Config) *summaries {
	t.Helper()
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	n, err := tierd.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(t.Context()) })
	return &summaries{T: t, Node: n}
}

func (s *summaries) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *summaries) talk(turns int) {
	s.Helper()
	for range turns {
		_, err := s.Sessions().Append(s.Context(), "s", []json.RawMessage{
			fmt.Appendf(nil, `{"role":"user","content":"question %d?","_secret":"hidden"}`, s.turns),
			fmt.Appendf(nil, `{"role":"assistant","content":"answer %d"}`, s.turns),
		}, nil, nil)
		s.must(err)
		s.turns++
	}
}

func (s *summaries) context(budget int) *tiering.SessionContext {
	s.Helper()
	got, err := s.Sessions().Context(s.Context(), "s", &tiering.ContextOptions{Budget: budget})
	s.must(err)
	if got.Tokens > budget || got.Summary == nil {
		s.Fatalf("%d tokens of %d, summary %+v", got.Tokens, budget, got.Summary)
	}
	return got
}

// until reads contexts until one is as wanted.
func (s *summaries) until(what string, ok func(*tiering.SessionContext) bool) *tiering.SessionContext {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got := s.context(4000); ok(got) {
			return got
		}
	}
	s.Fatalf("%s never came: %+v", what, s.context(4000).Summary)
	return nil
}

func fromModel(c *tiering.SessionContext) bool { return c.Summary.Kind == tiering.SummaryModel }

func first(c *tiering.SessionContext) string { return string(c.Messages[0]) }

// A model's summary is made once for a range, extended as the log grows, kept over a
// restart, and goes with its session.
func TestSummariesOfAModelGrowWithTheLog(t *testing.T) {
	fake := newChatServer(t)
	config := tierd.Config{Data: t.TempDir(), Summarise: fake.url()}
	s := openSummaries(t, config)
	_, err := s.Sessions().Create(t.Context(), &tiering.NewSession{ID: "s", User: "ada"})
	s.must(err)
	s.talk(13) // three more than stand in a context
	got := s.until("a summary", fromModel)
	if !strings.Contains(first(got), "MODEL SUMMARY 1.") || got.Summary.Kind != tiering.SummaryModel || got.Summary.ModelTo != got.Summary.To || got.Summary.Reason != "" {
		t.Fatalf("%s, %+v", first(got), got.Summary)
	}
	sent := fake.calls()[0]
	if !strings.Contains(sent, "question 2") || strings.Contains(sent, "question 3") || strings.Contains(sent, "hidden") || strings.Contains(sent, "_secret") {
		t.Errorf("it was sent %s", sent)
	}
	s.talk(4) // not enough for another request
	got = s.context(4000)
	if text := first(got); !strings.Contains(text, "MODEL SUMMARY 1.") || !strings.Contains(text, `Since then:\n- user: question 3?`) || got.Summary.ModelTo == got.Summary.To || len(fake.calls()) != 1 {
		t.Errorf("%s, %+v, asked %d times", text, got.Summary, len(fake.calls()))
	}
	s.talk(1)
	s.until("an extended summary", func(c *tiering.SessionContext) bool { return strings.Contains(first(c), "MODEL SUMMARY 2.") })
	if second := fake.calls()[1]; !strings.Contains(second, "MODEL SUMMARY 1.") || !strings.Contains(second, "question 7") || strings.Contains(second, "question 2") {
		t.Errorf("it was extended with %s", second)
	}
	s.must(s.Close(t.Context()))

	after := openSummaries(t, config)
	if text := first(after.context(4000)); !strings.Contains(text, "MODEL SUMMARY 2.") || len(fake.calls()) != 2 {
		t.Errorf("after a restart: %s, asked %d times", text, len(fake.calls()))
	}
	e, err := after.Sessions().Export(t.Context(), "s")
	after.must(err)
	if len(e.Summaries) != 1 || e.Summaries[0].Text != "MODEL SUMMARY 2." {
		t.Errorf("the export has %+v", e.Summaries)
	}
	after.must(after.Sessions().Delete(t.Context(), "s", nil))
	_, err = after.Sessions().Create(t.Context(), &tiering.NewSession{ID: "s", User: "ada"})
	after.must(err)
	after.talk(13)
	if text := first(after.until("a summary", fromModel)); !strings.Contains(text, "MODEL SUMMARY 3.") || strings.Contains(fake.calls()[2], "MODEL SUMMARY") {
		t.Errorf("a session of the same id: %s from %s", text, fake.calls()[2])
	}

	if len(filesWith(t, config.Data, "MODEL SUMMARY")) == 0 {
		t.Error("no file holds a summary: how would an erase be seen?")
	}
	dry := false
	_, err = after.Erase(t.Context(), tiering.EraseRequest{User: "ada", DryRun: &dry})
	after.must(err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		found := filesWith(t, config.Data, "MODEL SUMMARY")
		if len(found) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after an erase it is in %v", found)
		}
	}
}

// filesWith names the files below a folder that hold a text.
func filesWith(t *testing.T, folder, text string) (found []string) {
	t.Helper()
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it went meanwhile
		}
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// Whatever the chat server does, a context is answered in time, within its budget, and
// says why its summary is extractive.
func TestContextsDoNotDependOnTheChatServer(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	status := func(code int, after string) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(code)
			return true
		}
	}
	text := func(body string) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			fmt.Fprint(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request, int) bool
		says  []string
	}{
		{"it is busy", status(429, "600"), []string{"left alone", "asks to wait"}},
		{"it fails", status(500, ""), []string{"left alone", "500"}},
		{"nonsense", text(`<html>`), []string{"left alone", "something else"}},
		{"no message", text(`{"choices":[]}`), []string{"left alone", "without a message"}},
		{"it refuses the talk", status(400, ""), []string{"refused this conversation"}},
		{"it redirects", func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, "/v1/elsewhere", http.StatusTemporaryRedirect)
			return true
		}, []string{"left alone", "redirects"}},
		{"it hangs", func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			return true
		}, []string{"being made"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // one of them waits
			fake := newChatServer(t)
			fake.fails(c.fault)
			s := openSummaries(t, tierd.Config{Summarise: fake.url()})
			_, err := s.Sessions().Create(t.Context(), &tiering.NewSession{ID: "s"})
			s.must(err)
			s.talk(13)
			began := time.Now()
			got := s.until("the reason", func(c2 *tiering.SessionContext) bool {
				if c2.Summary.Kind != tiering.SummaryExtractive || c2.Summary.Reason == "" || !strings.Contains(first(c2), "Summary of 3 earlier turns") {
					t.Errorf("%s, %+v", first(c2), c2.Summary)
				}
				return strings.Contains(c2.Summary.Reason, c.says[0])
			})
			took := time.Since(began)
			if took > 20*time.Second { // 3 s, on a machine that is busy
				t.Errorf("it took %v", took)
			}
			for _, says := range c.says {
				if !strings.Contains(got.Summary.Reason, says) {
					t.Errorf("%q is not in %q", says, got.Summary.Reason)
				}
			}
			if n := len(fake.calls()); n != 1 && took < 4*time.Second {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// A summary that is far too long is cut to the budget.
func TestALongSummaryIsCut(t *testing.T) {
	fake := newChatServer(t)
	fake.fails(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		say(w, strings.Repeat("blah ", 100_000))
		return true
	})
	s := openSummaries(t, tierd.Config{Summarise: fake.url()})
	_, err := s.Sessions().Create(t.Context(), &tiering.NewSession{ID: "s"})
	s.must(err)
	s.talk(13)
	s.until("a summary", fromModel)
	for _, budget := range []int{160, 250, 4000} {
		if got := s.context(budget); got.Summary.Tokens > 400 || !strings.Contains(first(got), "blah blah") {
			t.Errorf("budget %d: %+v, %.200s", budget, got.Summary, first(got))
		}
	}
}

// Nothing is sent anywhere unless a server was configured, and a URL that cannot be is
// refused at the start.
func TestSummariesAreExtractiveUnlessConfigured(t *testing.T) {
	s := openSummaries(t, tierd.Config{})
	_, err := s.Sessions().Create(t.Context(), &tiering.NewSession{ID: "s"})
	s.must(err)
	s.talk(13)
	if got := s.context(4000).Summary; got.Kind != tiering.SummaryExtractive || got.Reason != "" {
		t.Errorf("%+v", got)
	}
	for _, url := range []string{"openai+https://h/v1", "openai:", "extractive:x", "https://h/v1?model=m"} {
		if n, err := tierd.Open(t.Context(), tierd.Config{Data: t.TempDir(), Summarise: url}); err == nil {
			t.Errorf("%s was taken", url)
			_ = n.Close(t.Context())
		}
	}
}
