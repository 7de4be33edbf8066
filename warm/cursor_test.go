package warm

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

func wantRefused(t *testing.T, err error, says string) {
	t.Helper()
	var e *tiering.Error
	if !errors.As(err, &e) || e.Status() != 400 || !strings.Contains(e.Detail, says) {
		t.Errorf("err = %v, want an invalid error that says %q", err, says)
	}
}

func TestCursorComesBack(t *testing.T) {
	values := rapid.OneOf(
		rapid.SampledFrom([]Value{{}, {Kind: NullValue}, {Kind: FalseValue}, {Kind: TrueValue}, {Kind: ArrayValue}, {Kind: ObjectValue}, {NumberValue, "-1.50e400"}}),
		rapid.Map(rapid.StringN(0, 60, MaxSortText), func(s string) Value { return Value{StringValue, s} }),
	)
	rapid.Check(t, func(t *rapid.T) {
		v, id := values.Draw(t, "value"), rapid.StringN(1, -1, tiering.MaxIDLength).Draw(t, "id")
		query := Query{Tenant: "t", Namespace: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "namespace")}.Hash()
		cursor := EncodeCursor(query, v, id)
		if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(cursor) || len(cursor) > maxCursor {
			t.Fatalf("cursor %q", cursor)
		}
		gotValue, gotID, err := DecodeCursor(query, cursor)
		if err != nil || gotValue != v || gotID != id {
			t.Fatalf("got %v, %q, %v, want %v, %q", gotValue, gotID, err, v, id)
		}
	})
}

func TestCursorOfALongIDAndNumberFits(t *testing.T) {
	v, id := Value{NumberValue, strings.Repeat("9", tiering.MaxNumberLength)}, strings.Repeat("x", tiering.MaxIDLength)
	query := Query{}.Hash()
	if got, gotID, err := DecodeCursor(query, EncodeCursor(query, v, id)); err != nil || got != v || gotID != id {
		t.Errorf("%v, %q, %v", got, gotID, err)
	}
}

func TestCursorIsRefusedWhenDamaged(t *testing.T) {
	query := Query{Tenant: "t"}.Hash()
	cursor := EncodeCursor(query, Value{StringValue, "some text"}, "some/id")
	for i := range len(cursor) {
		changed := []byte(cursor)
		changed[i] = 'A'
		if cursor[i] == 'A' {
			changed[i] = 'B'
		}
		_, _, err := DecodeCursor(query, string(changed))
		wantRefused(t, err, "damaged")
		if _, _, err := DecodeCursor(query, cursor[:i]); err == nil {
			t.Errorf("cut to %d characters: accepted", i)
		}
	}
	for _, other := range []string{"", "!", cursor + "A", cursor + "=", cursor + "\n", strings.Repeat("A", 1<<20)} {
		_, _, err := DecodeCursor(query, other)
		wantRefused(t, err, "damaged")
	}
}

func TestCursorIsRefusedByAnotherQuery(t *testing.T) {
	filter, err := ParseFilter([]byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	base := Query{Tenant: "t", Namespace: "ns", Prefix: "p", Prefixes: []string{"a", "b"}, User: "u", Filter: filter, OrderBy: "/a"}
	cursor := EncodeCursor(base.Hash(), Value{}, "id")
	for name, change := range map[string]func(*Query){
		"tenant":    func(q *Query) { q.Tenant = "other" },
		"namespace": func(q *Query) { q.Namespace = "other" },
		"prefix":    func(q *Query) { q.Prefix = "" },
		"scope":     func(q *Query) { q.Prefixes = []string{"a"} },
		"user":      func(q *Query) { q.User = "" },
		"filter":    func(q *Query) { q.Filter = nil },
		"order":     func(q *Query) { q.OrderBy = "" },
		"direction": func(q *Query) { q.Descending = true },
		// The same bytes in other fields.
		"shifted": func(q *Query) { q.Tenant, q.Namespace = "tn", "s" },
	} {
		t.Run(name, func(t *testing.T) {
			q := base
			change(&q)
			_, _, err := DecodeCursor(q.Hash(), cursor)
			wantRefused(t, err, "another query")
		})
	}
	same := base
	same.Limit, same.Cursor, same.Prefixes = 7, cursor, []string{"b", "a"}
	if _, _, err := DecodeCursor(same.Hash(), cursor); err != nil {
		t.Errorf("the same query on the next page: %v", err)
	}
}

func TestIDCursor(t *testing.T) {
	list := List{Tenant: "t", Namespace: "ns", Prefix: "p/"}
	cursor := EncodeIDCursor(list.Hash(), "p/é\"1")
	list.Limit, list.After = 5, "p/0"
	if id, err := DecodeIDCursor(list.Hash(), cursor); err != nil || id != "p/é\"1" {
		t.Errorf("%q, %v", id, err)
	}
	_, err := DecodeIDCursor(List{Tenant: "t", Namespace: "ns"}.Hash(), cursor)
	wantRefused(t, err, "another query")
	_, err = DecodeIDCursor(Query{Tenant: "t", Namespace: "ns", Prefix: "p/"}.Hash(), cursor)
	wantRefused(t, err, "another query")
	_, err = DecodeIDCursor(list.Hash(), EncodeCursor(list.Hash(), Value{Kind: NullValue}, "id"))
	wantRefused(t, err, "another query")
}

func FuzzCursor(f *testing.F) {
	query := Query{Tenant: "t"}.Hash()
	for _, v := range []Value{{}, {Kind: TrueValue}, {NumberValue, "1e4"}, {StringValue, "a\xff"}} {
		raw, err := base64.RawURLEncoding.DecodeString(EncodeCursor(query, v, "id"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[1+queryHashSize:len(raw)-4], "x")
	}
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		_, _, _ = DecodeCursor(query, text) // whatever it is, no panic
		// A right head and checksum lead behind the first checks.
		raw := append(append([]byte{cursorFormat}, query[:]...), body...)
		sum := checksum(raw)
		raw = append(raw, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
		v, id, err := DecodeCursor(query, base64.RawURLEncoding.EncodeToString(raw))
		if err != nil {
			if tiering.CodeOf(err) != tiering.CodeInvalid {
				t.Fatal(err)
			}
			return
		}
		again, againID, err := DecodeCursor(query, EncodeCursor(query, v, id))
		if err != nil || again != v || againID != id || v.Compare(again) != 0 {
			t.Fatalf("%v, %q comes back as %v, %q, %v", v, id, again, againID, err)
		}
	})
}
