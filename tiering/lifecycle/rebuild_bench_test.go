package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm/sqlite"
)

// chatArchive writes segments of sessions that grow turn by turn to about size
// bytes, interleaved, and returns how many versions there are.
func chatArchive(b *testing.B, bucket cold.Bucket, sessions, turns, size int) (versions int) {
	rnd := rand.New(rand.NewPCG(3, 5))
	words := make([]string, 3000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", rnd.Uint64())[:2+rnd.IntN(7)]
	}
	zipf := rand.NewZipf(rnd, 1.15, 4, uint64(len(words)-1))
	type message struct {
		ID      string `json:"id"`
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	archive := cold.NewArchive(bucket, bucket, nil)
	at := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	talks := make([][]message, sessions)
	var records []cold.Record
	var bytes, from int64 = 0, 1
	write := func() {
		to := records[len(records)-1].Pos
		e, err := cold.Encode(siteTenant, []tiering.Range{{From: from, To: to}}, records, &cold.EncodeOptions{Epoch: "01BENCH"})
		if err != nil {
			b.Fatal(err)
		}
		if err := archive.Write(b.Context(), tiering.Primary, archive.Name(at, 1), e.Data); err != nil {
			b.Fatal(err)
		}
		records, bytes, from = nil, 0, to+1
	}
	for turn := range turns {
		for s := range sessions {
			var text strings.Builder
			for text.Len() < size/turns-60 {
				text.WriteString(words[zipf.Uint64()] + " ")
			}
			talks[s] = append(talks[s], message{fmt.Sprintf("%016x", rnd.Uint64()), "user", text.String()})
			body, err := json.Marshal(map[string]any{"user": s, "messages": talks[s]})
			if err != nil {
				b.Fatal(err)
			}
			at = at.Add(time.Millisecond)
			versions++
			records = append(records, cold.Record{
				Key: note(fmt.Sprintf("session-%05d", s)), Op: tiering.OpPut, Version: int64(turn + 1), Prev: int64(turn), Pos: int64(versions),
				At: at, CreatedAt: at, Query: true, Digest: tiering.DigestOf(body), Body: body,
			})
			if bytes += int64(len(body)); bytes >= 8<<20 {
				write()
			}
		}
	}
	if len(records) > 0 {
		write()
	}
	return versions
}

// BenchmarkRebuild rebuilds from a directory into SQLite. Sizes are those of the
// average version: a session grows to twice of it.
func BenchmarkRebuild(b *testing.B) {
	for _, c := range []struct {
		name                  string
		sessions, turns, size int
	}{
		{"size=2KB/turns=20", 1000, 20, 4 << 10},
		{"size=12KB/turns=20", 500, 20, 24 << 10},
		{"size=2KB/turns=1", 20000, 1, 2 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			bucket, err := dir.Open(filepath.Join(b.TempDir(), "cold"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer bucket.Close()
			versions := chatArchive(b, bucket, c.sessions, c.turns, c.size)
			other, err := dir.Open(filepath.Join(b.TempDir(), "other"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer other.Close()
			archive := cold.NewArchive(bucket, other, nil)
			total, raw := 0, int64(0)
			for b.Loop() {
				b.StopTimer()
				store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), fmt.Sprint(total, ".db")), &sqlite.Options{Restore: true})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				report, err := lifecycle.Rebuild(b.Context(), lifecycle.RebuildOptions{Archive: archive, Warm: store, Scratch: true})
				if err != nil || report.Versions != int64(versions) || report.Documents != int64(c.sessions) {
					b.Fatalf("%+v, %v", report, err)
				}
				total, raw = total+versions, report.RawSize
				b.StopTimer()
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "versions/s")
			b.ReportMetric(float64(raw*int64(total/versions))/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}
