package cold

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tierd/tierd/tiering"
)

// The benchmarks behind DefaultBlockSize and LevelFastest:
//
//	go test -run '^$' -bench . ./cold
//
// ratio is the bytes of the bodies over those of the whole segment.

var blockSizes = []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}

var levelNames = map[Level]string{LevelFastest: "fastest", LevelDefault: "default"}

// workload is 16 interleaved sessions of 20 turns that grow to 20 KB: 3.4 MB.
func workload() []Record { return chatRecords(16, 20, 20<<10) }

func BenchmarkEncode(b *testing.B) {
	recs := workload()
	for _, level := range []Level{LevelFastest, LevelDefault} {
		for _, size := range blockSizes {
			b.Run(fmt.Sprintf("level=%s/block=%dK", levelNames[level], size>>10), func(b *testing.B) {
				var e *Encoded
				for b.Loop() {
					var err error
					if e, err = Encode("acme", nil, recs, &EncodeOptions{BlockSize: size, Level: level}); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(e.RawSize)
				b.ReportMetric(float64(e.RawSize)/float64(len(e.Data)), "ratio")
			})
		}
	}
}

// BenchmarkShapes shows what a segment makes of other documents than those
// that DefaultBlockSize was chosen by.
func BenchmarkShapes(b *testing.B) {
	for _, shape := range []struct {
		name                  string
		sessions, turns, size int
	}{
		{"size=5KB/turns=20", 64, 20, 5 << 10},
		{"size=64KB/turns=20", 6, 20, 64 << 10},
		{"size=64KB/turns=100", 2, 100, 64 << 10},
		{"size=2KB/turns=5", 500, 5, 2 << 10},
		{"size=4KB/turns=1", 1000, 1, 4 << 10},
		{"size=400B/turns=1", 8000, 1, 400},
	} {
		recs := chatRecords(shape.sessions, shape.turns, shape.size)
		for _, size := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/block=%dK", shape.name, size>>10), func(b *testing.B) {
				var e *Encoded
				for b.Loop() {
					var err error
					if e, err = Encode("acme", nil, recs, &EncodeOptions{BlockSize: size}); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(e.RawSize)
				b.ReportMetric(float64(e.RawSize)/float64(len(e.Data)), "ratio")
			})
		}
	}
}

// BenchmarkAlone packs every document by itself: what likeness is measured
// against.
func BenchmarkAlone(b *testing.B) {
	recs := workload()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		raw, packed := 0, 0
		for _, r := range recs {
			raw += len(r.Body)
			packed += len(z.EncodeAll(r.Body, nil))
		}
		b.ReportMetric(float64(raw)/float64(packed), "ratio")
	}
}

// BenchmarkReadRecord reads records at every place of a segment, a file with a
// warm page cache, and the same bodies as files of their own for comparison.
func BenchmarkReadRecord(b *testing.B) {
	recs := workload()
	for _, level := range []Level{LevelFastest, LevelDefault} {
		for _, size := range blockSizes {
			b.Run(fmt.Sprintf("from=segment/level=%s/block=%dK", levelNames[level], size>>10), func(b *testing.B) {
				e, err := Encode("acme", nil, recs, &EncodeOptions{BlockSize: size, Level: level})
				if err != nil {
					b.Fatal(err)
				}
				dir := b.TempDir()
				a := NewArchive(fileBucket{dir: dir}, nil, nil)
				if err := os.WriteFile(filepath.Join(dir, "s"), e.Data, 0o600); err != nil {
					b.Fatal(err)
				}
				where := map[tiering.Key]tiering.Location{}
				for _, l := range e.LocationsFor("s") {
					where[l.Key] = l
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					r := recs[i*37%len(recs)]
					got, err := a.ReadFrom(context.Background(), tiering.Primary, where[r.Key], r.Version)
					if err != nil || len(got.Body) != len(r.Body) {
						b.Fatal(err)
					}
				}
			})
		}
	}
	b.Run("from=file", func(b *testing.B) {
		dir := b.TempDir()
		for i, r := range recs {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), r.Body, 0o600); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			k := i * 37 % len(recs)
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(k)))
			if err != nil || tiering.DigestOf(got) != recs[k].Digest {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOpenSegment(b *testing.B) {
	e, err := Encode("acme", nil, workload(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(e.RawSize)
	for b.Loop() {
		s, err := openBytes(e.Data)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range s.Records() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func openBytes(b []byte) (*Segment, error) { return OpenSegment(bytes.NewReader(b), int64(len(b))) }

// fileBucket is the least that a ranged read of a file costs: the driver in
// cold/dir cannot be imported from here.
type fileBucket struct {
	Bucket // nil: Read is all that is called
	dir    string
}

func (f fileBucket) Read(_ context.Context, name string, offset, length int64) ([]byte, error) {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := make([]byte, length)
	_, err = file.ReadAt(b, offset)
	return b, err
}
