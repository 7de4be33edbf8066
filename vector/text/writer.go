package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// writer collects the tokens of one text.
type writer struct {
	language language
	keep     kept
	out      []Token
	run      []rune // characters of a script without spaces, not yet written
}

// segment takes what lies between two word boundaries.
func (w *writer) segment(seg string) {
	if w.keep == symbols {
		r, _ := utf8.DecodeRuneInString(seg)
		if unicode.Is(unicode.So, r) {
			w.out = append(w.out, Token{Term: cut(seg), Word: cut(seg)})
		}
		return
	}
	start := -1 // of the word being read
	for i, r := range seg {
		if r < utf8.RuneSelf {
			if !alphanumeric(byte(r)) && !inNumber(seg, i) {
				w.endWord(seg, start, i)
				start = -1
				w.endRun()
				continue
			}
		} else if unspaced(r) {
			w.endWord(seg, start, i)
			start = -1
			w.run = append(w.run, r)
			continue
		} else if !unicode.In(r, unicode.L, unicode.N, unicode.M) {
			w.endWord(seg, start, i)
			start = -1
			w.endRun()
			continue
		}
		if start < 0 {
			w.endRun()
			start = i
		}
	}
	w.endWord(seg, start, len(seg))
}

// inNumber reports whether the point or comma at i stands between digits.
func inNumber(s string, i int) bool {
	return (s[i] == '.' || s[i] == ',') && i > 0 && i+1 < len(s) && digit(s[i-1]) && digit(s[i+1])
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func alphanumeric(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || digit(c) }

// endWord writes the word s[start:end], if there is one.
func (w *writer) endWord(s string, start, end int) {
	if start < 0 {
		return
	}
	lower := foldCase(s[start:end])
	if len(lower) > MaxTerm {
		lower = cut(dropAccents(lower))
		w.out = append(w.out, Token{Term: lower, Word: lower})
		return
	}
	word, term, stop := w.language.term(lower)
	if term == "" || stop && w.keep == content {
		return
	}
	w.out = append(w.out, Token{Term: cut(term), Word: word})
}

// endRun writes the run as bigrams, with its single ideographs as parts; a run
// of one character is a token of its own.
func (w *writer) endRun() {
	if len(w.run) == 0 {
		return
	}
	for _, piece := range w.pieces() {
		if len(piece) == 1 {
			w.out = append(w.out, Token{Term: string(piece), Word: string(piece), Unspaced: true})
			continue
		}
		for i, r := range piece {
			if i+1 < len(piece) {
				b := string(piece[i : i+2])
				w.out = append(w.out, Token{Term: b, Word: b, Unspaced: true})
			}
			if unicode.Is(unicode.Han, r) {
				c := string(r)
				w.out = append(w.out, Token{Term: c, Word: c, Unspaced: true, Part: true})
			}
		}
	}
	w.run = w.run[:0]
}

// pieces cuts the run at stop words.
func (w *writer) pieces() [][]rune {
	if w.keep != content {
		return [][]rune{w.run}
	}
	var out [][]rune
	start := 0
	for i := 0; i < len(w.run); {
		n := unspacedStop(w.run[i:])
		if n == 0 {
			i++
			continue
		}
		if i > start {
			out = append(out, w.run[start:i])
		}
		i += n
		start = i
	}
	if start < len(w.run) {
		out = append(out, w.run[start:])
	}
	return out
}

// cut shortens s to MaxTerm bytes, at a character.
func cut(s string) string {
	if len(s) <= MaxTerm {
		return s
	}
	n := MaxTerm
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}
