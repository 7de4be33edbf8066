package cold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// archivedTurns is twelve versions of one key in one block, in both buckets.
func archivedTurns(t *testing.T) (a *cold.Archive, primary *coldtest.FaultBucket, loc tiering.Location, recs []cold.Record) {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for v := int64(1); v <= 12; v++ {
		body := fmt.Appendf(nil, `{"turn":%d}`, v)
		recs = append(recs, cold.Record{
			Key: tiering.Key{Tenant: "acme", Namespace: "chat", ID: "s"}, Op: tiering.OpPut, Version: v, Prev: v - 1, Pos: v,
			At: at.Add(time.Duration(v) * time.Second), CreatedAt: at, Digest: tiering.DigestOf(body), Body: body,
		})
	}
	enc, err := cold.Encode("acme", []tiering.Range{{From: 1, To: 12}}, recs, nil)
	if err != nil {
		t.Fatal(err)
	}
	primary = coldtest.NewFaultBucket(&coldtest.Memory{})
	a = cold.NewArchive(primary, &coldtest.Memory{}, nil)
	const name = "seg/01-1.tseg"
	if errs := a.WriteBoth(t.Context(), name, enc.Data); errs != [2]error{} {
		t.Fatal(errs)
	}
	return a, primary, enc.LocationsFor(name)[0], recs
}

// Blocks that are read again come from memory: the third read of a block asks
// no bucket, and Forget makes the next one ask again.
func TestBlocksReadAgainStayInMemory(t *testing.T) {
	a, primary, loc, recs := archivedTurns(t)
	name := loc.Segment
	read := func(version int64) {
		t.Helper()
		r, _, err := a.Read(t.Context(), loc, version)
		if err != nil || string(r.Body) != string(recs[version-1].Body) {
			t.Fatalf("version %d: %s, %v", version, r.Body, err)
		}
	}
	before := primary.Calls(coldtest.Read)
	for v := int64(1); v <= 12; v++ {
		read(v)
	}
	if n := primary.Calls(coldtest.Read) - before; n != 2 {
		t.Errorf("%d reads of the bucket for twelve of one block, want 2", n)
	}
	a.Forget(name)
	read(7)
	if n := primary.Calls(coldtest.Read) - before; n != 3 {
		t.Errorf("%d reads after Forget, want 3", n)
	}
}

// Who proves documents that lie side by side reads their block from each copy once,
// whatever lies in memory; another reader reads it again. A copy that cannot be read
// is asked once.
func TestAReaderOfACopyFetchesABlockOnce(t *testing.T) {
	a, primary, loc, recs := archivedTurns(t)
	for round := range 2 {
		r := a.CopyReader(tiering.Primary)
		before := primary.Calls(coldtest.Read)
		for _, want := range recs {
			if got, err := r.Read(t.Context(), loc, want.Version); err != nil || string(got.Body) != string(want.Body) {
				t.Fatalf("version %d: %s, %v", want.Version, got.Body, err)
			}
		}
		if n := primary.Calls(coldtest.Read) - before; n != 1 {
			t.Errorf("round %d: %d reads of the bucket for twelve of one block, want 1", round, n)
		}
	}
	if err := primary.Delete(t.Context(), loc.Segment); err != nil {
		t.Fatal(err)
	}
	r := a.CopyReader(tiering.Primary)
	before := primary.Calls(coldtest.Read)
	for _, want := range recs {
		if _, err := r.Read(t.Context(), loc, want.Version); err == nil {
			t.Errorf("version %d was read from a copy that is gone", want.Version)
		}
	}
	if n := primary.Calls(coldtest.Read) - before; n != 1 {
		t.Errorf("%d reads of a block that is gone, want 1", n)
	}
}
