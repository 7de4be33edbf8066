package cold_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// drawRecords draws records of a few keys, so that versions meet in blocks.
func drawRecords(t *rapid.T) []cold.Record {
	times := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1<<35, 1<<35).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
	})
	one := rapid.Custom(func(t *rapid.T) cold.Record {
		r := cold.Record{
			Key: tiering.Key{
				Tenant:    "acme",
				Namespace: rapid.SampledFrom([]string{"a", "b", "_policy"}).Draw(t, "namespace"),
				ID:        rapid.SampledFrom([]string{"k", "k/1", "k-1", "ü"}).Draw(t, "id"),
			},
			Op:        rapid.SampledFrom([]tiering.Op{tiering.OpPut, tiering.OpPut, tiering.OpPut, tiering.OpDelete, tiering.OpExpire}).Draw(t, "op"),
			Version:   rapid.Int64Range(1, 40).Draw(t, "version"),
			Prev:      rapid.Int64Range(0, 40).Draw(t, "prev"),
			Pos:       rapid.Int64Min(0).Draw(t, "pos"),
			At:        times.Draw(t, "at"),
			CreatedAt: times.Draw(t, "created"),
			TTL:       time.Duration(rapid.Int64Min(0).Draw(t, "ttl")),
			User:      rapid.SampledFrom([]string{"", "ann", "日本"}).Draw(t, "user"),
			Pinned:    rapid.Bool().Draw(t, "pinned"),
			Query:     rapid.Bool().Draw(t, "query"),
		}
		if rapid.Bool().Draw(t, "expires") {
			r.ExpiresAt = times.Draw(t, "expires at")
		}
		if rapid.IntRange(0, 3).Draw(t, "revised") == 0 {
			r.Op = rapid.SampledFrom([]tiering.Op{tiering.OpTouch, tiering.OpPin, tiering.OpUnpin}).Draw(t, "op")
			r.Revision = rapid.Int64Range(1, 3).Draw(t, "revision")
		}
		if r.Op == tiering.OpPut {
			r.Body = bytes.Repeat([]byte(rapid.StringN(1, 20, -1).Draw(t, "text")), rapid.SampledFrom([]int{1, 10, 1000}).Draw(t, "times"))
			r.Digest = tiering.DigestOf(r.Body)
		}
		return r
	})
	recs := rapid.SliceOfN(one, 0, 60).Draw(t, "records")
	slices.SortStableFunc(recs, cold.Record.Compare)
	return slices.CompactFunc(recs, func(a, b cold.Record) bool { return a.Compare(b) == 0 })
}

// TestSegmentKeepsEverything: what goes in comes out, in order, whatever the
// order it came in and however it is cut into blocks; the index and the
// locations say the same as the records, and each version is read back alone.
func TestSegmentKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecords(t)
		o := &cold.EncodeOptions{
			BlockSize: rapid.SampledFrom([]int{0, 1, 8192, 32768}).Draw(t, "block size"),
			Level:     rapid.SampledFrom([]cold.Level{cold.LevelFastest, cold.LevelDefault, cold.LevelBetter}).Draw(t, "level"),
			Epoch:     "e1",
		}
		e, err := cold.Encode("acme", []tiering.Range{{From: 1, To: 9}}, rapid.Permutation(want).Draw(t, "order"), o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cold.OpenSegment(bytes.NewReader(e.Data), int64(len(e.Data)))
		if err != nil {
			t.Fatal(err)
		}
		var got []cold.Record
		for r, err := range s.Records() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("got\n%+v, want\n%+v", got, want)
		}
		checkSums(t, e, s, want)
		checkPlaces(t, e, s, want)
	})
}

