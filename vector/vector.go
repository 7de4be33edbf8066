// Package vector is the contract of meaning as numbers: what turns text into
// vectors, and when two vectors may be compared. The packages beside it are pure
// computation: text makes terms, lexical scores them, rank puts the arms of a
// recall together; embed opens embedders by URL.
package vector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind says what a text is embedded for. Models may treat the two differently.
type Kind uint8

// The kinds of text.
const (
	Document Kind = iota // to be found
	Query                // to find with
)

func (k Kind) String() string {
	if k == Query {
		return "query"
	}
	return "document"
}

// Embedding is the vector of one text.
type Embedding struct {
	// Vector has length 1, so that the dot product of two is their cosine. It is
	// nil, and never zero, where the text means nothing in the space, such as an
	// empty one or one of punctuation alone: such a text is stored without a
	// vector, and found by its words if at all.
	Vector []float32
}

// Space is where vectors of one embedder live. Vectors of two spaces mean
// nothing to each other.
type Space struct {
	Name           string // of the embedder, such as "static" or "openai"
	Model          string
	Version        string // of the model's weights or of how texts are cut up; may be empty
	Dimensions     int    // 0 while not known: before the first answer of a server
	DocumentPrefix string // put before each text of the kind
	QueryPrefix    string
	// MaxInput is the longest text that is embedded whole, in bytes, 0 for no
	// limit; MaxBatch the most texts of one request, 0 for no limit. They are no
	// part of the identity.
	MaxInput int
	MaxBatch int
}

// ID is equal for two spaces exactly when their vectors may be compared. It is
// short, printable and the same in every process, and empty while the space is
// not known: an empty ID is equal to nothing.
func (s Space) ID() string {
	if s.Dimensions == 0 {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{s.Name, s.Model, s.Version, s.DocumentPrefix, s.QueryPrefix, strconv.Itoa(s.Dimensions)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return strings.Join([]string{plain(s.Name), plain(s.Model), strconv.Itoa(s.Dimensions), hex.EncodeToString(h.Sum(nil)[:8])}, ":")
}

// plain returns what of a name can be read anywhere; the hash tells the rest apart.
func plain(name string) string {
	if len(name) > 64 {
		name = name[:64]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/@-", r) {
			return r
		}
		return '-'
	}, name)
}

// Embedder turns texts into vectors. Methods are safe for concurrent use and
// honour the context.
type Embedder interface {
	// Embed returns one embedding a text, in order, or an error and none. Errors
	// are *tiering.Error: unavailable and rate_limited (with RetryAfter) are worth
	// another try, everything else fails again. No text is invalid because of
	// what it says.
	Embed(ctx context.Context, kind Kind, texts []string) ([]Embedding, error)

	// Space says where the vectors live. Its identity changes once at most, from
	// not known to known.
	Space() Space

	// Weight is what this embedder's list counts for beside the lexical one when
	// the two are fused: 1 for a model that knows meaning as well as words do, at
	// most 0.2 for the static one (at equal weights a weak list lowers recall), 0
	// for none.
	Weight() float64
}

// LocalEmbedder is an Embedder in process: it needs no network and answers
// within microseconds, so vectors commit with the text.
type LocalEmbedder interface {
	Embedder

	// EmbedQuery embeds a query for one corpus. Rarity returns the inverse
	// document frequency of a term there. It is applied to queries alone: what
	// is stored does not depend on what else is. Nil stands for the rarity of
	// words in general.
	EmbedQuery(ctx context.Context, text string, rarity func(term string) float64) (Embedding, error)
}

// Prober is an Embedder whose space has to be asked for. Probe returns it once
// it is known; errors are those of Embed.
type Prober interface {
	Probe(ctx context.Context) (Space, error)
}

// Normalise scales v to length 1 in place and returns it; nil, and v as it was,
// when that cannot be done: v is zero or holds NaN or an infinity.
func Normalise(v []float32) []float32 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	scale := 1 / math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) * scale)
	}
	return v
}

// Dot is the cosine of two normalised vectors of the same dimensions, in plain
// Go and always in the same order: the reference for faster ones.
func Dot(a, b []float32) float64 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
