package cold_test

import (
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/internal/soundness"
	"github.com/tierd/tierd/tiering"
)

// A bucket of which too much is corrupt is asked last, so that readers do not
// pay for it; it is asked all the same where the other does not serve.
func TestACorruptBucketIsAskedLast(t *testing.T) {
	ctx := t.Context()
	var faults [2]*coldtest.FaultBucket
	for i := range faults {
		faults[i] = coldtest.NewFaultBucket(&coldtest.Memory{})
	}
	a := cold.NewArchive(faults[0], faults[1], &cold.ArchiveOptions{CacheBytes: -1})
	var locations []tiering.Location
	for range soundness.MinObjects {
		e, err := cold.Encode("acme", nil, pairRecords, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := a.Name(time.Now(), 3)
		if errs := a.WriteBoth(ctx, name, e.Data); errs != [2]error{} {
			t.Fatal(errs)
		}
		locations = append(locations, e.LocationsFor(name)[0])
	}
	read := func() {
		t.Helper()
		for _, loc := range locations {
			if r, _, err := a.Read(ctx, loc, 7); err != nil || string(r.Body) != `{"n":7}` {
				t.Fatalf("%q, %v", r.Body, err)
			}
		}
	}
	faults[tiering.Primary].Inject(coldtest.Fault{Call: coldtest.Read, Flip: true, FlipAt: 100})
	for range soundness.MinLoads / len(locations) {
		read()
	}
	asked := faults[tiering.Primary].Calls(coldtest.Read)
	read()
	if again := faults[tiering.Primary].Calls(coldtest.Read); again != asked {
		t.Errorf("a bucket that served nothing sound in %d reads was asked %d times more", asked, again-asked)
	}

	faults[tiering.Primary].Clear()
	faults[tiering.Backup].Inject(coldtest.Fault{Before: errDown})
	read()
}