func checkSums(t *rapid.T, e *cold.Encoded, s *cold.Segment, want []cold.Record) {
	var raw int64
	for _, r := range want {
		raw += int64(len(r.Body))
	}
	if e.Count != int64(len(want)) || s.Count() != e.Count || e.RawSize != raw || s.RawSize() != raw {
		t.Fatalf("count %d and %d, raw %d and %d, want %d and %d", e.Count, s.Count(), e.RawSize, s.RawSize(), len(want), raw)
	}
	if e.SHA256 != tiering.DigestOf(e.Data) || s.Epoch() != "e1" || s.MinTime() != e.MinTime || s.MaxTime() != e.MaxTime {
		t.Fatalf("the segment says other than the encoder")
	}
	i := 0
	for x := range s.Index() {
		r := want[i]
		if x.Key != r.Key || x.Version != r.Version || x.Revision != r.Revision || x.Op != r.Op ||
			x.At != r.At || x.Size != int64(len(r.Body)) || x.Digest != r.Digest {
			t.Fatalf("entry %d is %+v, want %+v", i, x, r)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("index has %d entries, want %d", i, len(want))
	}
}

func checkPlaces(t *rapid.T, e *cold.Encoded, s *cold.Segment, want []cold.Record) {
	locs := e.LocationsFor("seg/x")
	if fmt.Sprint(locs) != fmt.Sprint(s.Locations("seg/x")) {
		t.Fatalf("locations of the encoder\n%v, of the segment\n%v", locs, s.Locations("seg/x"))
	}
	m := &coldtest.Memory{}
	m.Replace("seg/x", e.Data)
	a := cold.NewArchive(m, &coldtest.Memory{}, nil)
	reader := a.CopyReader(tiering.Primary)
	byKey := map[tiering.Key]tiering.Location{}
	for _, l := range locs {
		byKey[l.Key] = l
	}
	held := map[tiering.Key]map[int64]cold.Record{}
	for _, r := range want {
		if held[r.Key] == nil {
			held[r.Key] = map[int64]cold.Record{}
		}
		if r.Op.Versioned() {
			held[r.Key][r.Version] = r
		}
	}
	if len(byKey) != len(held) {
		t.Fatalf("%d locations for %d keys", len(byKey), len(held))
	}
	for key, versions := range held {
		for v := int64(1); v <= 41; v++ {
			got, err := a.ReadFrom(t.Context(), tiering.Primary, byKey[key], v)
			if again, err2 := reader.Read(t.Context(), byKey[key], v); fmt.Sprintf("%+v %v", again, err2) != fmt.Sprintf("%+v %v", got, err) {
				t.Fatalf("%s version %d is %+v, %v to a reader of the copy", key, v, again, err2)
			}
			r, ok := versions[v]
			if ok && (err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", r)) {
				t.Fatalf("%s version %d is %+v: %v, want %+v", key, v, got, err, r)
			}
			if c := tiering.CodeOf(err); !ok && c != tiering.CodeNotFound && c != tiering.CodeInvalid {
				t.Fatalf("%s version %d, which is not there: %v", key, v, err)
			}
		}
	}
}

// TestLocations: a location covers versions, not revisions; a key that was
// only touched can be found for erasure, and not for reading.
func TestLocations(t *testing.T) {
	recs := []cold.Record{
		bare(tiering.OpTouch, "both", 3, 1), record("both", 4, `1`), bare(tiering.OpDelete, "both", 6, 0), bare(tiering.OpPin, "both", 6, 1),
		bare(tiering.OpTouch, "touched", 8, 1), bare(tiering.OpPin, "touched", 9, 2),
	}
	e, err := cold.Encode("acme", nil, recs, nil)
	if err != nil {
		t.Fatal(err)
	}
	locs := e.LocationsFor("seg/x")
	both, touched := locs[0], locs[1]
	if both.MinVersion != 4 || both.MaxVersion != 6 || both.MinTime != recs[1].At || both.MaxTime != recs[2].At || len(both.Blocks) != 1 || both.Blocks[0].FirstVersion != 4 {
		t.Errorf("both: %+v", both)
	}
	if touched.MinVersion != 0 || touched.MaxVersion != 0 || len(touched.Blocks) != 0 || touched.MinTime != recs[4].At || touched.MaxTime != recs[5].At {
		t.Errorf("touched: %+v", touched)
	}
	for v := int64(0); v < 12; v++ {
		if _, ok := touched.Block(v); ok {
			t.Errorf("touched claims version %d", v)
		}
	}
	if e.Locations[0].Segment != "" || both.Segment != "seg/x" {
		t.Errorf("names %q and %q", e.Locations[0].Segment, both.Segment)
	}
}

func TestEncodeRefuses(t *testing.T) {
	change := func(f func(*cold.Record)) []cold.Record {
		r := record("a", 2, `{"x":1}`)
		f(&r)
		return []cold.Record{record("a", 1, `1`), r}
	}
	for _, c := range []struct {
		name   string
		tenant string
		ranges []tiering.Range
		recs   []cold.Record
		code   tiering.Code
	}{
		{"no tenant", "", nil, nil, tiering.CodeInvalid},
		{"a record of another tenant", "umbrella", nil, change(func(*cold.Record) {}), tiering.CodeInvalid},
		{"a body that is not its digest's", "acme", nil, change(func(r *cold.Record) { r.Body = []byte(`{"x":2}`) }), tiering.CodeCorrupt},
		{"a put without its body", "acme", nil, change(func(r *cold.Record) { r.Body = nil }), tiering.CodeCorrupt},
		{"a delete with a body", "acme", nil, change(func(r *cold.Record) { r.Op = tiering.OpDelete }), tiering.CodeInvalid},
		{"an unknown op", "acme", nil, change(func(r *cold.Record) { r.Op = 7 }), tiering.CodeInvalid},
		{"version 0", "acme", nil, change(func(r *cold.Record) { r.Version = 0 }), tiering.CodeInvalid},
		{"a negative revision", "acme", nil, change(func(r *cold.Record) { r.Revision = -1 }), tiering.CodeInvalid},
		{"no id", "acme", nil, change(func(r *cold.Record) { r.Key.ID = "" }), tiering.CodeInvalid},
		{"an id that is too long", "acme", nil, change(func(r *cold.Record) { r.Key.ID = strings.Repeat("x", 1025) }), tiering.CodeInvalid},
		{"one version twice", "acme", nil, change(func(r *cold.Record) { r.Version = 1 }), tiering.CodeInvalid},
		{"a range that ends before it starts", "acme", []tiering.Range{{From: 2, To: 1}}, nil, tiering.CodeInvalid},
		{"a negative range", "acme", []tiering.Range{{From: -1, To: 1}}, nil, tiering.CodeInvalid},
		{"a body over the limit", "acme", nil, change(func(r *cold.Record) {
			r.Body = make([]byte, cold.MaxBody+1)
			r.Digest = tiering.DigestOf(r.Body)
		}), tiering.CodeTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := cold.Encode(c.tenant, c.ranges, c.recs, nil); tiering.CodeOf(err) != c.code {
				t.Errorf("%v, want code %s", err, c.code)
			}
		})
	}
}

