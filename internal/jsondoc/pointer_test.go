package jsondoc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierd/tierd/tiering"
)

// The document of RFC 6901, section 5, and its pointers.
const rfc6901 = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}`

func TestLookup(t *testing.T) {
	for pointer, want := range map[string]string{
		"": rfc6901, "/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/foo/1": `"baz"`, "/": "0", "/a~1b": "1",
		"/c%d": "2", "/e^f": "3", "/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/m~0n": "8",
	} {
		if got, err := Lookup([]byte(rfc6901), pointer); err != nil || string(got) != want {
			t.Errorf("Lookup(%q) = %s, %v, want %s", pointer, got, err, want)
		}
	}
	for _, c := range []struct{ doc, pointer, want string }{
		{rfc6901, "/ ", "7"},
		{`{"\u0061":1}`, "/a", "1"},
		{`{"a\u0000":1}`, "/a\x00", "1"},
		{`{"~1":1}`, "/~01", "1"},
		{`[[1,2],[3]]`, "/0/1", "2"},
		{` { "a" : [ 1 , { "b" : 2.50 } ] } `, "/a/1/b", "2.50"},
		{`"x"`, "", `"x"`},
	} {
		if got, err := Lookup([]byte(c.doc), c.pointer); err != nil || string(got) != c.want {
			t.Errorf("Lookup(%s, %q) = %s, %v, want %s", c.doc, c.pointer, got, err, c.want)
		}
	}
}

func TestLookupNowhereNamesSiblings(t *testing.T) {
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	first20 := make([]string, 20)
	for i := range first20 {
		first20[i] = fmt.Sprintf("k%d", i)
	}
	for _, c := range []struct {
		name, doc, pointer, at string
		siblings               []string
	}{
		{"member", `{"a":1,"\u0062/":2}`, "/x", "/x", []string{"a", "b/"}},
		{"step on the way", `{"a":{"b":1}}`, "/a/x/y/z", "/a/x", []string{"b"}},
		{"index", `{"a":[1,2,3]}`, "/a/3", "/a/3", []string{"0..2"}},
		{"no index", `[1]`, "/x", "/x", []string{"0..0"}},
		{"behind the end", `[1]`, "/-", "/-", []string{"0..0"}},
		{"leading zero", `[1,2]`, "/01", "/01", []string{"0..1"}},
		{"huge index", `[1,2]`, "/99999999999999999999", "/99999999999999999999", []string{"0..1"}},
		{"empty array", `[]`, "/0", "/0", nil},
		{"through a string", `{"a":"b"}`, "/a/b", "/a/b", nil},
		{"many", "{" + strings.Join(many, ",") + "}", "/x", "/x", first20},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Lookup([]byte(c.doc), c.pointer)
			wantError(t, err, 404, c.at)
			var e *tiering.Error
			if errors.As(err, &e) && !slices.Equal(e.Siblings, c.siblings) {
				t.Errorf("siblings %q, want %q", e.Siblings, c.siblings)
			}
		})
	}
}

func TestParsePointerRefuses(t *testing.T) {
	for _, s := range []string{"a", "a/b", "/~", "/a~2", "/~01~", "/\xff"} {
		_, err := ParsePointer(s)
		wantError(t, err, 400, "")
	}
}

func TestWithoutNUL(t *testing.T) {
	for doc, want := range map[string]string{
		`{"a":1}`:                      `{"a":1}`,
		`{"a\u0000":"\u0000b"}`:        `{"a\ufffd":"\ufffdb"}`,
		`["\\u0000","\\\u0000"]`:       `["\\u0000","\\\ufffd"]`,
		`["\"\u0000\"","\u00001"]`:     `["\"\ufffd\"","\ufffd1"]`,
		`["\u00000","\n\u0000\u0001"]`: `["\ufffd0","\n\ufffd\u0001"]`,
	} {
		if got := WithoutNUL([]byte(doc)); string(got) != want {
			t.Errorf("WithoutNUL(%s) = %s, want %s", doc, got, want)
		}
	}
}

func FuzzPointer(f *testing.F) {
	for _, seed := range []string{"", "/", "/a/0/b", "/a~1b/~0", "/~", "x", "/-/01", "/é", "/\x00"} {
		f.Add(seed, []byte(rfc6901))
	}
	f.Fuzz(func(t *testing.T, s string, doc []byte) {
		p, err := ParsePointer(s)
		if err != nil {
			wantError(t, err, 400, "")
			return
		}
		if !utf8.ValidString(s) || p.String() != s {
			t.Fatalf("ParsePointer(%q).String() = %q", s, p.String())
		}
		p.Find(doc) // whatever the bytes are, it ends
		doc, err = Compact(doc)
		if err != nil {
			return
		}
		value, err := Lookup(doc, s)
		if err != nil {
			if tiering.CodeOf(err) != tiering.CodeNotFound {
				t.Fatal(err)
			}
			return
		}
		if _, err := Compact(value); err != nil {
			t.Fatalf("Lookup(%s, %q) is not a value: %s", doc, s, value)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	doc := document(64 << 10)
	p := Pointer{"count"} // behind the long array
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, ok := p.Find(doc); !ok {
			b.Fatal("not found")
		}
	}
}
