package jsondoc

import (
	"slices"
	"testing"
	"time"

	evanphx "github.com/evanphx/json-patch/v5"
)

// BenchmarkPatch64KB changes one field of a document of 64 KB by a merge patch and by
// a JSON patch, and has evanphx/json-patch do the same, in turns.
//
//	go test -run '^$' -bench Patch64KB ./internal/jsondoc
//
// times-evanphx is the median of the ratios of neighbouring turns; at most 0.35 is
// wanted of a merge patch.
func BenchmarkPatch64KB(b *testing.B) {
	doc := document(64 << 10)
	merge := []byte(`{"status":"closed"}`)
	patch := []byte(`[{"op":"replace","path":"/status","value":"closed"}]`)
	for _, c := range []struct {
		name         string
		ours, theirs func() ([]byte, error)
	}{
		{
			"patch=merge",
			func() ([]byte, error) { return MergePatch(doc, merge) },
			func() ([]byte, error) { return evanphx.MergePatch(doc, merge) },
		},
		{
			"patch=json",
			func() ([]byte, error) { return JSONPatch(doc, patch) },
			func() ([]byte, error) {
				decoded, err := evanphx.DecodePatch(patch)
				if err != nil {
					return nil, err
				}
				return decoded.Apply(doc)
			},
		},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ours, ratios []float64
			took := func(work func() ([]byte, error)) float64 {
				began := time.Now()
				next, err := work()
				d := time.Since(began)
				if err != nil || len(next) < 64<<10-512 {
					b.Fatalf("%d bytes, %v", len(next), err)
				}
				return float64(d)
			}
			for b.Loop() {
				own := took(c.ours)
				ours, ratios = append(ours, own), append(ratios, own/took(c.theirs))
			}
			slices.Sort(ours)
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "times-evanphx")
			b.ReportMetric(ours[len(ours)/2]/1e3, "p50-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}
