package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tierd/tierd/warm"
)

// TestTheServerLeavesNoMatchOut: whatever the server narrows a query to, what
// comes back is what the filter matches.
func TestTheServerLeavesNoMatchOut(t *testing.T) {
	s, _ := fresh(t)
	docs := []string{
		`1`, `{"s":"open"}`, `{"s":"Open"}`, `{"s":"\u0000"}`, `{"s":"é"}`, `{"s":"e\u0301"}`, `{"s":null}`, `{"s":true}`, `{"s":"true"}`, `{"s":["open"]}`,
		`{"a":["x","y"]}`, `{"a":{"0":"x","-1":"y"}}`, `{"a":{"b":{"c":"deep"}}}`, `{"":"empty"}`, `{"\u0000":"nul"}`, `{"a/b":"slash","a~b":"tilde"}`, `["x",false]`, `{"s":""}`,
	}
	for i, doc := range docs {
		mustPut(t, s, fmt.Sprintf("d%02d", i), doc)
	}
	docs = append(docs, `1`) // first
	for _, text := range []string{
		`{"s":"open"}`, `{"s":"\u0000"}`, `{"s":"é"}`, `{"s":null}`, `{"s":true}`, `{"s":""}`, `{"/a/0":"x"}`, `{"/a/1":"y"}`, `{"/a/-1":"y"}`, `{"/a/01":"y"}`, `{"/a/b/c":"deep"}`,
		`{"/":"empty"}`, `{"\u0000":"nul"}`, `{"/a~1b":"slash"}`, `{"/a~1b":"slash","/a~0b":"tilde"}`, `{"/0":"x","/1":false}`, `{"$or":[{"s":"open"},{"s":"Open"}]}`,
		`{"$not":{"s":"open"}}`, `{"s":{"$ne":"open"}}`, `{"s":{"$eq":["open"]}}`, `{"":1}`,
	} {
		filter, err := warm.ParseFilter([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, doc := range docs {
			ok, err := filter.Match([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			if ok && i < len(docs)-1 {
				want = append(want, fmt.Sprintf("d%02d", i))
			} else if ok {
				want = append(want, "first")
			}
		}
		items, _, err := s.Query(t.Context(), warm.Query{Tenant: "acme", Namespace: "notes", Filter: filter, Limit: 100})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var got []string
		for _, cur := range items {
			got = append(got, cur.Head.Key.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s finds %s, want %s", text, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
}
