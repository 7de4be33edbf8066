package warm

import (
	"iter"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/tierd/tierd/internal/jsondoc"
)

// wordsOf yields the words of text, case-folded: runs of letters, digits and
// marks. Han and Hiragana are written without spaces, so each of their
// characters is a word.
func wordsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var word []byte
		flush := func() bool {
			done := len(word) > 0 && !yield(string(word))
			word = word[:0]
			return !done
		}
		for _, r := range text {
			switch {
			case r >= 0x80 && unicode.In(r, unicode.Han, unicode.Hiragana):
				if !flush() || !yield(string(r)) {
					return
				}
			case inWord(r):
				word = utf8.AppendRune(word, foldRune(r))
			default:
				if !flush() {
					return
				}
			}
		}
		flush()
	}
}

func inWord(r rune) bool {
	if r < 0x80 {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// foldRune maps all runes that differ only in case to one of them: the
// smallest of Unicode's simple folding, but for ASCII the small letter.
func foldRune(r rune) rune {
	if r < 0x80 {
		return unicode.ToLower(r)
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

func distinctWords(text string) []string {
	words := slices.Collect(wordsOf(text))
	slices.Sort(words)
	return slices.Compact(words)
}

// hasWords reports whether every word is in a string at or below value. Names
// of members do not count.
func hasWords(value []byte, words []string) bool {
	missing := make(map[string]struct{}, len(words))
	for _, word := range words {
		missing[word] = struct{}{}
	}
	strike(value, missing)
	return len(missing) == 0
}

// strike removes the words of the strings at or below value from missing.
func strike(value []byte, missing map[string]struct{}) {
	switch jsondoc.KindOf(value) {
	case jsondoc.String:
		for word := range wordsOf(jsondoc.Unquote(value)) {
			if delete(missing, word); len(missing) == 0 {
				return
			}
		}
	case jsondoc.Array:
		for element := range jsondoc.Elements(value) {
			if strike(element, missing); len(missing) == 0 {
				return
			}
		}
	case jsondoc.Object:
		for _, member := range jsondoc.Members(value) {
			if strike(member, missing); len(missing) == 0 {
				return
			}
		}
	}
}
