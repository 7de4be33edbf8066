package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// normal returns s as valid UTF-8 in compatibility form, in which a full-width
// letter is the letter.
func normal(s string) string {
	if ascii(s) {
		return s
	}
	return norm.NFKC.String(strings.ToValidUTF8(s, " "))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// foldCase returns the word in one case; a number without its commas.
func foldCase(word string) string {
	if !ascii(word) {
		return norm.NFC.String(cases.Fold().String(word))
	}
	word = strings.ToLower(word)
	if strings.IndexByte(word, ',') >= 0 {
		word = strings.ReplaceAll(word, ",", "") // 1,000
	}
	return word
}

// dropAccents returns the word without marks that are accents. In scripts where
// marks are vowels they stay.
func dropAccents(word string) string {
	if ascii(word) {
		return word
	}
	var b strings.Builder
	b.Grow(len(word))
	accents := false // the marks that follow are accents
	for _, r := range norm.NFD.String(word) {
		switch {
		case !unicode.Is(unicode.Mn, r):
			accents = unicode.In(r, unicode.Latin, unicode.Greek, unicode.Arabic, unicode.Hebrew) || r == 'е'
		case accents:
			continue
		}
		b.WriteRune(r)
	}
	return norm.NFC.String(b.String())
}

// unspaced reports whether r belongs to a script whose words are not set apart
// by spaces, or whose words are known by their characters better than by what
// stands between spaces, as in Korean.
func unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || r == 'ー'
}