func TestEncodeJoinsRanges(t *testing.T) {
	for _, c := range []struct{ in, want []tiering.Range }{
		{nil, nil},
		{[]tiering.Range{{From: 5, To: 9}, {From: 1, To: 2}}, []tiering.Range{{From: 1, To: 2}, {From: 5, To: 9}}},
		{[]tiering.Range{{From: 3, To: 4}, {From: 1, To: 2}}, []tiering.Range{{From: 1, To: 4}}},
		{[]tiering.Range{{From: 1, To: 9}, {From: 2, To: 3}, {From: 9, To: 12}}, []tiering.Range{{From: 1, To: 12}}},
		{[]tiering.Range{{From: 0, To: 1<<63 - 1}, {From: 7, To: 1<<63 - 1}}, []tiering.Range{{From: 0, To: 1<<63 - 1}}},
	} {
		e, err := cold.Encode("acme", c.in, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cold.OpenSegment(bytes.NewReader(e.Data), int64(len(e.Data)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Ranges(), c.want) || !slices.Equal(e.Ranges, c.want) {
			t.Errorf("%v became %v, want %v", c.in, s.Ranges(), c.want)
		}
	}
}

// TestEncodeLargestBody: the limit itself is kept and comes back.
func TestEncodeLargestBody(t *testing.T) {
	r := record("big", 1, strings.Repeat("x", cold.MaxBody))
	e, err := cold.Encode("acme", nil, []cold.Record{record("a", 1, `1`), r, record("c", 1, `1`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cold.OpenSegment(bytes.NewReader(e.Data), int64(len(e.Data)))
	if err != nil {
		t.Fatal(err)
	}
	equalRecords(t, collect(t, s)[1:2], []cold.Record{r})
}

// TestDecodeBlockStops: a loop that breaks ends the decoding.
func TestDecodeBlockStops(t *testing.T) {
	recs := []cold.Record{record("a", 1, `1`), record("a", 2, `2`), record("b", 1, `3`)}
	e, err := cold.Encode("acme", nil, recs, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := e.Locations[0].Blocks[0]
	block := e.Data[at.Offset : at.Offset+at.Length]
	var got []cold.Record
	for r, err := range cold.DecodeBlock("acme", block) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, r); len(got) == 2 {
			break
		}
	}
	equalRecords(t, got, recs[:2])
	for _, err := range cold.DecodeBlock("umbrella", block) {
		if !errors.Is(err, tiering.ErrCorrupt) {
			t.Errorf("another tenant's block: %v, want corrupt", err)
		}
	}
}
