package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// exactly compares got with what encoding/json writes of v.
func exactly(t *testing.T, v any, got []byte) {
	t.Helper()
	if want := encoded(t, v); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out.Bytes()))
}

func TestAnswersAreWhatEncodingJSONWrites(t *testing.T) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 789_000, time.UTC)
	plain := tiering.Meta{Namespace: "runs", ID: "run/7", Version: 3, Digest: tiering.DigestOf([]byte("1")), Size: 1, CreatedAt: at, UpdatedAt: at.Add(time.Hour)}
	full := plain
	full.ExpiresAt, full.Pinned, full.User, full.Revision, full.TTL = at, true, "ada", 2, time.Hour
	zoned := plain
	zoned.UpdatedAt = at.In(time.FixedZone("", 3600))
	for name, m := range map[string]tiering.Meta{"plain": plain, "full": full, "zero": {}, "another zone": zoned} {
		t.Run(name, func(t *testing.T) {
			for _, rec := range []tiering.Receipt{{Meta: m}, {Meta: m, Hot: true}, {Meta: m, Created: true}, {Meta: m, Replayed: true, Warnings: []string{"size"}}, {Meta: m, Warnings: []string{"size", "b"}}} {
				exactly(t, rec, appendReceipt(nil, &rec))
			}
			for _, p := range []tiering.Page{
				{Items: []tiering.Item{}},
				{Items: []tiering.Item{{Meta: m}}, NextCursor: "abc"},
				{Items: []tiering.Item{{Meta: m, Body: []byte(`{"a":"<>"}`)}, {Meta: m, Cold: true}}},
			} {
				exactly(t, p, appendPage(nil, &p))
			}
		})
	}
}

// Texts may be escaped in another way than by encoding/json; what they say is the same.
func TestOddTextsInAnswersSayTheSame(t *testing.T) {
	for _, odd := range []string{"a\"b\\c", "\x01\t\n", "<&>", "\u2028\u2029", "é😀", "not UTF-8: \xff"} {
		rec := tiering.Receipt{Meta: tiering.Meta{ID: odd, User: odd}, Warnings: []string{odd}}
		var got, want any
		if err := json.Unmarshal(appendReceipt(nil, &rec), &got); err != nil {
			t.Errorf("%q: %v", odd, err)
		}
		if err := json.Unmarshal([]byte(encoded(t, rec)), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", odd, got, want)
		}
	}
}

// An empty page is [], never null.
func TestAPageOfNothingIsAList(t *testing.T) {
	if got := string(appendPage(nil, &tiering.Page{})); got != `{"items":[]}` {
		t.Error(got)
	}
}
