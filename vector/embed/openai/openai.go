// Package openai embeds with a server that speaks OpenAI's embeddings protocol,
// as Ollama, vLLM, text-embeddings-inference and OpenAI do. Nothing that the
// server says is taken on trust: every answer is counted, ordered, measured and
// normalised.
package openai

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tierd/tierd/internal/endpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

const (
	defaultBatch = 32
	// shortestCut is the length at which a refused text is no longer halved.
	shortestCut = 64
	// harmless is a text that no server has a reason to refuse.
	harmless = "dimensions"
)

// Embedder asks a server. It is safe for concurrent use.
type Embedder struct {
	options    Options
	server     *endpoint.Server
	dimensions atomic.Int64 // 0 until an answer said
}

var (
	_ vector.Embedder = (*Embedder)(nil)
	_ vector.Prober   = (*Embedder)(nil)
)

// New returns an embedder. It asks the server nothing yet.
func New(o Options) (*Embedder, error) {
	if o.Model == "" {
		return nil, tiering.Invalidf("an OpenAI-compatible embedder needs a model: add ?model=NAME")
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = defaultBatch
	}
	if o.Weight <= 0 {
		o.Weight = 1
	}
	e := &Embedder{options: o, server: endpoint.New(endpoint.Options{
		Name: "the embedding server", Timeout: o.Timeout, MostAnswer: mostAnswer,
		Place: endpoint.Place{Base: o.Base, Model: o.Model, APIKey: o.APIKey, KeyVariable: defaultKeyVariable},
	})}
	e.dimensions.Store(int64(o.Dimensions))
	return e, nil
}

// Space implements vector.Embedder. Unless the options say how many dimensions
// there are, it is known after the first answer.
func (e *Embedder) Space() vector.Space {
	return vector.Space{
		Name: "openai", Model: e.options.Model, Version: e.options.Version, Dimensions: int(e.dimensions.Load()),
		DocumentPrefix: e.options.DocumentPrefix, QueryPrefix: e.options.QueryPrefix,
		MaxInput: e.options.MaxInput, MaxBatch: e.options.MaxBatch,
	}
}

// Weight implements vector.Embedder.
func (e *Embedder) Weight() float64 { return e.options.Weight }

// Close gives up idle connections.
func (e *Embedder) Close() error {
	e.server.Close()
	return nil
}

// Probe implements vector.Prober by embedding a word, unless the space is known.
func (e *Embedder) Probe(ctx context.Context) (vector.Space, error) {
	if e.dimensions.Load() == 0 {
		if _, err := e.Embed(ctx, vector.Query, []string{harmless}); err != nil {
			return vector.Space{}, err
		}
	}
	return e.Space(), nil
}

// Embed implements vector.Embedder. A server that answers too late, wrongly, or
// not at all is unavailable, and so is one that refuses every text. A text that
// the server refuses for another reason than its length is invalid: embed texts
// one by one to learn which.
func (e *Embedder) Embed(ctx context.Context, kind vector.Kind, texts []string) ([]vector.Embedding, error) {
	out := make([]vector.Embedding, len(texts))
	var batch []item
	for i, s := range texts {
		if strings.TrimSpace(s) == "" {
			continue // servers refuse it, and it has no meaning
		}
		batch = append(batch, e.item(kind, i, s))
		if len(batch) == e.options.MaxBatch {
			if err := e.embed(ctx, batch, out); err != nil {
				return nil, err
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		if err := e.embed(ctx, batch, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// item is a text on its way, with its place in the answer.
type item struct {
	at    int
	input string
}

func (e *Embedder) item(kind vector.Kind, at int, s string) item {
	prefix := e.options.DocumentPrefix
	if kind == vector.Query {
		prefix = e.options.QueryPrefix
	}
	it := item{at: at, input: prefix + strings.ToValidUTF8(s, "\uFFFD")}
	if most := e.options.MaxInput; most > 0 && len(it.input) > most {
		it.input = cut(it.input, most)
	}
	return it
}

// embed asks for a batch. One that is too large, or that holds a text the server
// does not take, is halved; so is a single text that is too long.
func (e *Embedder) embed(ctx context.Context, batch []item, out []vector.Embedding) error {
	vectors, err := e.ask(ctx, batch)
	var refused *endpoint.Refusal
	switch {
	case err == nil:
		for i, it := range batch {
			out[it.at] = vector.Embedding{Vector: vectors[i]}
		}
		return nil
	case !errors.As(err, &refused):
		return err
	case len(batch) > 1:
		half := len(batch) / 2
		if err := e.embed(ctx, batch[:half], out); err != nil {
			return err
		}
		return e.embed(ctx, batch[half:], out)
	case refused.TooLong && len(batch[0].input) > shortestCut:
		shorter := batch[0]
		shorter.input = cut(shorter.input, len(shorter.input)/2)
		return e.embed(ctx, []item{shorter}, out)
	}
	return e.blame(ctx, refused)
}

// blame tells a text that is refused from a server that refuses all, for a model
// or a number of dimensions that it does not have: it asks with a harmless one.
func (e *Embedder) blame(ctx context.Context, refused *endpoint.Refusal) error {
	_, err := e.ask(ctx, []item{{input: harmless}})
	var all *endpoint.Refusal
	switch {
	case errors.As(err, &all):
		return e.server.Unavailable("refuses every text (status %d): look at the model and the dimensions of its URL", all.Status)
	case err != nil:
		return err
	}
	return tiering.Errorf(tiering.CodeInvalid, "%s", refused.Error())
}

// cut shortens s to at most n bytes, at a character.
func cut(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
