// Package entry makes of a memory's document what the index knows of it. It is
// pure computation, but for embedders that are asked over a network, so that
// whoever writes a memory and whoever indexes an old one anew make the same.
package entry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/text"
)

// Maker makes index entries. It does not change, and is safe for concurrent use.
type Maker struct {
	Analyzer *text.Analyzer
	// Embedder returns what makes the vectors of texts now; nil, also where it
	// returns nil, for none.
	Embedder func() vector.Embedder
}

// embedder is the one whose vectors are made now; nil for none.
func (m *Maker) embedder() vector.Embedder {
	if m.Embedder == nil {
		return nil
	}
	if e := m.Embedder(); e != nil && e.Weight() > 0 {
		return e
	}
	return nil
}

// Immediate reports whether an entry has all its vectors from the start.
func (m *Maker) Immediate() bool { return immediate(m.embedder()) }

func immediate(e vector.Embedder) bool {
	if e == nil {
		return true
	}
	_, local := e.(vector.LocalEmbedder)
	return local
}

// Make reads a memory's document and makes its entry. Errors of the document
// are 422 with a pointer. The vector of an embedder that is not in process is
// left for later: the entry is pending then.
func (m *Maker) Make(ctx context.Context, doc []byte) (*tiering.MemoryEntry, error) {
	body, err := tiering.ParseMemory(doc)
	if err != nil {
		return nil, err
	}
	e := m.words(body)
	e.Digest = tiering.DigestOf(doc)
	embedder := m.embedder()
	if !immediate(embedder) {
		e.Status = tiering.IndexPending
		return e, nil
	}
	if embedder != nil {
		v, err := Embed(ctx, embedder, []string{Text(body)})
		if err != nil {
			return nil, err
		}
		if v[0].Vector != nil {
			e.Vectors = append(e.Vectors, v[0])
		}
	}
	return e, nil
}

// words is the entry of a memory without the vector of its text.
func (m *Maker) words(body tiering.MemoryBody) *tiering.MemoryEntry {
	d := m.Analyzer.Terms(Text(body))
	e := &tiering.MemoryEntry{
		Analyzer: text.Version, Length: d.Length, TextHash: tiering.DigestOf([]byte(Text(body))),
		Type: body.Type, Agent: body.Agent, App: body.App, Session: body.Session, Speaker: body.Speaker(),
		At: body.OccurredAt, Until: body.EndedAt, Importance: body.Importance, Uses: body.Uses, UsedAt: body.UsedAt,
		Ends: body.ValidTo, Links: body.Links, Status: tiering.IndexIndexed,
	}
	if e.Type == "" {
		e.Type = tiering.MemoryFact
	}
	if body.SupersededBy != "" {
		e.Ends = time.Unix(0, 0).UTC()
	}
	for _, t := range d.Terms {
		e.Terms = append(e.Terms, tiering.MemoryTerm{Text: t.Text, Freq: t.Freq})
	}
	if own := Own(body); own != nil {
		e.Vectors = append(e.Vectors, *own)
	}
	return e
}

// Text is a memory's text as it is analysed and embedded.
func Text(body tiering.MemoryBody) string { return text.Spoken(body.Speaker(), body.Text) }

// Own is the caller's own vector of a memory, normalised; nil for none.
func Own(body tiering.MemoryBody) *tiering.MemoryVector {
	v := vector.Normalise(append([]float32(nil), body.Embedding...))
	if v == nil {
		return nil
	}
	return &tiering.MemoryVector{Space: OwnSpace(body.EmbeddingModel, len(v)), Vector: v}
}

// OwnSpace names the space of vectors that callers bring: those of one model's
// name and length may be compared. The name is a hash: spaces outlive the
// memories whose callers named them.
func OwnSpace(model string, dimensions int) string {
	h := sha256.Sum256([]byte(model))
	return "own:" + hex.EncodeToString(h[:8]) + ":" + strconv.Itoa(dimensions)
}

// Embed embeds texts as documents, in the embedder's batches. A text that means
// nothing there has a nil Vector.
func Embed(ctx context.Context, e vector.Embedder, texts []string) ([]tiering.MemoryVector, error) {
	most := e.Space().MaxBatch
	if most <= 0 {
		most = math.MaxInt
	}
	out := make([]tiering.MemoryVector, 0, len(texts))
	for len(texts) > 0 {
		n := min(most, len(texts))
		got, err := e.Embed(ctx, vector.Document, texts[:n])
		if err != nil {
			return nil, err
		}
		space := e.Space().ID()
		for _, one := range got {
			out = append(out, tiering.MemoryVector{Space: space, Vector: one.Vector})
		}
		texts = texts[n:]
	}
	return out, nil
}
