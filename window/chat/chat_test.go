package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/endpoint"
	"github.com/tierd/tierd/tiering"
)

// server speaks the protocol: it answers with answer, unless that is nil or reports
// that it did not.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []question
	keys  []string
}

func newServer(t *testing.T, fault func(w http.ResponseWriter, r *http.Request, q question) bool) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		s.mu.Lock()
		s.asked, s.keys = append(s.asked, q), append(s.keys, r.Header.Get("Authorization"))
		s.mu.Unlock()
		if fault == nil || !fault(w, r, q) {
			complete(w, " They greeted each other.\n")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// complete answers as the protocol says.
func complete(w http.ResponseWriter, text string) {
	b, _ := json.Marshal(text)
	fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"total_tokens":9}}`, b)
}

func (s *server) summariser(t *testing.T, o Options) *Summariser {
	t.Helper()
	o.Base, o.Model = s.URL+"/v1", "test"
	made := New(o)
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func TestExtend(t *testing.T) {
	s := newServer(t, nil)
	c := s.summariser(t, Options{Place: endpoint.Place{APIKey: "secret"}})
	for _, before := range []string{"", "They met."} {
		got, err := c.Extend(t.Context(), before, "user: hello")
		if err != nil || got != "They greeted each other." {
			t.Fatalf("%q, %v", got, err)
		}
	}
	first, second := s.asked[0], s.asked[1]
	if first.Model != "test" || first.MaxTokens != defaultMaxTokens || first.Messages[0].Role != "system" || !strings.Contains(first.Messages[1].Content, "user: hello") || s.keys[0] != "Bearer secret" {
		t.Errorf("asked %+v with %q", first, s.keys[0])
	}
	if text := second.Messages[1].Content; !strings.Contains(text, "They met.") || !strings.Contains(text, "user: hello") {
		t.Errorf("what came before is not in %s", text)
	}
}

// Newer models of OpenAI refuse max_tokens, and say what they want.
func TestTheOtherNameOfTheBound(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, q question) bool {
		if q.MaxTokens == 0 {
			return false
		}
		http.Error(w, `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`, http.StatusBadRequest)
		return true
	})
	c := s.summariser(t, Options{MaxTokens: 7})
	for range 2 {
		if _, err := c.Extend(t.Context(), "", "hello"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.asked); n != 3 || s.asked[2].MaxCompletionTokens != 7 {
		t.Errorf("asked %d times: %+v", n, s.asked)
	}
}

func TestATalkThatIsTooLongIsHalved(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, q question) bool {
		if len(q.Messages[1].Content) < 3000 {
			return false
		}
		http.Error(w, `{"error":{"code":"context_length_exceeded"}}`, http.StatusBadRequest)
		return true
	})
	_, err := s.summariser(t, Options{}).Extend(t.Context(), "", "begin"+strings.Repeat("é", 4000)+"end")
	if last := s.asked[len(s.asked)-1].Messages[1].Content; err != nil || !strings.Contains(last, "begin") || !strings.HasSuffix(last, "end") {
		t.Errorf("%v: %.100s", err, last)
	}
}

func TestAnswers(t *testing.T) {
	say := func(status int, body string) func(http.ResponseWriter, *http.Request, question) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ question) bool {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	text := func(s string) func(http.ResponseWriter, *http.Request, question) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ question) bool {
			complete(w, s)
			return true
		}
	}
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request, question) bool
		want  string
		code  tiering.Code
		says  string
	}{
		{"thoughts", text("<think>hm</think>\n\nThey met."), "They met.", "", ""},
		{"thoughts alone", text("<think>hm, so"), "", tiering.CodeUnavailable, "empty"},
		{"far too long", text(strings.Repeat("é", mostText)), strings.Repeat("é", mostText/2), "", ""},
		{"a NUL", text("a\x00b"), "ab", "", ""},
		{"nothing", text(" \n"), "", tiering.CodeUnavailable, "empty"},
		{"no choice", say(200, `{"choices":[]}`), "", tiering.CodeUnavailable, "without a message"},
		{"a refusal", say(200, `{"choices":[{"message":{"content":null,"refusal":"no"}}]}`), "", tiering.CodeUnavailable, "without a message"},
		{"another type", say(200, `{"choices":[{"message":{"content":{"a":1}}}]}`), "", tiering.CodeUnavailable, "something else"},
		{"nonsense", say(200, "<html>"), "", tiering.CodeUnavailable, "something else"},
		{"megabytes", say(200, strings.Repeat(" ", 2<<20)), "", tiering.CodeUnavailable, "more than"},
		{"a failure", say(500, "oops"), "", tiering.CodeUnavailable, "500"},
		{"no such model", say(404, ""), "", tiering.CodeUnavailable, "model"},
		{"the key is wrong", say(401, ""), "", tiering.CodeUnavailable, keyVariable},
		{"a talk it does not like", say(400, `{"error":"bad"}`), "", tiering.CodeInvalid, "400"},
		{"it asks to wait for long", func(w http.ResponseWriter, _ *http.Request, _ question) bool {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}, "", tiering.CodeRateLimited, "wait"},
		{"it hangs", func(_ http.ResponseWriter, r *http.Request, _ question) bool { <-r.Context().Done(); return true }, "", tiering.CodeUnavailable, "reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := 10 * time.Second
			if c.name == "it hangs" {
				timeout = 50 * time.Millisecond
			}
			got, err := newServer(t, c.fault).summariser(t, Options{Timeout: timeout, Place: endpoint.Place{APIKey: "hunter2", KeyVariable: keyVariable}}).Extend(t.Context(), "", "user: private words")
			if got != c.want || tiering.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "private words") || strings.Contains(tiering.Told(err), "127.0.0.1")) {
				t.Errorf("tells too much: %v", err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Setenv(keyVariable, "")
	t.Setenv("OPENAI_API_KEY", "openai's")
	t.Setenv("OTHER", "other")
	for url, want := range map[string]Options{
		"openai+http://127.0.0.1:11434/v1?model=llama3":                   {Place: endpoint.Place{Base: "http://127.0.0.1:11434/v1", Model: "llama3", KeyVariable: keyVariable}},
		"openai+https://api.openai.com/v1?model=m":                        {Place: endpoint.Place{Base: "https://api.openai.com/v1", Model: "m", APIKey: "openai's", KeyVariable: keyVariable}},
		"openai+https://h/v1?model=m&api_key_env=OTHER":                   {Place: endpoint.Place{Base: "https://h/v1", Model: "m", APIKey: "other", KeyVariable: keyVariable}},
		"openai+https://h/v1?model=m&max_input=9&timeout=5s&max_tokens=3": {Place: endpoint.Place{Base: "https://h/v1", Model: "m", KeyVariable: keyVariable}, MaxInput: 9, MaxTokens: 3, Timeout: 5 * time.Second},
	} {
		if got, err := Parse(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	for url, says := range map[string]string{
		"https://h/v1?model=m":                        "openai+https",
		"openai+https://h/v1":                         "needs a model",
		"openai+https://u:hunter2@h/v1?model=m":       "credentials",
		"openai+https://h/v1?model=m&api_key=hunter2": "api_key",
		"openai+https://h/v1?model=m&model=n":         "one value",
		"openai+https://h/v1?model=m&max_input=many":  "max_input",
		"openai+https://h/v1?model=m&timeout=5":       "timeout",
	} {
		if s, err := Open(url); s != nil || !errors.Is(err, tiering.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
