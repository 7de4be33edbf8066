package rank

import "github.com/tierd/tierd/vector/text"

// Speakers finds the names of speakers in one query. It does not change and is
// safe for concurrent use.
type Speakers struct {
	plain *text.Analyzer
	words map[string]struct{}
	boost float64
}

// NewSpeakers reads the query.
func NewSpeakers(query string, o Options) *Speakers {
	s := &Speakers{plain: text.Plain(), words: map[string]struct{}{}, boost: o.WithDefaults().Speaker}
	for _, t := range s.plain.Tokens(query) {
		s.words[t.Word] = struct{}{}
	}
	return s
}

// Boost is what the lexical score of the speaker's memories is multiplied by:
// Options.Speaker if the query names him, else 1.
func (s *Speakers) Boost(speaker string) float64 {
	if s.boost > 0 && s.Named(speaker) {
		return s.boost
	}
	return 1
}

// Named reports whether the query names the speaker: by any word of the name
// that is longer than a letter, or by the whole of a name that is written
// without spaces.
func (s *Speakers) Named(speaker string) bool {
	var whole, missing bool
	for _, t := range s.plain.Tokens(speaker) {
		_, found := s.words[t.Word]
		switch {
		case t.Part:
		case t.Unspaced:
			whole = true
			missing = missing || !found
		case found && len(t.Word) > 1:
			return true
		}
	}
	return whole && !missing
}
