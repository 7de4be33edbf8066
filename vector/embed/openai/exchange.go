package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/tierd/tierd/vector"
)

// mostAnswer bounds an answer, in bytes: 32 vectors of 4,096 numbers take less than
// 4 MB.
const mostAnswer = 64 << 20

type question struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type answer struct {
	Data []struct {
		Index     *int    `json:"index"`
		Embedding numbers `json:"embedding"`
	} `json:"data"`
}

// numbers are a JSON array of numbers, none of them null.
type numbers []float32

func (n *numbers) UnmarshalJSON(b []byte) error {
	if bytes.IndexByte(b, 'n') >= 0 {
		return errors.New("null where a number should be")
	}
	return json.Unmarshal(b, (*[]float32)(n))
}

// ask sends one batch and returns normalised vectors in its order. A
// *endpoint.Refusal says that the input is at fault.
func (e *Embedder) ask(ctx context.Context, batch []item) ([][]float32, error) {
	q := question{Model: e.options.Model, Format: "float", Dimensions: e.options.Dimensions}
	for _, it := range batch {
		q.Input = append(q.Input, it.input)
	}
	var a answer
	if err := e.server.Ask(ctx, "/embeddings", q, &a, "embeddings"); err != nil {
		return nil, err
	}
	return e.check(a, len(batch))
}

// check holds an answer against the request: a vector for each text, each index
// once, all of the dimensions that the space has.
func (e *Embedder) check(a answer, texts int) ([][]float32, error) {
	if len(a.Data) != texts {
		return nil, e.server.Unavailable("answers with %d embeddings for %d texts", len(a.Data), texts)
	}
	out := make([][]float32, texts)
	seen := make([]bool, texts)
	for i, d := range a.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= texts || seen[at] {
			return nil, e.server.Unavailable("answers with the index %d of %d twice, or out of range", at, texts)
		}
		seen[at] = true
		want := e.dimensions.Load()
		if want == 0 && len(d.Embedding) > 0 {
			e.dimensions.CompareAndSwap(0, int64(len(d.Embedding)))
			want = e.dimensions.Load()
		}
		if int64(len(d.Embedding)) != want || want == 0 {
			return nil, e.server.Unavailable("answers with %d dimensions, and the space has %d", len(d.Embedding), want)
		}
		out[at] = vector.Normalise(d.Embedding)
	}
	return out, nil
}
