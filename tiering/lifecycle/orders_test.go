package lifecycle_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

func TestOrderTakes(t *testing.T) {
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	id := warm.Selector{Tenant: "acme", Namespace: "notes", ID: "ann"}
	prefix := warm.Selector{Tenant: "acme", Namespace: "notes", Prefix: "ann/"}
	user := warm.Selector{Tenant: "acme", User: "ann"}
	record := func(ns, id, user string, pos int64) cold.Record {
		return cold.Record{Key: tiering.Key{Tenant: "acme", Namespace: ns, ID: id}, User: user, Pos: pos, At: now}
	}
	for _, c := range []struct {
		name     string
		selector warm.Selector
		epoch    string // of the record
		record   cold.Record
		want     bool
	}{
		{"the id", id, "b", record("notes", "ann", "", 10), true},
		{"the id in another namespace", id, "b", record("other", "ann", "", 10), false},
		{"a longer id", id, "b", record("notes", "ann/1", "", 10), false},
		{"an id under the prefix", prefix, "b", record("notes", "ann/1", "", 10), true},
		{"the prefix itself", prefix, "b", record("notes", "ann/", "", 10), true},
		{"an id shorter than the prefix", prefix, "b", record("notes", "ann", "", 10), false},
		{"an id that only looks like it", prefix, "b", record("notes", "anna/1", "", 10), false},
		{"the user", user, "b", record("other", "x", "ann", 10), true},
		{"another user", user, "b", record("other", "x", "anna", 10), false},
		{"no user", user, "b", record("other", "ann", "", 10), false},
		{"a reserved key", warm.Selector{Tenant: "acme", Namespace: "_keys", ID: "ann"}, "b", record("_keys", "ann", "", 10), false},
		{"younger than the order", id, "b", record("notes", "ann", "", 11), false},
		{"of an earlier life", id, "a", record("notes", "ann", "", 1000), true},
		{"of a later life", id, "c", record("notes", "ann", "", 1), false},
		{"of a life that nothing connects, older", id, "x", record("notes", "ann", "", 1000), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := lifecycle.NewOrder("01J", c.selector, "b", 10, now)
			if got := o.Takes(lifecycle.NewLineage("a", "b", "c"), c.epoch, c.record); got != c.want {
				t.Errorf("got %t", got)
			}
			back, err := lifecycle.DecodeOrder(o.Encode())
			if err != nil || back.Matches(c.record.Key, c.record.User) != o.Matches(c.record.Key, c.record.User) {
				t.Errorf("decoded it is %+v, %v", back, err)
			}
			other := c.record
			other.Key.Tenant = "globex"
			if o.Takes(lifecycle.NewLineage("a", "b", "c"), c.epoch, other) {
				t.Error("it takes another tenant's")
			}
		})
	}
}

// TestOrdersNameNobody: an order stays for ever, so it must not hold what it
// was given to erase.
func TestOrdersNameNobody(t *testing.T) {
	for _, s := range []warm.Selector{
		{Tenant: "acme", Namespace: "diaries", ID: "ann-smith"},
		{Tenant: "acme", Namespace: "diaries", Prefix: "ann-smith/"},
		{Tenant: "acme", User: "ann-smith"},
	} {
		a := lifecycle.NewOrder("01J", s, "e", 1, time.Now())
		if text := string(a.Encode()); strings.Contains(text, "ann") || strings.Contains(text, "diaries") {
			t.Errorf("the order says %s", text)
		}
		if b := lifecycle.NewOrder("01J", s, "e", 1, time.Now()); bytes.Equal(a.Subject, b.Subject) {
			t.Error("two orders for one subject can be told to be")
		}
	}
}

// TestTheFinalOrderCounts: of the two objects of an order the one that reaches
// further.
func TestTheFinalOrderCounts(t *testing.T) {
	b := &coldtest.Memory{}
	o := lifecycle.NewOrder("01J", warm.Selector{Tenant: "acme", User: "ann"}, "e", 5, time.Now())
	b.Replace(o.Name(), o.Encode())
	o.Pos = 9
	b.Replace(o.FinalName(), o.Encode())
	other := lifecycle.NewOrder("01K", warm.Selector{Tenant: "acme", User: "bob"}, "e", 7, time.Now())
	b.Replace(other.Name(), other.Encode())
	got, err := lifecycle.ReadOrders(t.Context(), b)
	if err != nil || len(got) != 2 || got[0].Pos != 9 || got[1].Pos != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	b.Replace(other.Name(), []byte(`{"format":2}`))
	if _, err := lifecycle.ReadOrders(t.Context(), b); tiering.CodeOf(err) != tiering.CodeUnsupported {
		t.Errorf("an order of the future: %v", err)
	}
}

func FuzzDecodeOrder(f *testing.F) {
	f.Add(lifecycle.NewOrder("01J", warm.Selector{Tenant: "acme", Namespace: "n", Prefix: "ab"}, "e", 5, time.Unix(0, 0)).Encode())
	f.Add([]byte(`{"format":1,"id":"x","tenant":"t","kind":"prefix","length":99999999,"salt":"AA==","subject":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := lifecycle.DecodeOrder(data)
		if err != nil {
			if c := tiering.CodeOf(err); c != tiering.CodeCorrupt && c != tiering.CodeUnsupported {
				t.Fatalf("got %v", err)
			}
			return
		}
		o.Matches(tiering.Key{Tenant: o.Tenant, Namespace: "n", ID: "abc"}, "u")
		if again, err := lifecycle.DecodeOrder(o.Encode()); err != nil || again.Pos != o.Pos || again.Kind != o.Kind {
			t.Fatalf("written again it is %+v, %v", again, err)
		}
	})
}

func FuzzDecodeMarker(f *testing.F) {
	f.Add(lifecycle.Marker{Format: 1, Epoch: "b", Parent: "a", Cuts: map[string]int64{"acme": 7}, Before: []lifecycle.Life{{Epoch: "z"}}}.Encode())
	f.Add([]byte(`{"format":1,"epoch":"a","parent":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := lifecycle.DecodeMarker(data)
		if err != nil {
			if c := tiering.CodeOf(err); c != tiering.CodeCorrupt && c != tiering.CodeUnsupported {
				t.Fatalf("got %v", err)
			}
			return
		}
		if again, err := lifecycle.DecodeMarker(m.Encode()); err != nil || again.Name() != m.Name() || len(again.Lives()) != len(m.Lives()) {
			t.Fatalf("written again it is %+v, %v", again, err)
		}
	})
}
