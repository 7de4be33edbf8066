package cold_test

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

var update = flag.Bool("update", false, "write testdata anew; only of the latest format version, while it has never been released")

// record makes a put of acme's docs/id.
func record(id string, version int64, body string) cold.Record {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_012_345, time.UTC).Add(time.Duration(version%60) * time.Minute)
	return cold.Record{
		Key: tiering.Key{Tenant: "acme", Namespace: "docs", ID: id}, Op: tiering.OpPut,
		Version: version, Prev: version - 1, Pos: 100 + version, At: at, CreatedAt: at.Add(-time.Hour),
		Digest: tiering.DigestOf([]byte(body)), Body: []byte(body),
	}
}

// bare makes a record without bytes.
func bare(op tiering.Op, id string, version, revision int64) cold.Record {
	r := record(id, version, "")
	r.Op, r.Revision, r.Body, r.Digest = op, revision, nil, tiering.Digest{}
	return r
}

// goldenRecords uses every field and every op, and values at their edges.
func goldenRecords() []cold.Record {
	full := record("a/b", 1, `{"n":9007199254740993,"s":"a\u0000b","x":1.10}`)
	full.User, full.Query, full.Pinned = "ann@example.com", true, true
	full.ExpiresAt, full.TTL = full.At.Add(30*time.Minute), 30*time.Minute

	far := record("far", 1<<62, `"`+strings.Repeat("long ", 2000)+`"`)
	far.Prev, far.Pos = 1<<62-1<<32, 1<<62
	far.ExpiresAt = time.Date(2500, 1, 1, 0, 0, 0, 1, time.UTC) // more nanoseconds than an int64 holds

	policy := record("docs", 3, `{"kind":"state"}`)
	policy.Key.Namespace = tiering.PolicyNamespace
	return []cold.Record{
		policy,
		full,
		bare(tiering.OpTouch, "a/b", 1, 1),
		bare(tiering.OpPin, "a/b", 1, 2),
		bare(tiering.OpUnpin, "a/b", 1, 3),
		record("a/b", 2, `[]`),
		bare(tiering.OpDelete, "a/b", 3, 0),
		bare(tiering.OpExpire, "expired", 7, 0),
		far,
		bare(tiering.OpTouch, "touched", 5, 9),
		record("日本", 1, `null`),
	}
}

var goldenRanges = []tiering.Range{{From: 0, To: 0}, {From: 101, To: 107}, {From: 1 << 62, To: 1 << 62}}

// TestGolden: a segment of every version of the format stays readable, with
// exactly what was put in.
func TestGolden(t *testing.T) {
	t.Run("1", func(t *testing.T) { golden(t, "testdata/v1.tseg", goldenRecords(), false) })
	t.Run("2", func(t *testing.T) { golden(t, "testdata/v2.tseg", goldenVersions(), true) })
}

// goldenVersions adds versions that are stored as differences.
func goldenVersions() []cold.Record {
	recs := goldenRecords()
	far := recs[8]
	last := recs[9:]
	recs = recs[:9:9]
	for i, body := range []string{
		strings.Replace(string(far.Body), "long ", "longer ", 1),
		`"` + strings.Repeat("long ", 1000) + `in the middle` + strings.Repeat("long ", 1000) + `"`,
	} {
		r := far
		r.Version, r.Body, r.Digest = far.Version+int64(i)+1, []byte(body), tiering.DigestOf([]byte(body))
		recs = append(recs, r)
	}
	return append(recs, last...)
}

func golden(t *testing.T, file string, want []cold.Record, current bool) {
	if *update && current {
		e, err := cold.Encode("acme", goldenRanges, want, &cold.EncodeOptions{Epoch: "01JDQ4A0G3ZKQ5V7X1M2N3P4R5", BlockSize: 4096})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, e.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if s.Tenant() != "acme" || s.Epoch() != "01JDQ4A0G3ZKQ5V7X1M2N3P4R5" || !slices.Equal(s.Ranges(), goldenRanges) {
		t.Errorf("tenant %q, epoch %q, ranges %v", s.Tenant(), s.Epoch(), s.Ranges())
	}
	equalRecords(t, collect(t, s), want)
	var times []time.Time
	for _, r := range want {
		times = append(times, r.At)
	}
	if s.Count() != int64(len(want)) || s.MinTime() != slices.MinFunc(times, time.Time.Compare) || s.MaxTime() != slices.MaxFunc(times, time.Time.Compare) {
		t.Errorf("count %d, from %s to %s", s.Count(), s.MinTime(), s.MaxTime())
	}
}

func collect(t testing.TB, s *cold.Segment) []cold.Record {
	t.Helper()
	var out []cold.Record
	for r, err := range s.Records() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func equalRecords(t testing.TB, got, want []cold.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("record %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}
