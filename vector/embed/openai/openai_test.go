package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// server speaks the protocol: the vector of a text is (its length, 1).
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []question
	keys  []string
	// fault may answer in place of the server; it reports whether it did.
	fault func(w http.ResponseWriter, q question, n int) bool
}

func newServer(t *testing.T, fault func(w http.ResponseWriter, q question, n int) bool) *server {
	t.Helper()
	s := &server{fault: fault}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, q)
		s.keys = append(s.keys, r.Header.Get("Authorization"))
		n := len(s.asked)
		s.mu.Unlock()
		if s.fault != nil && s.fault(w, q, n) {
			return
		}
		s.answer(w, q)
	}))
	t.Cleanup(s.Close)
	return s
}

// answer answers in reverse order, which the protocol allows.
func (s *server) answer(w http.ResponseWriter, q question) {
	var data []string
	for i, text := range slices.Backward(q.Input) {
		vector := fmt.Sprintf("[%d,1]", len(text))
		if q.Dimensions > 0 {
			vector = "[" + strings.TrimSuffix(strings.Repeat("1,", q.Dimensions), ",") + "]"
		}
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vector))
	}
	fmt.Fprintf(w, `{"object":"list","data":[%s],"model":%q,"usage":{"prompt_tokens":1}}`, strings.Join(data, ","), q.Model)
}

func (s *server) embedder(t *testing.T, o Options) *Embedder {
	t.Helper()
	o.Base, o.Model = s.URL+"/v1", "test"
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func lengths(out []vector.Embedding) []int {
	var n []int
	for _, e := range out {
		if e.Vector == nil {
			n = append(n, -1)
			continue
		}
		n = append(n, int(math.Round(float64(e.Vector[0]/e.Vector[1]))))
	}
	return n
}

func TestEmbed(t *testing.T) {
	s := newServer(t, nil)
	e := s.embedder(t, Options{MaxBatch: 2, APIKey: "secret", QueryPrefix: "query: ", MaxInput: 12})
	out, err := e.Embed(t.Context(), vector.Document, []string{"a", "", "bbb", "longer than that"})
	if err != nil {
		t.Fatal(err)
	}
	if got := lengths(out); !slices.Equal(got, []int{1, -1, 3, 12}) {
		t.Errorf("in another order: %v", got)
	}
	if n := vector.Dot(out[2].Vector, out[2].Vector); math.Abs(n-1) > 1e-6 {
		t.Errorf("length %v", n)
	}
	if _, err = e.Embed(t.Context(), vector.Query, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 3 || len(s.asked[0].Input) != 2 || s.asked[2].Input[0] != "query: a" {
		t.Errorf("asked %v", s.asked)
	}
	if s.asked[0].Dimensions != 0 || s.asked[0].Model != "test" || s.keys[0] != "Bearer secret" {
		t.Errorf("asked %+v with %q", s.asked[0], s.keys[0])
	}
}

func TestTheSpaceIsProbed(t *testing.T) {
	s := newServer(t, nil)
	e := s.embedder(t, Options{})
	if id := e.Space().ID(); id != "" {
		t.Errorf("known before it was asked for: %s", id)
	}
	space, err := e.Probe(t.Context())
	if err != nil || space.Dimensions != 2 || space.ID() == "" || e.Space() != space {
		t.Fatalf("%+v, %v", space, err)
	}
	if _, err := e.Probe(t.Context()); err != nil || len(s.asked) != 1 {
		t.Errorf("asked %d times, %v", len(s.asked), err)
	}
}

func TestDimensionsAreSentWhenAskedFor(t *testing.T) {
	s := newServer(t, nil)
	e := s.embedder(t, Options{Dimensions: 3})
	out, err := e.Embed(t.Context(), vector.Document, []string{"a"})
	if err != nil || len(out[0].Vector) != 3 || s.asked[0].Dimensions != 3 {
		t.Fatalf("%v, %v, asked %+v", out, err, s.asked)
	}
}

func TestABatchIsHalved(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, q question, _ int) bool {
		if len(q.Input) > 2 || slices.ContainsFunc(q.Input, func(s string) bool { return len(s) > 100 }) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		}
		return false
	})
	e := s.embedder(t, Options{})
	out, err := e.Embed(t.Context(), vector.Document, []string{"a", "bb", "ccc", "dddd", strings.Repeat("é", 140)})
	if err != nil {
		t.Fatal(err)
	}
	if got := lengths(out); !slices.Equal(got, []int{1, 2, 3, 4, 70}) {
		t.Errorf("got %v", got)
	}
}

