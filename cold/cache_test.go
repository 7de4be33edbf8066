package cold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// Blocks that are read again come from memory: the third read of a block asks
// no bucket, and Forget makes the next one ask again.
func TestBlocksReadAgainStayInMemory(t *testing.T) {
	var recs []cold.Record
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
	primary := coldtest.NewFaultBucket(&coldtest.Memory{})
	a := cold.NewArchive(primary, &coldtest.Memory{}, nil)
	const name = "seg/01-1.tseg"
	if errs := a.WriteBoth(t.Context(), name, enc.Data); errs != [2]error{} {
		t.Fatal(errs)
	}
	loc := enc.LocationsFor(name)[0]
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
