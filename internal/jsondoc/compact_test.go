package jsondoc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// wantError checks status and pointer of a tiering error.
func wantError(t *testing.T, err error, status int, pointer string) {
	t.Helper()
	var e *tiering.Error
	if !errors.As(err, &e) {
		t.Fatalf("err = %v, want a tiering error of status %d", err, status)
	}
	if e.Status() != status || e.Pointer != pointer {
		t.Errorf("err = %v: status %d at %q, want %d at %q", err, e.Status(), e.Pointer, status, pointer)
	}
	if e.Detail == "" {
		t.Error("the error says nothing")
	}
}

func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

func TestCompactKeepsBytes(t *testing.T) {
	for name, body := range map[string]string{
		"NUL escape":            `{"tool":"out\u0000put"}`,
		"backslash before u":    `{"t":"\\u0000"}`,
		"integer beyond 2^53":   `{"id":9007199254740993}`,
		"uint64":                `{"id":18446744073709551615}`,
		"number text":           `[1.0,1e2,-0,1.10,0.1000]`,
		"member order":          `{"b":1,"a":2,"aa":3}`,
		"emoji":                 `{"e":"👩‍💻"}`,
		"escaped pair":          `{"e":"\ud83d\ude00"}`,
		"NFC and NFD names":     "{\"\u00e9\":1,\"e\u0301\":2}",
		"empty name":            `{"":0}`,
		"null":                  `null`,
		"string":                `"x"`,
		"empty object":          `{}`,
		"line separators":       "{\"s\":\"\u2028\u2029\"}",
		"HTML":                  `{"s":"<script>&amp;</script>"}`,
		"escaped slash":         `{"s":"a\/b"}`,
		"deepest":               nested(128),
		"largest exponents":     `[1e400,1E-400,1e+0400]`,
		"longest number":        "[" + strings.Repeat("1", 400) + "]",
		"space inside a string": `{"a b":" c\t\"d "}`,
		"quote behind slashes":  `["\\\\","\\\"",1]`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Compact([]byte(body))
			if err != nil || string(got) != body {
				t.Fatalf("Compact(%s) = %s, %v", body, got, err)
			}
			spaced := "\n" + strings.NewReplacer("[", " [ ", "]", "\r] ").Replace(body) + "\t"
			if strings.Contains(body, `"[`) {
				t.Fatal("the case has a bracket inside a string")
			}
			if got, err := Compact([]byte(spaced)); err != nil || string(got) != body {
				t.Fatalf("Compact(%q) = %s, %v", spaced, got, err)
			}
		})
	}
}

func TestCompactDropsSpaceBetweenTokens(t *testing.T) {
	body := " {\r\n\t\"a b\" : [ 1 , 2.50,\"x \\\" y\" ] , \"c\":{ } , \"d\" :null } \n"
	want := `{"a b":[1,2.50,"x \" y"],"c":{},"d":null}`
	got, err := Compact([]byte(body))
	if err != nil || string(got) != want {
		t.Fatalf("got %s, %v, want %s", got, err, want)
	}
}

func TestCompactDoesNotCopyWhatIsCompact(t *testing.T) {
	body := []byte(`{"a":[1,2]}`)
	got, err := Compact(body)
	if err != nil || &got[0] != &body[0] {
		t.Errorf("copied, err %v", err)
	}
}

