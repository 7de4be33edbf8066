package postgres

import (
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// FuzzDecode: damaged bytes are an error, never a panic or a huge slice.
func FuzzDecode(f *testing.F) {
	k := noteKey("k")
	f.Add(encodeChanges([]warm.FeedChange{{Key: k, Op: tiering.OpPut, Version: 1, User: "ada", Digest: tiering.Digest{1}}}))
	f.Add(encodeResult(warm.Result{Status: warm.Done, Head: warm.Head{Key: k, Version: 1}, Answer: []byte(`[]`)}))
	f.Add(encodeResults([][]warm.Result{{{Status: warm.Conflict}}, {{Status: warm.NoChange}}}, false))
	f.Add(encodeShape([]warm.Change{{Key: k, Rows: make([]warm.Row, 2)}}))
	f.Add(append([]byte{formRecord}, make([]byte, 80)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		changes, err := decodeChanges(b)
		if err == nil && len(b) > 0 && b[0] == formChanges {
			public := public(changes)
			again, err := decodeChanges(encodeChanges(public))
			if err != nil || len(again) != len(changes) {
				t.Fatalf("%d changes come back as %d, %v", len(changes), len(again), err)
			}
		}
		_, _ = decodeResults(b, changes)
		_, _ = decodeStored(b)
	})
}
