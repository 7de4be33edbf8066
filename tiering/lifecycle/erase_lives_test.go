package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// TestEraseInAnEarlierLifeHidesNothingFromTheArchive: the segment that an erase
// rewrites may be of a life of the store that is over, and covers positions of
// that life alone. What is written at the same positions of this life is
// archived all the same.
func TestEraseInAnEarlierLifeHidesNothingFromTheArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	for i := range 20 {
		s.put(note(fmt.Sprint("old-", i)), `1`)
	}
	s.flush()
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	no := false
	r, err := s.engine.Erase(s.ctx, siteTenant, tiering.EraseRequest{DryRun: &no, Namespace: "notes", ID: "old-0"})
	s.no(err)
	if r.State != "done" {
		t.Fatalf("the receipt is %+v", r)
	}
	h := s.put(note("new"), `"of this life"`)
	s.flush()
	if got, err := s.history(note("new"), h.Version); got != `"of this life"` || err != nil {
		t.Errorf("in cold it is %q, %v", got, err)
	}
	want := s.snapshot()
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	s.same(s.snapshot(), want)
}
