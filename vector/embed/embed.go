// Package embed opens embedders by URL.
package embed

import (
	"context"
	"strings"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/embed/openai"
	"github.com/tierd/tierd/vector/embed/static"
	"github.com/tierd/tierd/vector/text"
)

// Open returns the embedder that a URL names:
//
//	static:                           the default: in process, no download
//	openai+https://HOST/v1?model=M    a server; see openai.Parse
//	none:                             no embedder: recall by words alone
//
// Empty means static, and the colon may be left out where nothing follows. The analyzer is what the static embedder cuts texts up
// with; nil means the English one. No server is asked yet. Errors are invalid.
// An embedder with a Close method is closed by its owner.
func Open(url string, a *text.Analyzer) (vector.Embedder, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case url == "" || scheme == "static" && rest == "":
		return static.New(a), nil
	case scheme == "none" && rest == "":
		return None{}, nil
	case scheme == "openai+http" || scheme == "openai+https":
		o, err := openai.Parse(url)
		if err != nil {
			return nil, err
		}
		e, err := openai.New(o)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	return nil, tiering.Invalidf("the embedder has to be static:, openai+https://HOST/v1?model=NAME or none:")
}

// None embeds nothing: no text has a vector, and recall is by words alone. Its
// space is never known.
type None struct{}

var _ vector.Embedder = None{}

// Embed implements vector.Embedder.
func (None) Embed(_ context.Context, _ vector.Kind, texts []string) ([]vector.Embedding, error) {
	return make([]vector.Embedding, len(texts)), nil
}

// Space implements vector.Embedder.
func (None) Space() vector.Space { return vector.Space{Name: "none"} }

// Weight implements vector.Embedder: none.
func (None) Weight() float64 { return 0 }
