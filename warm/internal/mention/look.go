package mention

import (
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Look is what the erase of a user learns while it looks for mentions. A nil Look
// learns nothing.
type Look struct {
	Watched *Subject                 // keys that were the user's when it began
	Met     map[tiering.Key]struct{} // keys that were mentioned as the user's
	Shared  map[string]struct{}      // ids of watched keys that were mentioned otherwise
}

// NewLook returns a Look that watches no key yet.
func NewLook(selector warm.Selector) *Look {
	return &Look{Watched: New(selector), Met: map[tiering.Key]struct{}{}, Shared: map[string]struct{}{}}
}

// Takes reports whether a change of the feed is the subject's, and notes its key.
func (l *Look) Takes(s *Subject, c *warm.FeedChange) bool {
	takes := s.Has(c.Key, c.User)
	switch {
	case l == nil:
	case takes:
		l.Met[c.Key] = struct{}{}
	default:
		l.share(c.Key)
	}
	return takes
}

// Results notes the keys in results that are not the user's.
func (l *Look) Results(all [][]warm.Result) {
	if l == nil || len(l.Watched.Keys) == 0 {
		return
	}
	for _, rows := range all {
		for i := range rows {
			l.share(rows[i].Head.Key)
			EachWord(rows[i].Answer, func(word string) bool {
				if _, ok := l.Watched.IDs[word]; ok {
					l.Shared[word] = struct{}{}
				}
				return false
			})
		}
	}
}

// share notes a mention of a key as somebody else's.
func (l *Look) share(k tiering.Key) {
	if _, ok := l.Watched.Keys[k]; ok {
		l.Shared[k.ID] = struct{}{}
	}
}
