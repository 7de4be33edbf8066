package sqlite

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

// TestBlocksComeBack: what is encoded is what is decoded, and no end of it can be
// lost without an error.
func TestBlocksComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := rapid.Custom(func(t *rapid.T) tiering.BlockRef {
			n := rapid.Int64Min(0)
			return tiering.BlockRef{FirstVersion: n.Draw(t, "version"), Offset: n.Draw(t, "offset"), Length: n.Draw(t, "length")}
		})
		want := rapid.SliceOfN(ref, 0, 5).Draw(t, "blocks")
		b := encodeBlocks(want)
		got, err := decodeBlocks(b)
		if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%v became %v, %v", want, got, err)
		}
		if _, err := decodeBlocks(`[{"v":1`); !errors.Is(err, tiering.ErrCorrupt) {
			t.Fatalf("half of JSON: %v", err)
		}
		for n := range b {
			if _, err := decodeBlocks(b[:n]); !errors.Is(err, tiering.ErrCorrupt) {
				t.Fatalf("%d bytes of %d: %v", n, len(b), err)
			}
		}
	})
}

// TestBlocksOfOlderRows: JSON in a row of an earlier schema is read, beside rows of
// this one.
func TestBlocksOfOlderRows(t *testing.T) {
	s := fresh(t)
	key := tiering.Key{Tenant: "acme", Namespace: "docs", ID: "k"}
	want := map[string][]tiering.BlockRef{
		"seg/1": {{FirstVersion: 1, Offset: 30, Length: 400}, {FirstVersion: 5, Offset: 430, Length: 70}},
		"seg/2": {{FirstVersion: 7, Offset: 40, Length: 900}},
	}
	for name, blocks := range want {
		info := tiering.SegmentInfo{Name: name, Tenant: "acme", Token: 1}
		if err := s.StartSegment(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		l := tiering.Location{Key: key, Segment: name, MinVersion: blocks[0].FirstVersion, MaxVersion: 9, Blocks: blocks}
		if err := s.FinishSegment(t.Context(), info, []tiering.Location{l}, "", 0); err != nil {
			t.Fatal(err)
		}
	}
	err := s.write(t.Context(), func(x *txn) error {
		_, err := x.exec(`UPDATE location SET blocks = '[{"v":1,"o":30,"n":400},{"v":5,"o":430,"n":70}]' WHERE segment = 'seg/1'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	locs, err := s.Locations(t.Context(), key)
	if err != nil || len(locs) != 2 {
		t.Fatalf("%v, %v", locs, err)
	}
	for _, l := range locs {
		if !reflect.DeepEqual(l.Blocks, want[l.Segment]) {
			t.Errorf("%s has %v, want %v", l.Segment, l.Blocks, want[l.Segment])
		}
	}
}
