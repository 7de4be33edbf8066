package cold

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// readShapes are what cold reads are measured on.
var readShapes = []struct {
	name                  string
	sessions, turns, size int
}{
	{"size=1KB/turns=1", 2000, 1, 1 << 10},
	{"size=12KB/turns=1", 300, 1, 12 << 10},
	{"size=20KB/turns=20", 16, 20, 20 << 10},
	{"size=64KB/turns=20", 6, 20, 64 << 10},
}

// BenchmarkColdRead reads records that were not read before, and files that
// hold the same bodies with their digests, in turn, from a page cache that has
// both:
//
//	go test -run '^$' -bench ColdRead -benchtime 4000x ./cold
//
// times-file is the median of the one over that of the other, packed how many
// times smaller the segment is than the bodies.
func BenchmarkColdRead(b *testing.B) {
	for _, shape := range readShapes {
		recs := chatRecords(shape.sessions, shape.turns, shape.size)
		for _, size := range blockSizes {
			b.Run(fmt.Sprintf("%s/block=%dK", shape.name, size>>10), func(b *testing.B) { coldRead(b, recs, size) })
		}
	}
}

func coldRead(b *testing.B, recs []Record, blockSize int) {
	e, err := Encode("acme", nil, recs, &EncodeOptions{BlockSize: blockSize})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s"), e.Data, 0o600); err != nil {
		b.Fatal(err)
	}
	for i, r := range recs {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), r.Body, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	where := map[tiering.Key]tiering.Location{}
	for _, l := range e.LocationsFor("s") {
		where[l.Key] = l
	}
	a := NewArchive(fileBucket{dir: dir}, nil, nil)
	var ours, file []time.Duration
	for i := 0; b.Loop(); i++ {
		k := i * 37 % len(recs)
		r := recs[k]
		began := time.Now()
		got, err := a.ReadFrom(context.Background(), tiering.Primary, where[r.Key], r.Version)
		ours = append(ours, time.Since(began))
		if err != nil || len(got.Body) != len(r.Body) {
			b.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprint(k))
		began = time.Now()
		whole, err := os.ReadFile(name)
		same := tiering.DigestOf(whole) == r.Digest
		file = append(file, time.Since(began))
		if err != nil || !same {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(median(ours))/float64(median(file)), "times-file")
	b.ReportMetric(float64(median(ours).Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(e.RawSize)/float64(len(e.Data)), "packed")
	b.ReportMetric(0, "ns/op")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
