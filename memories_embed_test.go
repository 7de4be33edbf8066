package tierd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// model serves /v1/embeddings: texts with the same words lie close. It can be
// down, and it can be held.
type model struct {
	*httptest.Server
	down atomic.Bool
	mu   sync.Mutex
	hold chan struct{} // closed when answers may go out; nil: at once
	came chan struct{} // tells that a request of documents waits
}

func newModel(t *testing.T) *model {
	m := &model{came: make(chan struct{}, 100)}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// url is the embedder with this many dimensions.
func (m *model) url(name string) string { return "openai+" + m.URL + "/v1?model=" + name }

func (m *model) holdBack() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hold := make(chan struct{})
	m.hold = hold
	return sync.OnceFunc(func() { close(hold) })
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !strings.HasSuffix(r.URL.Path, "/v1/embeddings") {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	hold := m.hold
	m.mu.Unlock()
	if hold != nil {
		m.came <- struct{}{}
		<-hold
	}
	if m.down.Load() {
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	var texts []string
	if json.Unmarshal(req.Input, &texts) != nil {
		texts = []string{strings.Trim(string(req.Input), `"`)}
	}
	type datum struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	out := struct {
		Object string  `json:"object"`
		Model  string  `json:"model"`
		Data   []datum `json:"data"`
	}{Object: "list", Model: req.Model}
	dims := 32
	if strings.HasPrefix(req.Model, "wide") {
		dims = 64
	}
	for i, text := range texts {
		v := make([]float32, dims)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			h := fnv.New32a()
			h.Write([]byte(word))
			v[h.Sum32()%uint32(dims)]++
		}
		v[0] += 0.01
		out.Data = append(out.Data, datum{"embedding", i, v})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

func status(t *testing.T, n *tierd.Node) *tiering.EmbeddingStatus {
	t.Helper()
	s, err := n.Embedding(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// vectors counts the vectors of a use.
func vectors(t *testing.T, n *tierd.Node, use string) (count int64) {
	t.Helper()
	for _, s := range status(t, n).Spaces {
		if s.Use == use {
			count += s.Vectors
		}
	}
	return count
}

// A memory that is forgotten, or changed, while its text is being embedded is not
// found by what it was, and takes no place.
func TestRaceR13AForgottenMemoryIsNotIndexed(t *testing.T) {
	ctx := t.Context()
	m := newModel(t)
	n := open(t, tierd.Config{Embed: m.url("m")})
	remember(t, n, said("probe", "the space becomes known"), &tiering.RememberOptions{Wait: true})
	release := m.holdBack()
	defer release()
	remember(t, n, said("gone", "a secret plan"), nil)
	<-m.came // the worker has read it, and the model is about to answer
	if _, err := n.Forget(ctx, people, "gone", nil); err != nil {
		t.Fatal(err)
	}
	release()
	last := remember(t, n, said("last", "behind it"), &tiering.RememberOptions{Wait: true})
	if last.IndexStatus != tiering.IndexIndexed {
		t.Fatalf("the worker did not go on: %+v", last)
	}
	if got := recall(t, n, tiering.Recall{Query: "a secret plan", Mode: tiering.RecallVector, K: 10}); slices.Contains(got, "gone") || len(got) != 2 {
		t.Errorf("found %v", got)
	}
	if got := vectors(t, n, "active"); got != 2 {
		t.Errorf("%d vectors, want 2", got)
	}
}

// While the model does not answer nothing is lost: memories are stored, and found
// by their words; their vectors come when it is back.
func TestTheModelIsDown(t *testing.T) {
	m := newModel(t)
	n := open(t, tierd.Config{Embed: m.url("m")})
	remember(t, n, said("a", "an orange cat"), &tiering.RememberOptions{Wait: true})
	m.down.Store(true)
	if got := remember(t, n, said("b", "a purple dog"), nil); got.IndexStatus != tiering.IndexPending {
		t.Errorf("stored as %+v", got)
	}
	found, err := n.Recall(t.Context(), &tiering.Recall{Namespaces: []string{people}, Query: "purple dog"})
	if err != nil || !found.Partial || found.Reason == "" || len(found.Matches) == 0 || found.Matches[0].ID != "b" {
		t.Errorf("by words: %+v, %v", found, err)
	}
	if _, err := n.Recall(t.Context(), &tiering.Recall{Namespaces: []string{people}, Query: "dog", Mode: tiering.RecallVector}); !errors.Is(err, tiering.ErrUnavailable) {
		t.Errorf("by vectors alone: %v", err)
	}
	m.down.Store(false)
	await(t, "the vector comes", func() bool { return vectors(t, n, "active") == 2 })
	found, err = n.Recall(t.Context(), &tiering.Recall{Namespaces: []string{people}, Query: "purple dog"})
	if err != nil || found.Partial || found.Matches[0].Score.VectorRank != 1 {
		t.Errorf("after its return: %+v, %v", found, err)
	}
}

// Another embedder takes over all at once, through a restart on the way; the one
// before can be gone back to, and is dropped when asked.
func TestAnotherEmbedderTakesOver(t *testing.T) {
	ctx := t.Context()
	m := newModel(t)
	c := tierd.Config{Data: t.TempDir()}
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	const many = 300
	var all []tiering.NewMemory
	for i := range many {
		all = append(all, said(fmt.Sprintf("m%d", i), fmt.Sprintf("note %d about wine", i)))
	}
	if _, errs, err := n.Remember(ctx, people, all, nil); errors.Join(append(errs, err)...) != nil {
		t.Fatal(err, errs)
	}
	release := m.holdBack()
	defer release()
	if s, err := n.MigrateEmbedding(ctx, m.url("wide")); err != nil || s.Target != m.url("wide") || s.Active != "static:" {
		t.Fatalf("%+v, %v", s, err)
	}
	<-m.came
	if got := recall(t, n, ask("wine")); len(got) != 10 {
		t.Errorf("meanwhile %d matches", len(got))
	}
	closing, stop := context.WithCancel(ctx)
	stop()
	_ = n.Close(closing) // what was under way is lost
	release()
	m.mu.Lock()
	m.hold = nil
	m.mu.Unlock()

	n = open(t, c)
	await(t, "the new embedder is searched", func() bool { s := status(t, n); return s.Active == m.url("wide") && s.Target == "" })
	if s := status(t, n); s.Configured != "static:" || vectors(t, n, "active") != many || vectors(t, n, "idle") != many {
		t.Errorf("%+v", s)
	}
	got, err := n.Recall(ctx, &tiering.Recall{Namespaces: []string{people}, Query: "note 7 about wine", Mode: tiering.RecallVector, K: 1})
	if err != nil || len(got.Matches) != 1 || got.Matches[0].Score.Vector < 0.9 {
		t.Errorf("by the new vectors: %+v, %v", got, err)
	}
	remember(t, n, said("late", "note about beer"), nil)
	await(t, "what is written now gets the new vector", func() bool { return vectors(t, n, "active") == many+1 })

	if _, err := n.MigrateEmbedding(ctx, "static:"); err != nil {
		t.Fatal(err)
	}
	await(t, "back again", func() bool { return status(t, n).Active == "static:" })
	for _, s := range status(t, n).Spaces {
		_, err := n.DropVectors(ctx, s.Space)
		if s.Use == "active" && !errors.Is(err, tiering.ErrWrongKind) {
			t.Errorf("the vectors in use are dropped: %v", err)
		}
		if s.Use == "idle" && err != nil {
			t.Error(err)
		}
	}
	if vectors(t, n, "idle") != 0 || vectors(t, n, "active") != many+1 {
		t.Errorf("%+v", status(t, n))
	}
}

// A caller's own vectors are a space of their own, and never mixed with another.
func TestOwnVectorsAreASpaceOfTheirOwn(t *testing.T) {
	n := open(t, tierd.Config{})
	for id, v := range map[string][]float32{"x": {1, 0, 0}, "y": {0, 2, 0}, "longer": {1, 0, 0, 0}} {
		m := said(id, "vector "+id)
		m.Embedding, m.EmbeddingModel = v, "mine"
		remember(t, n, m, nil)
	}
	got, err := n.Recall(t.Context(), &tiering.Recall{Namespaces: []string{people}, Embedding: []float32{0.1, 3, 0}, Model: "mine"})
	if err != nil || len(got.Matches) != 2 || got.Matches[0].ID != "y" || got.Matches[0].Embedding != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// What all tenants share is not one tenant's to change, and nobody has a variable
// of a daemon's environment sent to a server of his choice.
func TestTheEmbedderIsTheOperators(t *testing.T) {
	ctx := t.Context()
	m := newModel(t)
	n := open(t, tierd.Config{})
	brought := said("x", "a vector of its own")
	brought.Embedding, brought.EmbeddingModel = []float32{1, 0, 0}, "mine"
	remember(t, n, brought, nil)
	before := status(t, n)

	acme := n.As(tiering.Principal{Tenant: "acme"})
	if _, err := acme.Embedding(ctx); !errors.Is(err, tiering.ErrForbidden) {
		t.Errorf("another tenant sees the embedder: %v", err)
	}
	if _, err := acme.MigrateEmbedding(ctx, m.url("m")); !errors.Is(err, tiering.ErrForbidden) {
		t.Errorf("another tenant changes the embedder: %v", err)
	}
	if _, err := acme.DropVectors(ctx, "anything"); !errors.Is(err, tiering.ErrForbidden) {
		t.Errorf("another tenant drops vectors: %v", err)
	}
	var fault *tiering.Error
	if _, err := n.MigrateEmbedding(ctx, m.url("m")+"&api_key_env=HOME"); !errors.As(err, &fault) || fault.Code != tiering.CodeInvalid || fault.Pointer != "/embedder" {
		t.Errorf("a variable of the environment is sent to a server of the caller's: %v", err)
	}
	dropped := false
	for _, s := range before.Spaces {
		if s.Use == "own" {
			_, err := n.DropVectors(ctx, s.Space)
			if dropped = true; !errors.Is(err, tiering.ErrWrongKind) {
				t.Errorf("vectors that a caller brought are dropped: %v", err)
			}
		}
	}
	if after := status(t, n); !dropped || !reflect.DeepEqual(after, before) {
		t.Errorf("%+v became %+v", before, after)
	}
}
