package column

import (
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// TestWhatIsCutIsNoEntry: what was written comes back, and no part of it does.
func TestWhatIsCutIsNoEntry(t *testing.T) {
	var e Encoder
	at := time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC)
	e.Key(tiering.Key{Tenant: "acme", Namespace: "mind", ID: "k"})
	e.Time(at)
	e.Time(time.Time{})
	e.Digest(tiering.DigestOf([]byte("x")))
	e.Bytes(nil)
	e.Terms([]tiering.MemoryTerm{{Text: "漢字", Freq: 300}})
	e.Links([]tiering.Link{{Relation: "r", To: "t"}})
	read := func(b []byte) error {
		d := Decoder{B: b}
		k, t1, t2, digest, none, terms, links := d.Key(), d.Time(), d.Time(), d.Digest(), d.Bytes(), d.Terms(), d.Links()
		if err := d.End(); err != nil {
			return err
		}
		if k.ID != "k" || !t1.Equal(at) || !t2.IsZero() || digest != tiering.DigestOf([]byte("x")) || none != nil || len(terms) != 1 || terms[0].Freq != 300 || links[0].To != "t" {
			t.Errorf("%v %v %v %v %v %v %v came back", k, t1, t2, digest, none, terms, links)
		}
		return nil
	}
	if err := read(e.B); err != nil {
		t.Error(err)
	}
	for cut := range e.B {
		if err := read(e.B[:cut]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut to %d of %d bytes: %v", cut, len(e.B), err)
		}
	}
	if err := read(append(e.B, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a byte more: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	for _, p := range []Place{{}, {3, 4}, {1 << 40, 1}} {
		if back, err := ParsePlace(p.String()); err != nil || back != p {
			t.Errorf("%v came back as %v, %v", p, back, err)
		}
	}
	if p, err := ParsePlace(""); err != nil || p != (Place{}) {
		t.Error(p, err)
	}
	for _, cursor := range []string{"3", "x.1", "1.x", "."} {
		if _, err := ParsePlace(cursor); !errors.Is(err, tiering.ErrInvalid) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}
