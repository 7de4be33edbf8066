package idrange_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/internal/idrange"
)

func holds(r idrange.Range, id string) bool {
	return id >= string(r.From) && (r.To == nil || id < string(r.To))
}

// TestPrefixes compares ranges with what prefixes mean. U+FFFD is what Go reads a byte
// that is no UTF-8 as, such as the 0xff that has no byte above it.
func TestPrefixes(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'b', '_', 'é', '\uFFFD', '\U0010ffff'}), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		prefix := word.Draw(t, "prefix")
		prefixes := rapid.SliceOfN(word, 0, 4).Draw(t, "prefixes")
		id := word.Draw(t, "id")
		want := len(prefixes) == 0
		for _, p := range prefixes {
			want = want || strings.HasPrefix(id, p)
		}
		want = want && strings.HasPrefix(id, prefix)
		times, last := 0, ""
		for _, r := range idrange.Prefixes(prefix, prefixes) {
			if string(r.From) < last {
				t.Fatalf("the ranges of %q and %q overlap or are not in order", prefix, prefixes)
			}
			last = "\xff\xff"
			if r.To != nil {
				last = string(r.To)
			}
			if holds(r, id) {
				times++
			}
		}
		if times > 1 || (times == 1) != want {
			t.Fatalf("%q is in %d ranges of prefix %q and %q, want %v", id, times, prefix, prefixes, want)
		}
	})
}

func TestIDOrPrefix(t *testing.T) {
	for _, c := range []struct {
		name, id, prefix string
		in, out          []string
	}{
		{"an id", "a", "", []string{"a"}, []string{"", "a ", "a/b", "b"}},
		{"a prefix", "", "a/", []string{"a/", "a/b", "a/\U0010ffff"}, []string{"a", "a0", "b"}},
		{"a prefix that ends in U+FFFD", "", "a\uFFFD", []string{"a\uFFFD", "a\uFFFDb"}, []string{"a", "a\U0001F600", "b"}},
		{"a prefix that ends within a character", "", "\xc3", []string{"é"}, []string{"a", "ł"}},
		{"a prefix with nothing above it", "", "\xff", []string{"\xff", strings.Repeat("\xff", 1024)}, []string{"a", "\U0010ffff"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := idrange.IDOrPrefix(c.id, c.prefix)
			if r.To == nil {
				t.Error("the range has no end")
			}
			for _, id := range c.in {
				if !holds(r, id) {
					t.Errorf("%q is not in the range", id)
				}
			}
			for _, id := range c.out {
				if holds(r, id) {
					t.Errorf("%q is in the range", id)
				}
			}
		})
	}
}
