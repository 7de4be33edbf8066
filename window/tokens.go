package window

import (
	"strings"

	"github.com/tiktoken-go/tokenizer"

	"github.com/tierd/tierd/tiering"
)

// DefaultEncoding is that of current models.
const DefaultEncoding = "o200k_base"

// encodings are those that can be chosen.
func encodings() []tokenizer.Encoding {
	return []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase, tokenizer.P50kBase, tokenizer.P50kEdit, tokenizer.R50kBase}
}

// Counter returns the function that counts the tokens of a text in an encoding,
// "" for the default, without a network. It is safe for concurrent use.
func Counter(encoding string) (func(string) int, error) {
	if encoding == "" {
		encoding = DefaultEncoding
	}
	var names []string
	for _, e := range encodings() {
		names = append(names, string(e))
		if string(e) != encoding {
			continue
		}
		codec, err := tokenizer.Get(e)
		if err != nil {
			return nil, tiering.Invalidf("tokenizer %q cannot be used: %v", encoding, err)
		}
		return func(s string) int {
			if s == "" {
				return 0
			}
			ids, _, err := codec.Encode(s)
			if err != nil {
				return len(s) // more than any encoding makes of it
			}
			return len(ids)
		}, nil
	}
	return nil, tiering.Invalidf("tokenizer %q: use one of %s", encoding, strings.Join(names, ", "))
}
