package cold_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
)

// TestReadRun reads runs of a key that lies in many blocks, between two others,
// with a touch and a deletion among its versions.
func TestReadRun(t *testing.T) {
	var recs []cold.Record
	for v := int64(1); v <= 40; v++ {
		body := fmt.Sprintf(`{"n":%d,"text":%q}`, v, strings.Repeat(fmt.Sprint(v), 200))
		switch v {
		case 20:
			recs = append(recs, bare(tiering.OpDelete, "log", v, 0))
		default:
			recs = append(recs, record("log", v, body))
		}
		if v == 7 {
			recs = append(recs, bare(tiering.OpTouch, "log", v, 1))
		}
	}
	recs = append(recs, record("a", 1, `1`), record("z", 1, `1`))
	for _, size := range []int{512, 1 << 20} {
		t.Run(fmt.Sprintf("blocks of %d", size), func(t *testing.T) {
			memory := [2]*coldtest.Memory{{}, {}}
			a := cold.NewArchive(memory[0], memory[1], nil)
			e, err := cold.Encode("acme", []tiering.Range{{From: 1, To: 50}}, recs, &cold.EncodeOptions{BlockSize: size})
			if err != nil {
				t.Fatal(err)
			}
			name := a.Name(time.Now(), 1)
			if errs := a.WriteBoth(t.Context(), name, e.Data); errs != [2]error{} {
				t.Fatal(errs)
			}
			var loc tiering.Location
			for _, l := range e.LocationsFor(name) {
				if l.Key.ID == "log" {
					loc = l
				}
			}
			if (len(loc.Blocks) > 2) != (size == 512) {
				t.Fatalf("the log lies in %d blocks", len(loc.Blocks))
			}
			even := func(r cold.Record) bool { return r.Version%2 == 0 }
			for _, c := range []struct {
				name string
				o    cold.RunOptions
				want string
			}{
				{"from the first", cold.RunOptions{From: 1, To: 100, Limit: 3}, "[1 2 3]"},
				{"around the deletion", cold.RunOptions{From: 18, To: 22, Limit: 9}, "[18 19 21 22]"},
				{"one", cold.RunOptions{From: 33, To: 33, Limit: 9}, "[33]"},
				{"the last", cold.RunOptions{From: 0, To: 100, Limit: 3, Descending: true}, "[40 39 38]"},
				{"down", cold.RunOptions{From: 5, To: 9, Limit: 9, Descending: true}, "[9 8 7 6 5]"},
				{"what is wanted alone counts", cold.RunOptions{From: 3, To: 100, Limit: 3, Keep: even}, "[4 6 8]"},
				{"its bytes end it", cold.RunOptions{From: 1, To: 100, Limit: 9, MaxBytes: 1}, "[1]"},
				{"outside", cold.RunOptions{From: 41, To: 100, Limit: 9}, "[]"},
			} {
				if c.o.MaxBytes == 0 {
					c.o.MaxBytes = 1 << 20
				}
				got, err := a.ReadRun(t.Context(), loc, c.o)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				versions := []int64{}
				for _, r := range got {
					versions = append(versions, r.Version)
					if tiering.DigestOf(r.Body) != r.Digest {
						t.Errorf("%s: version %d has other bytes", c.name, r.Version)
					}
				}
				if fmt.Sprint(versions) != c.want {
					t.Errorf("%s: versions %v, want %s", c.name, versions, c.want)
				}
			}
		})
	}
}
