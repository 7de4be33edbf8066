package warm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func mustFilter(t testing.TB, filter string) *Filter {
	t.Helper()
	f, err := ParseFilter([]byte(filter))
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	return f
}

func TestFilterMatch(t *testing.T) {
	const doc = `{"status":"open","user":{"age":18,"name":"Ada"},"n":9007199254740993,"big":1e400,"neg":-0.50,
		"tags":["red","green",1.0,{"a":1,"b":2},null],"flag":true,"off":false,"none":null,"$odd":1,"a/b":{"m~n":1},"":"empty",
		"esc":"caf\u00e9 \"x\"","nul":"a\u0000b","n\u0000":1,"empty":{}}`
	for _, c := range []struct {
		name, filter string
		want         bool
	}{
		{"nothing", `{}`, true},
		{"bare value", `{"status":"open"}`, true},
		{"bare value, another", `{"status":"closed"}`, false},
		{"every member must hold", `{"status":"open","/user/age":19}`, false},
		{"pointer", `{"/user/age":{"$gte":18}}`, true},
		{"pointer with escapes", `{"/a~1b/m~0n":1}`, true},
		{"bare name with a slash", `{"a/b":{"$exists":true}}`, true},
		{"pointer to a name with a dollar", `{"/$odd":1}`, true},
		{"pointer to the empty name", `{"/":"empty"}`, true},
		{"pointer to the whole", `{"":{"$contains":{"status":"open"}}}`, true},
		{"element", `{"/tags/1":"green"}`, true},

		{"$eq number in another spelling", `{"/user/age":{"$eq":1.8e1}}`, true},
		{"$eq beyond 2^53", `{"n":9007199254740992}`, false},
		{"$eq of another kind", `{"/user/age":"18"}`, false},
		{"$eq escaped string", `{"esc":"café \u0022x\u0022"}`, true},
		{"$eq object in another order", `{"/tags/3":{"b":2,"a":1.0}}`, true},
		{"$eq empty object", `{"empty":{}}`, true},
		{"$eq null", `{"none":null}`, true},
		{"$eq null is not missing", `{"missing":null}`, false},
		{"$ne", `{"status":{"$ne":"closed"}}`, true},
		{"$ne of another kind", `{"/user/age":{"$ne":"18"}}`, true},
		{"$ne of the same", `{"/user/age":{"$ne":18.0}}`, false},
		{"$ne of what is missing", `{"missing":{"$ne":1}}`, true},

		{"$gt", `{"/user/age":{"$gt":17.999}}`, true},
		{"$gt of the same", `{"/user/age":{"$gt":18}}`, false},
		{"$gt beyond 2^53", `{"n":{"$gt":9007199254740992}}`, true},
		{"$gt huge exponents", `{"big":{"$gt":9.9e399}}`, true},
		{"$lt huge exponents", `{"big":{"$lt":1e-400}}`, false},
		{"$lt negative", `{"neg":{"$lt":-0.4}}`, true},
		{"$lte", `{"neg":{"$lte":-5e-1}}`, true},
		{"$gt strings are bytes", `{"status":{"$gt":"Zebra"}}`, true},
		{"$gt string and number", `{"status":{"$gt":1}}`, false},
		{"$lt string and number", `{"status":{"$lt":1}}`, false},
		{"$gt booleans", `{"flag":{"$gt":false}}`, true},
		{"$lt booleans", `{"off":{"$lt":true}}`, true},
		{"$gte null never", `{"none":{"$gte":0}}`, false},
		{"$lt of what is missing", `{"missing":{"$lt":1}}`, false},
		{"two operators", `{"/user/age":{"$gt":10,"$lt":18}}`, false},

		{"$in", `{"status":{"$in":["new","open"]}}`, true},
		{"$in with numbers", `{"/user/age":{"$in":[18.0]}}`, true},
		{"$in nothing", `{"status":{"$in":[]}}`, false},
		{"$in of what is missing", `{"missing":{"$in":[null]}}`, false},
		{"$exists", `{"none":{"$exists":true},"missing":{"$exists":false}}`, true},
		{"$exists false of what is there", `{"none":{"$exists":false}}`, false},

		{"$contains element", `{"tags":{"$contains":"red"}}`, true},
		{"$contains equal number", `{"tags":{"$contains":1}}`, true},
		{"$contains equal object", `{"tags":{"$contains":{"b":2,"a":1}}}`, true},
		{"$contains part of an element", `{"tags":{"$contains":{"a":1}}}`, false},
		{"$contains null", `{"tags":{"$contains":null}}`, true},
		{"$contains part of a string", `{"esc":{"$contains":"é \""}}`, true},
		{"$contains nothing of a string", `{"esc":{"$contains":"E"}}`, false},
		{"$contains number in a string", `{"esc":{"$contains":1}}`, false},
		{"$contains members", `{"user":{"$contains":{"name":"Ada"}}}`, true},
		{"$contains members, one differs", `{"user":{"$contains":{"name":"Ada","age":19}}}`, false},
		{"$contains member of what has none", `{"user":{"$contains":"name"}}`, false},
		{"$contains in a number", `{"n":{"$contains":1}}`, false},

		{"$text", `{"esc":{"$text":"CAFÉ"}}`, true},
		{"$text below", `{"":{"$text":"ada Green open"}}`, true},
		{"$text needs whole words", `{"status":{"$text":"ope"}}`, false},
		{"$text needs every word", `{"status":{"$text":"open door"}}`, false},
		{"$text skips names and numbers", `{"":{"$text":"status"}}`, false},

		{"$and", `{"$and":[{"status":"open"},{"flag":true}]}`, true},
		{"$or", `{"$or":[{"status":"closed"},{"flag":true}]}`, true},
		{"$or of none", `{"$or":[{"status":"closed"},{"flag":false}]}`, false},
		{"$or beside a member", `{"status":"closed","$or":[{"flag":true}]}`, false},
		{"$not", `{"$not":{"status":"closed"}}`, true},
		{"$not of everything", `{"$not":{}}`, false},
		{"$not in a place", `{"/user/age":{"$not":{"$lt":10}}}`, true},
		{"$not in a place holds for what is missing", `{"missing":{"$not":{"$gt":1}}}`, true},

		{"NUL is U+FFFD", `{"nul":"a\ufffdb"}`, true},
		{"NUL in the filter too", `{"nul":{"$contains":"\u0000b"}}`, true},
		{"NUL in a name", `{"n\u0000":1,"/n\ufffd":1}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mustFilter(t, c.filter).Match([]byte(doc))
			if err != nil || got != c.want {
				t.Errorf("%s: %v, %v", c.filter, got, err)
			}
		})
	}
}

func TestFilterMatchesScalarDocuments(t *testing.T) {
	for doc, want := range map[string]bool{`5`: true, `4`: false, `"5"`: false, `[5]`: false} {
		if got, err := mustFilter(t, `{"":{"$gte":5}}`).Match([]byte(doc)); err != nil || got != want {
			t.Errorf("%s: %v, %v", doc, got, err)
		}
	}
}

func TestNoFilterMatchesAll(t *testing.T) {
	for _, filter := range []string{"", " null", "{ }"} {
		f := mustFilter(t, filter)
		if ok, err := f.Match([]byte(`1`)); f != nil || !ok || err != nil || f.String() != "" {
			t.Errorf("%q: %v, %v, %v", filter, f, ok, err)
		}
	}
}

func TestFilterRefusesADocumentOfNoBytes(t *testing.T) {
	if _, err := mustFilter(t, `{"a":1}`).Match(nil); tiering.CodeOf(err) != tiering.CodeCorrupt {
		t.Errorf("err = %v", err)
	}
}

func TestTextWords(t *testing.T) {
	for _, c := range []struct {
		text, words string
		want        bool
	}{
		{"The quick-brown fox's tail.", "BROWN fox tail", true},
		{"The quick-brown fox", "quick_brown", true},
		{"foxes", "fox", false},
		{"ΣΊΣΥΦΟΣ", "σίσυφος", true},
		{"Kelvin \u212a", "k", true},
		{"naïve", "naive", false},
		{"e\u0301t\u00e9", "e\u0301t\u00e9", true},
		{"version 42", "42", true},
		{"東京都に行く", "京都", true},
		{"日本語 text", "語 TEXT", true},
		{"Привет, мир", "МИР", true},
	} {
		doc := fmt.Sprintf(`{"t":["",%q]}`, c.text)
		got, err := mustFilter(t, fmt.Sprintf(`{"t":{"$text":%q}}`, c.words)).Match([]byte(doc))
		if err != nil || got != c.want {
			t.Errorf("%q in %q: %v, %v", c.words, c.text, got, err)
		}
	}
}

func TestParseFilterRefuses(t *testing.T) {
	many := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	for _, c := range []struct {
		name, filter string
		status       int
		pointer      string
	}{
		{"no JSON", `{"a":}`, 400, ""},
		{"no object", `["a"]`, 400, ""},
		{"unknown operator", `{"/user/age":{"$gtx":1}}`, 400, "/~1user~1age/$gtx"},
		{"unknown operator beside known ones", `{"a":{"$gt":1,"$regex":"x"}}`, 400, "/a/$regex"},
		{"unknown combination", `{"$nor":[]}`, 400, "/$nor"},
		{"operator at the top", `{"$gt":1}`, 400, "/$gt"},
		{"combination in a place", `{"a":{"$or":[]}}`, 400, "/a/$or"},
		{"operators and names", `{"a":{"$gt":1,"b":2}}`, 400, "/a/b"},
		{"bad pointer", `{"/a~":1}`, 400, "/~1a~0"},
		{"$and of an object", `{"$and":{"a":1}}`, 400, "/$and"},
		{"$or of nothing", `{"$or":[]}`, 400, "/$or"},
		{"$or of a value", `{"$or":[{"a":1},2]}`, 400, "/$or/1"},
		{"$not of an array", `{"$not":[]}`, 400, "/$not"},
		{"$not in a place of a value", `{"a":{"$not":1}}`, 400, "/a/$not"},
		{"$gt null", `{"a":{"$gt":null}}`, 400, "/a/$gt"},
		{"$lte of an array", `{"$or":[{"a":{"$lte":[1]}}]}`, 400, "/$or/0/a/$lte"},
		{"$in of a value", `{"a":{"$in":1}}`, 400, "/a/$in"},
		{"$in of too many", `{"a":{"$in":[` + many(1001, "1") + `]}}`, 400, "/a/$in"},
		{"$exists of a number", `{"a":{"$exists":1}}`, 400, "/a/$exists"},
		{"$text of a number", `{"a":{"$text":1}}`, 400, "/a/$text"},
		{"$text without a word", `{"a":{"$text":" ,.- "}}`, 400, "/a/$text"},
		{"too deep", strings.Repeat(`{"$not":`, 32) + `{"a":1}` + strings.Repeat("}", 32), 400, strings.Repeat("/$not", 32)},
		{"too deep in a place", `{"a":` + strings.Repeat(`{"$not":`, 32) + `{"$gt":1}` + strings.Repeat("}", 33), 400, "/a" + strings.Repeat("/$not", 32)},
		{"too many terms", `{"$or":[` + many(257, `{"a":1}`) + `]}`, 400, "/$or/256/a"},
		{"name twice", `{"a":1,"a":2}`, 422, "/a"},
		{"exponent", `{"a":1e401}`, 422, "/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseFilter([]byte(c.filter))
			var e *tiering.Error
			if !errors.As(err, &e) || e.Status() != c.status || e.Pointer != c.pointer || e.Detail == "" {
				t.Errorf("err = %v, want status %d at %q", err, c.status, c.pointer)
			}
		})
	}
}

func TestParseFilterAtItsBounds(t *testing.T) {
	for _, filter := range []string{
		strings.Repeat(`{"$not":`, 31) + `{"a":1}` + strings.Repeat("}", 31),
		`{"$or":[` + strings.Repeat(`{"a":1},`, 254) + `{"a":1}]}`,
	} {
		mustFilter(t, filter)
	}
}

func TestFilterTree(t *testing.T) {
	f := mustFilter(t, ` {"/a/b~1": {"$in": [1.0, "x\u0000"]}, "$or": [{"s":"v"}, {"$not":{"n":{"$gt":1,"$lt":5}}}]} `)
	var show func(*FilterTerm) string
	show = func(n *FilterTerm) string {
		var parts []string
		for _, child := range n.Terms {
			parts = append(parts, show(child))
		}
		if len(parts) > 0 {
			return fmt.Sprintf("%s(%s)", n.Op, strings.Join(parts, " "))
		}
		return fmt.Sprintf("%q%s%s", n.Path, n.Op, n.Value)
	}
	want := `$and(["a" "b/"]$in[1.0,"x\ufffd"] $or(["s"]$eq"v" $not($and(["n"]$gt1 ["n"]$lt5))))`
	if got := show(f.Root); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if want := `{"/a/b~1":{"$in":[1.0,"x\u0000"]},"$or":[{"s":"v"},{"$not":{"n":{"$gt":1,"$lt":5}}}]}`; f.String() != want {
		t.Errorf("String is %s, want %s", f, want)
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{
		`{"/user/age":{"$gte":18},"status":"open"}`, `{"$or":[{"a":1},{"b":{"$not":{"$exists":true}}}]}`,
		`{"a":{"$in":[1,"x",null]}}`, `{"":{"$text":"Ünï code"}}`, `{"a":{"$contains":{"b":[]}}}`, `{"$and":[{}]}`, `{"a":{"$ne":{}}}`, `null`, `{"$x":1}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":[1,{"b":"x \u0000"}],"status":"open","user":{"age":18.50}}`))
	}
	f.Fuzz(func(t *testing.T, filter, doc []byte) {
		parsed, err := ParseFilter(filter)
		if err != nil {
			var e *tiering.Error
			if !errors.As(err, &e) || e.Code != tiering.CodeInvalid {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		again, err := ParseFilter([]byte(parsed.String()))
		if err != nil || again.String() != parsed.String() {
			t.Fatalf("%s parses to %s: %v", parsed, again, err)
		}
		if len(doc) == 0 || parsed == nil {
			return
		}
		got, err := parsed.Match(doc) // whatever the bytes are, it ends
		if err != nil {
			t.Fatal(err)
		}
		not := &Filter{Root: &FilterTerm{Op: FilterNot, Terms: []*FilterTerm{parsed.Root}}}
		if opposite, err := not.Match(doc); err != nil || opposite == got {
			t.Fatalf("%s and its opposite agree on %s: %v", parsed, doc, err)
		}
	})
}

func BenchmarkMatch1KB(b *testing.B) {
	doc := []byte(`{"text":"` + strings.Repeat("lorem ipsum dolor sit amet ", 36) + `","user":{"age":18},"status":"open"}`)
	for name, filter := range map[string]string{
		"compare": `{"/user/age":{"$gte":18},"status":"open"}`,
		"text":    `{"text":{"$text":"dolor missing"}}`,
	} {
		f := mustFilter(b, filter)
		b.Run("filter="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Match(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