func TestATextThatIsTooLongForTheModelIsCut(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, q question, _ int) bool {
		if len(q.Input[0]) > 100 {
			http.Error(w, `{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}`, http.StatusBadRequest)
			return true
		}
		return false
	})
	out, err := s.embedder(t, Options{}).Embed(t.Context(), vector.Document, []string{strings.Repeat("x", 300)})
	if err != nil || lengths(out)[0] != 75 {
		t.Fatalf("%v, %v", lengths(out), err)
	}
}

func TestFaultsOfAServer(t *testing.T) {
	say := func(status int, body string) func(http.ResponseWriter, question, int) bool {
		return func(w http.ResponseWriter, _ question, _ int) bool {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	data := func(s string) string { return `{"data":[` + s + `]}` }
	good := `{"index":0,"embedding":[1,2]}`
	for _, c := range []struct {
		name  string
		fault func(http.ResponseWriter, question, int) bool
		code  tiering.Code
		says  string
	}{
		{"fewer than asked for", say(200, data(good)), tiering.CodeUnavailable, "1 embeddings for 2"},
		{"more than asked for", say(200, data(good+","+good+","+good)), tiering.CodeUnavailable, "3 embeddings for 2"},
		{"an index twice", say(200, data(good+","+good)), tiering.CodeUnavailable, "twice"},
		{"an index out of range", say(200, data(good+`,{"index":2,"embedding":[1,2]}`)), tiering.CodeUnavailable, "out of range"},
		{"an index below zero", say(200, data(good+`,{"index":-1,"embedding":[1,2]}`)), tiering.CodeUnavailable, "out of range"},
		{"dimensions that differ", say(200, data(good+`,{"index":1,"embedding":[1,2,3]}`)), tiering.CodeUnavailable, "3 dimensions"},
		{"no dimensions", say(200, data(`{"index":0,"embedding":[]},{"index":1,"embedding":[]}`)), tiering.CodeUnavailable, "0 dimensions"},
		{"null among the numbers", say(200, data(good+`,{"index":1,"embedding":[1,null]}`)), tiering.CodeUnavailable, "something else"},
		{"a number beyond float32", say(200, data(good+`,{"index":1,"embedding":[1,1e39]}`)), tiering.CodeUnavailable, "something else"},
		{"NaN", say(200, data(good+`,{"index":1,"embedding":[1,NaN]}`)), tiering.CodeUnavailable, "something else"},
		{"base64", say(200, data(`{"index":0,"embedding":"AAAA"},{"index":1,"embedding":"AAAA"}`)), tiering.CodeUnavailable, "something else"},
		{"half an answer", say(200, `{"data":[`), tiering.CodeUnavailable, "something else"},
		{"a web page", say(200, "<html>"), tiering.CodeUnavailable, "something else"},
		{"the key is wrong", say(401, ""), tiering.CodeUnavailable, "API key"},
		{"no such model", say(404, ""), tiering.CodeUnavailable, "model"},
		{"a failure", say(500, "oops"), tiering.CodeUnavailable, "500"},
		{"every text is bad", say(400, `{"error":"bad"}`), tiering.CodeUnavailable, "every text (status 400)"},
		{"every text is too long", say(422, `{"error":"too long"}`), tiering.CodeUnavailable, "every text (status 422)"},
		{"a text it does not like", func(w http.ResponseWriter, q question, _ int) bool {
			if !slices.Contains(q.Input, "b") {
				return false
			}
			return say(400, `{"error":"bad"}`)(w, q, 0)
		}, tiering.CodeInvalid, "400"},
		{"a text it does not like, and then it fails", func(w http.ResponseWriter, q question, _ int) bool {
			return say(map[bool]int{true: 422, false: 500}[slices.Contains(q.Input, "a")], "")(w, q, 0)
		}, tiering.CodeUnavailable, "500"},
		{"a redirect", func(w http.ResponseWriter, _ question, _ int) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/v1/embeddings")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, tiering.CodeUnavailable, "redirects"},
		{"it hangs up", func(http.ResponseWriter, question, int) bool { panic(http.ErrAbortHandler) }, tiering.CodeUnavailable, "reached"},
		{"it hangs", func(http.ResponseWriter, question, int) bool { time.Sleep(300 * time.Millisecond); return false }, tiering.CodeUnavailable, "reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newServer(t, c.fault).embedder(t, Options{Timeout: 100 * time.Millisecond, APIKey: "hunter2"})
			out, err := e.Embed(t.Context(), vector.Document, []string{"a", "b"})
			if out != nil || tiering.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, %v", out, err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(tiering.Told(err), "127.0.0.1") {
				t.Errorf("tells too much: %v", err)
			}
			if c.code == tiering.CodeUnavailable && !tiering.Retryable(err) {
				t.Errorf("not worth another try: %v", err)
			}
		})
	}
}

func TestAnotherModelBehindTheNameIsNoticed(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, q question, n int) bool {
		if n == 1 {
			return false
		}
		fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1,2,3]}]}`)
		return true
	})
	e := s.embedder(t, Options{})
	for i, want := range []tiering.Code{"", tiering.CodeUnavailable} {
		if _, err := e.Embed(t.Context(), vector.Document, []string{"a"}); tiering.CodeOf(err) != want {
			t.Errorf("answer %d: %v", i+1, err)
		}
	}
}

func TestParse(t *testing.T) {
	t.Setenv("TIERD_EMBED_API_KEY", "")
	t.Setenv("OPENAI_API_KEY", "openai's")
	t.Setenv("OTHER", "other")
	for _, c := range []struct {
		url  string
		want Options
	}{
		{"openai+http://127.0.0.1:11434/v1?model=bge-m3", Options{Base: "http://127.0.0.1:11434/v1", Model: "bge-m3"}},
		{"openai+https://api.openai.com/v1?model=m", Options{Base: "https://api.openai.com/v1", Model: "m", APIKey: "openai's"}},
		{"openai+https://h/v1?model=m&api_key_env=OTHER", Options{Base: "https://h/v1", Model: "m", APIKey: "other"}},
		{
			"openai+https://h/v1?model=m&version=2&dimensions=8&document_prefix=d:%20&query_prefix=q:%20&max_batch=4&max_input=100&timeout=5s&weight=0.5",
			Options{Base: "https://h/v1", Model: "m", Version: "2", Dimensions: 8, DocumentPrefix: "d: ", QueryPrefix: "q: ", MaxBatch: 4, MaxInput: 100, Timeout: 5 * time.Second, Weight: 0.5},
		},
	} {
		if got, err := Parse(c.url); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.url, got, err)
		}
	}
	for _, c := range []struct{ name, url, says string }{
		{"no scheme", "https://h/v1?model=m", "openai+https"},
		{"another scheme", "openai+ftp://h/v1?model=m", "openai+https"},
		{"no host", "openai+https:///v1?model=m", "openai+https"},
		{"credentials", "openai+https://u:hunter2@h/v1?model=m", "credentials"},
		{"the key as a parameter", "openai+https://h/v1?model=m&api_key=hunter2", "api_key"},
		{"a parameter twice", "openai+https://h/v1?model=m&model=n", "one value"},
		{"no number", "openai+https://h/v1?model=m&dimensions=many", "dimensions"},
		{"no duration", "openai+https://h/v1?model=m&timeout=5", "timeout"},
		{"too heavy", "openai+https://h/v1?model=m&weight=2", "weight"},
	} {
		_, err := Parse(c.url)
		if !errors.Is(err, tiering.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := New(Options{Base: "http://h/v1"}); !errors.Is(err, tiering.ErrInvalid) {
		t.Errorf("without a model: %v", err)
	}
}
