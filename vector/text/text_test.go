package text

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func terms(t *testing.T, language, s string) string {
	t.Helper()
	a, err := New(Options{Language: language})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, tok := range a.Tokens(s) {
		term := tok.Term
		if tok.Part {
			term = "(" + term + ")"
		}
		out = append(out, term)
	}
	return strings.Join(out, " ")
}

func TestTokens(t *testing.T) {
	for _, c := range []struct{ name, language, in, want string }{
		{"stems and stop words", "", "She was running through the gardens", "run garden"},
		{"an apostrophe ends a name", "", "Caroline's sister didn't call", "carolin sister call"},
		{"a hyphen, an underscore and a slash end words", "", "well-known snake_case and/or", "well known snake case"},
		{"numbers stay whole", "", "3.14 and 1,000 in 2023", "3.14 1000 2023"},
		{"a full stop ends words", "", "tea.Coffee", "tea coffe"},
		{"accents", "", "Café Zürich naïve", "cafe zurich naiv"},
		{"case folds beyond ASCII", "", "STRASSE straße ΣΊΣΥΦΟΣ", "strass strass σισυφοσ"},
		{"full-width letters", "", "ＨＥＬＬＯ　ｗｏｒｌｄ", "hello world"},
		{"vowel signs of Hindi are no accents", "", "हिन्दी भाषा", "हिन्दी भाषा"},
		{"Chinese", "", "我喜欢爬山", "喜欢 (喜) 欢爬 (欢) 爬山 (爬) (山)"},
		{"a question of Chinese", "", "他什么时候搬家的？", "搬家 (搬) (家)"},
		{"one character", "", "猫", "猫"},
		{"punctuation ends a run", "", "山，水", "山 水"},
		{"Chinese beside English", "", "用Python写代码", "用 python 写代 (写) 代码 (代) (码)"},
		{"Japanese", "", "東京タワーに", "東京 (東) 京タ (京) タワ ワー ーに"},
		{"half-width katakana", "", "ﾀﾜｰ", "タワ ワー"},
		{"Korean", "", "학교에서 친구", "학교 교에 에서 친구"},
		{"Thai", "", "กาแฟ", "กา าแ แฟ"},
		{"nothing but stop words", "", "Who are you?", "who are you"},
		{"nothing but stop words of Chinese", "", "为什么呢", "为什 (为) 什么 (什) 么呢 (么) (呢)"},
		{"nothing but symbols", "", "👍!", "👍"},
		{"nothing", "", " .,!? ", ""},
		{"bytes that are no text", "", "tea\xff\xfecup", "tea cup"},
		{"French", "french", "Les élèves étudiaient", "le elev etudi"},
		{"Russian", "russian", "кошки и собаки", "кошк собак"},
		{"no language", "none", "The gardens", "the gardens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := terms(t, c.language, c.in); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestTermsAreCounted(t *testing.T) {
	var a Analyzer
	d := a.Terms("Tea, more tea, and teas with 龙井")
	if got, want := fmt.Sprint(d), "{[{tea 3} {井 1} {龙 1} {龙井 1}] 4}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d.Freq("tea") != 3 || d.Freq("coffee") != 0 {
		t.Errorf("freq: %d, %d", d.Freq("tea"), d.Freq("coffee"))
	}
}

func TestALongWordIsCut(t *testing.T) {
	var a Analyzer
	for _, s := range []string{strings.Repeat("x", 1000), strings.Repeat("é", 1000), strings.Repeat("я", 1000)} {
		toks := a.Tokens(s)
		if len(toks) != 1 || len(toks[0].Term) > MaxTerm || !utf8.ValidString(toks[0].Term) {
			t.Errorf("%d tokens, first %q", len(toks), toks[0].Term)
		}
	}
}

func TestAnUnknownLanguage(t *testing.T) {
	if _, err := New(Options{Language: "klingon"}); err == nil || !strings.Contains(err.Error(), "klingon") {
		t.Errorf("got %v", err)
	}
	for _, name := range Languages() {
		if _, err := New(Options{Language: name}); err != nil {
			t.Error(err)
		}
	}
}

// FuzzTerms holds that terms can be stored anywhere: valid, short, sorted, each once.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"The cat's 3.14", "东京タワー", "e\u0301\u0327", "\xff", "a\x00b", "ﷺ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var a Analyzer
		d := a.Terms(s)
		length := 0
		for i, term := range d.Terms {
			length += term.Freq
			if term.Text == "" || len(term.Text) > MaxTerm || !utf8.ValidString(term.Text) || strings.ContainsRune(term.Text, 0) {
				t.Errorf("term %q", term.Text)
			}
			if i > 0 && d.Terms[i-1].Text >= term.Text {
				t.Errorf("%q before %q", d.Terms[i-1].Text, term.Text)
			}
		}
		if d.Length > length || d.Length == 0 && len(d.Terms) > 0 {
			t.Errorf("length %d of %d occurrences", d.Length, length)
		}
	})
}

func BenchmarkTerms(b *testing.B) {
	var a Analyzer
	s := "Wow, Caroline! That's great! I just signed up for a pottery class yesterday. It's like therapy for me, letting me express myself and get creative. Have you found any activities that make you feel the same way?"
	b.SetBytes(int64(len(s)))
	b.ReportAllocs()
	for b.Loop() {
		a.Terms(s)
	}
}
