package hottest

import (
	"bytes"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// testValues proves that entries come back as they went in, under the key they
// went in with.
func testValues(t *testing.T, h Harness) {
	at := time.Date(2030, 2, 3, 4, 5, 6, 7000, time.UTC)
	full := tiering.Meta{
		Namespace: "docs", ID: "a/b", Version: 1<<62 + 1, Revision: 12, Digest: tiering.DigestOf([]byte("x")), Size: 1,
		CreatedAt: at, UpdatedAt: at.Add(time.Microsecond), ExpiresAt: at.Add(time.Hour),
		User: "üser", Pinned: true, TTL: 90 * time.Minute,
	}
	bodies := map[string][]byte{
		"json":           []byte(`{"b":1.10,"a":"\u0000"}`),
		"every byte":     everyByte(),
		"a single digit": []byte("0"),
		"a megabyte":     bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
	}
	store := func(how string, s hot.Store, key tiering.Key, e hot.Entry) (bool, error) {
		if how == "set" {
			return s.Set(t.Context(), hot.Set{Key: key, Entry: e, TTL: long})
		}
		l, err := s.Get(t.Context(), key, true)
		if err != nil {
			return false, err
		}
		return s.Fill(t.Context(), key, l.Lease, e, long)
	}
	s := h.open(t, Options{}).Store
	for name, body := range bodies {
		for _, how := range []string{"set", "fill"} {
			t.Run(name+" by "+how, func(t *testing.T) {
				key := tiering.Key{Tenant: name + how, Namespace: "docs", ID: "a/b"}
				stored, err := store(how, s, key, hot.Entry{Meta: full, Body: body})
				if err != nil || !stored {
					t.Fatalf("stored %v, %v", stored, err)
				}
				l, err := s.Get(t.Context(), key, false)
				if err != nil || l.State != hot.Present {
					t.Fatalf("%s, %v", stateName(l.State), err)
				}
				if l.Entry.Meta != full {
					t.Errorf("meta came back as\n%+v, want\n%+v", l.Entry.Meta, full)
				}
				if !bytes.Equal(l.Entry.Body, body) {
					t.Error("the body came back changed")
				}
			})
		}
	}
	t.Run("keys are apart bytewise", func(t *testing.T) {
		keys := []tiering.Key{
			{Tenant: "a", Namespace: "b", ID: "c"}, {Tenant: "ab", Namespace: "c", ID: "d"}, {Tenant: "a", Namespace: "bc", ID: "d"},
			{Tenant: "a", Namespace: "b", ID: "cd"}, {Tenant: "a", Namespace: "b", ID: "C"}, {Tenant: "b", Namespace: "b", ID: "c"},
			{Tenant: "a", Namespace: "b", ID: "c/d"}, {Tenant: "a", Namespace: "b/c", ID: "d"}, {Tenant: "a", Namespace: "b", ID: "c:d"},
			{Tenant: "a", Namespace: "b:c", ID: "d"}, {Tenant: "a", Namespace: "b", ID: "{c}"}, {Tenant: "a", Namespace: "b", ID: "é"},
			{Tenant: "a", Namespace: "b", ID: "e\u0301"}, {Tenant: "a", Namespace: "b", ID: "c*"}, {Tenant: "a", Namespace: "b", ID: "c "},
		}
		for i, k := range keys {
			if stored, err := s.Set(t.Context(), hot.Set{Key: k, Entry: entry(k, int64(i+1), 0), TTL: long}); err != nil || !stored {
				t.Fatalf("%q: stored %v, %v", k, stored, err)
			}
		}
		for i, k := range keys {
			l, err := s.Get(t.Context(), k, false)
			if err != nil || l.State != hot.Present || l.Entry.Meta != entry(k, int64(i+1), 0).Meta {
				t.Errorf("%q: %s, %v", k, describe(l), err)
			}
		}
	})
}

func everyByte() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
