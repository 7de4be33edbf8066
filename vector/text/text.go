// Package text turns text of any language into the terms that recall counts and
// compares: Unicode word boundaries, compatibility forms and case folded,
// accents dropped, stop words left out, Snowball stems, and character bigrams
// where a script writes no spaces.
//
// The same text gives the same terms in every process; Version changes when
// that stops being true between releases.
package text

import (
	"slices"
	"strconv"
	"strings"

	"github.com/clipperhouse/uax29/v2/words"

	"github.com/tierd/tierd/tiering"
)

// Version numbers the analysis. It is kept with index rows, so that rows of an
// older analysis are told apart and made anew.
const Version = 2

// MaxTerm bounds a term, in bytes. What is longer, such as encoded data, is cut.
const MaxTerm = 64

// Options configure an Analyzer.
type Options struct {
	// Language of stems and stop words: "english" (the default), "french",
	// "hungarian", "norwegian", "russian", "spanish", "swedish", or "none", which
	// neither stems nor leaves out words of an alphabet. Everything else is the
	// same for all languages.
	Language string
}

// Analyzer makes terms. The zero value analyses English. Its methods are safe
// for concurrent use.
type Analyzer struct {
	language language
}

// New returns an analyzer, or an invalid error for a language it does not know.
func New(o Options) (*Analyzer, error) {
	l, ok := languages[strings.ToLower(o.Language)]
	if !ok {
		return nil, tiering.Invalidf("the language %q has no stems here: use english, french, hungarian, norwegian, russian, spanish, swedish or none", o.Language)
	}
	return &Analyzer{language: l}, nil
}

// Plain returns an analyzer that neither stems nor leaves out words: for names.
func Plain() *Analyzer { return &Analyzer{language: languages["none"]} }

// ID names the analysis: rows of another ID have other terms.
func (a *Analyzer) ID() string {
	name := a.language.name
	if name == "" {
		name = "english"
	}
	return strconv.Itoa(Version) + "-" + name
}

// Languages returns what Options.Language takes, sorted.
func Languages() []string {
	var names []string
	for name := range languages {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Spoken returns the text of a memory as it is indexed and embedded: with the
// name of its speaker, if it has one, before it. A question often names who said
// something, and the words themselves seldom do.
func Spoken(speaker, said string) string {
	if speaker == "" {
		return said
	}
	return speaker + ": " + said
}

// Token is one term where it stands in a text.
type Token struct {
	// Term is what is counted: the stem of a word, or a character bigram.
	Term string
	// Word is the folded word before stemming; of a bigram it is the bigram.
	Word string
	// Unspaced marks what comes from a run of a script without spaces.
	Unspaced bool
	// Part marks a single character of a longer run of a script without spaces.
	// It stands beside the bigrams, is worth less in a query, and does not count
	// towards the length of a text.
	Part bool
}

// Term is a term of a text and how often it occurs there, from 1.
type Term struct {
	Text string
	Freq int
}

// Document is what the index keeps of a text.
type Document struct {
	Terms  []Term // sorted by Text, each once
	Length int    // tokens, without parts
}

// Freq returns how often term occurs, 0 when it does not.
func (d Document) Freq(term string) int {
	i, ok := slices.BinarySearchFunc(d.Terms, term, func(t Term, s string) int { return strings.Compare(t.Text, s) })
	if !ok {
		return 0
	}
	return d.Terms[i].Freq
}

// Terms analyses s and counts.
func (a *Analyzer) Terms(s string) Document { return Count(a.Tokens(s)) }

// Count makes a document of tokens.
func Count(tokens []Token) Document {
	var d Document
	d.Terms = make([]Term, 0, len(tokens))
	for _, t := range tokens {
		d.Terms = append(d.Terms, Term{t.Term, 1})
		if !t.Part {
			d.Length++
		}
	}
	slices.SortFunc(d.Terms, func(a, b Term) int { return strings.Compare(a.Text, b.Text) })
	n := 0
	for i, t := range d.Terms {
		if i > 0 && d.Terms[n-1].Text == t.Text {
			d.Terms[n-1].Freq++
			continue
		}
		d.Terms[n] = t
		n++
	}
	d.Terms = d.Terms[:n]
	return d
}

// Tokens analyses s and returns its tokens in order. Stop words are left out
// unless s holds nothing else; symbols such as emoji count only where there are
// no words at all. A text without any of these has no tokens.
func (a *Analyzer) Tokens(s string) []Token {
	var out []Token
	for _, keep := range []kept{content, everyWord, symbols} {
		if out = a.tokens(s, keep); len(out) > 0 {
			break
		}
	}
	return out
}

// kept says which segments become tokens.
type kept uint8

const (
	content   kept = iota // words but stop words
	everyWord             // all words
	symbols               // what is neither word, space nor punctuation
)

func (a *Analyzer) tokens(s string, keep kept) []Token {
	w := writer{language: a.language, keep: keep}
	w.out = make([]Token, 0, len(s)/6+1)
	for segs := words.FromString(normal(s)); segs.Next(); {
		w.segment(segs.Value())
	}
	w.endRun()
	return w.out
}
