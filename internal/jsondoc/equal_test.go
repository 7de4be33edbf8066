package jsondoc

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true},
		{`100`, `1e2`, true},
		{`1E+2`, `10.00e1`, true},
		{`0`, `-0.0e7`, true},
		{`1e400`, `10e399`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`9007199254740993`, `9007199254740993.0`, true},
		{`0.1`, `0.10000000000000000001`, false},
		{`1`, `-1`, false},
		{`1`, `"1"`, false},
		{`null`, `false`, false},
		{`true`, `true`, true},
		{`true`, `false`, false},
		{`"a"`, `"\u0061"`, true},
		{`"a\/b"`, `"a/b"`, true},
		{`"\ud83d\ude00"`, `"😀"`, true},
		{`"\u0000"`, `"\ufffd"`, false},
		{`"a"`, `"b"`, false},
		{`[1,2]`, `[1.0,2]`, true},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,2]`, false},
		{`[]`, `{}`, false},
		{`{"a":1,"b":2}`, `{"b":2.0,"\u0061":1}`, true},
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, false},
		{`{"a":1,"b":2}`, `{"b":2,"c":1}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"x":{"a":[{"p":1,"q":2}]}}`, `{"x":{"a":[{"q":2,"p":1}]}}`, true},
		{` {"a": [1, 2]} `, `{"a":[1,2]}`, true},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := Equal([]byte(pair[0]), []byte(pair[1])); got != c.want {
				t.Errorf("Equal(%s, %s) = %v", pair[0], pair[1], got)
			}
		}
	}
}

// TestCompareNumbers holds the order against math/big, which expands.
func TestCompareNumbers(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,6})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got, want := CompareNumbers([]byte(a), []byte(b)), x.Cmp(y); got != want {
			t.Fatalf("CompareNumbers(%s, %s) = %d, want %d", a, b, got, want)
		}
	})
	ordered := strings.Fields("-1e400 -10 -9 -1e-400 0 1e-400 1e-399 9 10 1e399 1e400 1e2000000000")
	for i := range ordered {
		for j := range ordered {
			got := CompareNumbers([]byte(ordered[i]), []byte(ordered[j]))
			if want := min(1, max(-1, i-j)); got != want {
				t.Errorf("CompareNumbers(%s, %s) = %d, want %d", ordered[i], ordered[j], got, want)
			}
		}
	}
}
