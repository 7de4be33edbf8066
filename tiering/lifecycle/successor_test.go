package lifecycle_test

import (
	"bytes"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// A store that was rebuilt elsewhere while it ran archives nothing more, and
// keeps in warm what it has: what it wrote to the buckets now no rebuild would
// bring back.
func TestAStoreWithASuccessorKeepsItsBytes(t *testing.T) {
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		t.Run(c.String(), func(t *testing.T) {
			s := newSite(t)
			s.namespace(siteTenant, "notes", tiering.Policy{})
			first := s.put(note("ada"), `{"v":1}`)
			s.flush()
			epoch, err := s.warm.Epoch(s.ctx)
			s.no(err)
			m := lifecycle.Marker{Format: 1, Epoch: "01SUCCESSOR", Parent: epoch}
			data := m.Encode()
			s.no(s.archive.Bucket(c).Create(s.ctx, m.Name(), bytes.NewReader(data), int64(len(data))))

			// An engine that looked a moment ago looks again in seconds.
			e := lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive})
			s.put(note("ada"), `{"v":2}`)
			if err := e.Flush(s.ctx); tiering.CodeOf(err) != tiering.CodeFenced {
				t.Errorf("archiving: %v", err)
			}
			if err := e.Proven(s.ctx, note("ada"), first.Version, first.Digest); tiering.CodeOf(err) != tiering.CodeFenced {
				t.Errorf("the proof that bytes may leave warm: %v", err)
			}
		})
	}
}