func TestCompactRefuses(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		pointer    string
		says       string
	}{
		{"nothing", "", 400, "", "empty"},
		{"only space", " \n", 400, "", "empty"},
		{"byte order mark", "\xef\xbb\xbf{}", 400, "", "byte order mark"},
		{"trailing value", "{} {}", 400, "", "byte 3"},
		{"trailing comma", `{"a":1,}`, 400, "", "byte 6"},
		{"trailing comma on line 2", "{\n\"a\":1,\n}", 400, "", "line 2"},
		{"NaN", `{"a":NaN}`, 400, "", "byte 5"},
		{"Infinity", `[Infinity]`, 400, "", "byte 1"},
		{"single quotes", `{'a':1}`, 400, "", "byte 1"},
		{"truncated", `{"a":`, 400, "", "ends too early"},
		{"truncated string", `"abc`, 400, "", "ends too early"},
		{"truncated escape", `"\ud8`, 400, "", "ends too early"},
		{"comment", `{"a":1}//x`, 400, "", "byte 7"},
		{"leading zero", `[01]`, 400, "", "byte 2"},
		{"control character", "{\"s\":\"a\x01b\"}", 400, "", "byte 7"},
		{"surrogate outside a string", `[\ud800]`, 400, "", "byte 1"},
		{"bad escape", `["\x"]`, 400, "", "byte 2"},
		{"invalid UTF-8", "{\"s\":\"\xff\xfe\"}", 400, "", "UTF-8"},
		{"overlong UTF-8", "{\"s\":\"\xc0\xaf\"}", 400, "", "UTF-8"},
		{"surrogate in UTF-8", "{\"s\":\"\xed\xa0\x80\"}", 400, "", "UTF-8"},
		{"unbalanced", `[1]]`, 400, "", "byte 3"},
		{"wrong bracket", `[1}`, 400, "", "byte 2"},

		{"too deep", nested(129), 422, strings.Repeat("/0", 128), "128 levels"},
		{"far too deep", nested(100_000), 422, strings.Repeat("/0", 128), "128 levels"},
		{"too deep in a member", `{"a":{"b":` + nested(127) + `}}`, 422, "/a/b" + strings.Repeat("/0", 126), "128 levels"},
		{"large exponent", `{"n":[0,1e401]}`, 422, "/n/1", "exponent"},
		{"small exponent", `[1E-401]`, 422, "/0", "exponent"},
		{"exponent beyond int", `[1e99999999999999999999]`, 422, "/0", "exponent"},
		{"long number", "[" + strings.Repeat("1", 401) + "]", 422, "/0", "401 characters"},
		{"long fraction", "[0." + strings.Repeat("1", 399) + "]", 422, "/0", "401 characters"},
		{"many large numbers", "[" + strings.Repeat("1e131071,", 999) + "1e131071]", 422, "/0", "exponent"},
		{"name twice", `{"a":1,"a":2}`, 422, "/a", "twice"},
		{"name twice below", `{"x":{"k":1,"j":2,"k":3}}`, 422, "/x/k", "twice"},
		{"name twice by escape", `{"a":1,"\u0061":2}`, 422, "/a", "twice"},
		{"name with a slash twice", `{"a/b~":1,"a\/b~":2}`, 422, "/a~1b~0", "twice"},
		{"lone high surrogate", `{"s":"\ud800"}`, 422, "/s", "surrogate"},
		{"lone low surrogate", `{"s":["x","\uDC00x"]}`, 422, "/s/1", "surrogate"},
		{"two high surrogates", `["\ud800\ud800"]`, 422, "/0", "surrogate"},
		{"lone surrogate in a name", `{"a":{"\udfff":1}}`, 422, "/a", "surrogate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Compact([]byte(c.body))
			if err == nil {
				t.Fatalf("accepted as %s", got)
			}
			var e *tiering.Error
			if errors.As(err, &e) && e.Status() == 400 {
				c.pointer = e.Pointer // not promised
			}
			wantError(t, err, c.status, c.pointer)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

// TestCompactCases runs a file of JSON lines {"name", "body64", "expect"}:
// expect is roundtrip, 400 or 422.
func TestCompactCases(t *testing.T) {
	path := os.Getenv("TIERD_CASES")
	if path == "" {
		t.Skip("TIERD_CASES names no file of cases")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var c struct {
			Name, Expect string
			Body64       []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) {
			got, err := Compact(c.Body64)
			var e *tiering.Error
			switch {
			case c.Expect == "roundtrip":
				if err != nil || !bytes.Equal(got, c.Body64) {
					t.Fatalf("got %s, %v", got, err)
				}
			case !errors.As(err, &e) || (map[int]string{400: "400", 422: "422"})[e.Status()] != c.Expect:
				t.Fatalf("err = %v, want status %s", err, c.Expect)
			}
		})
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Fatalf("%d cases, %v", n, err)
	}
}

// FuzzCompact holds Compact against encoding/json, which accepts a little
// more: duplicates, lone surrogates, bad UTF-8, any depth and number.
func FuzzCompact(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.50e3,"x\u0000\ud83d\ude00"],"b":{"c":null}}`, " [ true , false ] ", `{"a":1,"\u0061":2}`,
		`"\ud800"`, "\"\xff\"", `[1e401]`, nested(130), `{"a":`, "", `01`, `"\\\""`, `{} {}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		got, err := Compact(body)
		if !bytes.Equal(body, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			var e *tiering.Error
			if !errors.As(err, &e) || e.Status() != 400 && e.Status() != 422 {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			if _, err := ParsePointer(e.Pointer); err != nil {
				t.Fatal(err)
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, body); err != nil {
			t.Fatalf("accepted %q, encoding/json says %v", body, err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("got %q, want %q", got, want.Bytes())
		}
		if again, err := Compact(got); err != nil || len(again) > 0 && &again[0] != &got[0] {
			t.Fatalf("the result is not compact: %v", err)
		}
	})
}

// document returns a chat-like document of about size bytes.
func document(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"user":{"id":9007199254740993,"name":"Ada \"L\" Lovelace","score":0.75},"status":"open","messages":[`)
	for i := 0; b.Len() < size-150; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"role":"assistant","content":"It was about half past ten when the \u00e9tude ended; nobody said a word.\nThen, applause.","tokens":[12,7,31],"at":1712345678.25,"ok":true}`)
	}
	b.WriteString(`],"count":41,"tail":null}`)
	return b.Bytes()
}

func BenchmarkCompact(b *testing.B) {
	for _, size := range []struct {
		name string
		doc  []byte
	}{{"1KB", document(1 << 10)}, {"64KB", document(64 << 10)}} {
		var indented bytes.Buffer
		if err := json.Indent(&indented, size.doc, "", " "); err != nil {
			b.Fatal(err)
		}
		b.Run("size="+size.name+"/by=json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(size.doc)))
			for b.Loop() {
				if !json.Valid(size.doc) {
					b.Fatal("not valid")
				}
			}
		})
		b.Run("size="+size.name+"/by=json.Valid+json.Compact", func(b *testing.B) {
			b.SetBytes(int64(len(size.doc)))
			for b.Loop() {
				var out bytes.Buffer
				if !json.Valid(size.doc) || json.Compact(&out, size.doc) != nil {
					b.Fatal("not valid")
				}
			}
		})
		for name, doc := range map[string][]byte{"Compact": size.doc, "Compact-indented": indented.Bytes()} {
			b.Run("size="+size.name+"/by="+name, func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Compact(doc); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
