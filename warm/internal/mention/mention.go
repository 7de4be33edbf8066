// Package mention finds what stored results say of an erase's subject, for drivers of
// warm.
package mention

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Subject is what an erasure looks for: what its selector takes, and keys with
// all that anybody had there.
type Subject struct {
	Selector warm.Selector
	Keys     map[tiering.Key]struct{}
	IDs      map[string]struct{} // of Keys
}

// New returns the subject of a selector alone.
func New(selector warm.Selector) *Subject {
	return &Subject{Selector: selector, Keys: map[tiering.Key]struct{}{}, IDs: map[string]struct{}{}}
}

// Add takes a key in, with all that anybody had there.
func (s *Subject) Add(k tiering.Key) {
	s.Keys[k] = struct{}{}
	s.IDs[k.ID] = struct{}{}
}

// Has reports whether the key of that owner is the subject's.
func (s *Subject) Has(key tiering.Key, user string) bool {
	if s.Selector.Takes(key, user) {
		return true
	}
	_, ok := s.Keys[key]
	return ok
}

// said reports whether an answer names the subject. An answer is the router's,
// and may tell of keys that its heads do not; any string in it counts, in
// whatever place: a replay too few costs less than a name that stays.
func (s *Subject) said(answer []byte) bool {
	if len(answer) == 0 {
		return false
	}
	if EachWord(answer, s.named) {
		return true
	}
	// What is not JSON counts by its bytes.
	sel := s.Selector
	word := []byte(sel.ID + sel.Prefix + sel.User)
	return len(word) > 0 && !json.Valid(answer) && bytes.Contains(answer, word)
}

// EachWord calls fn with the strings in JSON until it is true, and reports
// whether it was.
func EachWord(answer []byte, fn func(string) bool) bool {
	if len(answer) == 0 {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		if word, ok := tok.(string); ok && fn(word) {
			return true
		}
	}
}

func (s *Subject) named(word string) bool {
	switch sel := s.Selector; {
	case sel.User != "" && word == sel.User, sel.ID != "" && word == sel.ID, sel.Prefix != "" && strings.HasPrefix(word, sel.Prefix):
		return true
	}
	_, ok := s.IDs[word]
	return ok
}

// InResult reports whether a result mentions the subject, in its head or its answer.
func (s *Subject) InResult(r *warm.Result) bool {
	return s.Has(r.Head.Key, r.Head.User) || s.said(r.Answer)
}

// InResults reports whether any of a batch's results mentions the subject.
func (s *Subject) InResults(all [][]warm.Result) bool {
	for i := range all {
		for j := range all[i] {
			if s.InResult(&all[i][j]) {
				return true
			}
		}
	}
	return false
}
