package server

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

func TestReceiptsAreWhatEncodingJSONWrites(t *testing.T) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 789_000, time.UTC)
	meta := tiering.Meta{Namespace: "runs", ID: "run/7", Version: 3, Digest: tiering.DigestOf([]byte("1")), Size: 1, CreatedAt: at, UpdatedAt: at.Add(time.Hour)}
	with := func(change func(*tiering.Receipt)) tiering.Receipt {
		rec := tiering.Receipt{Meta: meta}
		change(&rec)
		return rec
	}
	for name, rec := range map[string]tiering.Receipt{
		"of a put":           {Meta: meta, Hot: true},
		"of nothing":         {},
		"of a creation":      with(func(r *tiering.Receipt) { r.Created = true }),
		"everything":         {Meta: meta, Hot: true, Created: true, Replayed: true, Warnings: []string{"size", "another"}},
		"expires, is pinned": with(func(r *tiering.Receipt) { r.ExpiresAt, r.Pinned, r.User = at, true, "ada" }),
		"another zone":       with(func(r *tiering.Receipt) { r.UpdatedAt = at.In(time.FixedZone("", 3600)) }),
		"odd texts":          with(func(r *tiering.Receipt) { r.ID, r.User = "a\"b\\c\x01<&>\u2028é😀", "not UTF-8: \xff" }),
	} {
		t.Run(name, func(t *testing.T) {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(rec); err != nil {
				t.Fatal(err)
			}
			got := appendReceipt(nil, &rec)
			// Texts may be escaped in another way; what they say is the same.
			if name == "odd texts" {
				var a, b any
				if err := json.Unmarshal(got, &a); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(want.Bytes(), &b); err != nil {
					t.Fatal(err)
				}
				got, _ = json.Marshal(a)
				want.Reset()
				json.NewEncoder(&want).Encode(b)
			}
			if string(got) != string(bytes.TrimSpace(want.Bytes())) {
				t.Errorf("got  %s\nwant %s", got, want.Bytes())
			}
		})
	}
}
