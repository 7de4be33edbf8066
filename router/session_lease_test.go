package router

import (
	"testing"

	"github.com/tierd/tierd/tiering"
)

// A lease is the same whether its bytes are in warm or in cold alone.
func TestALeaseInCold(t *testing.T) {
	a := openArchived(t)
	all := a.r.Sessions()
	a.session(tiering.NewSession{ID: "s", TTL: "1h"})
	first, err := all.AcquireLease(a.ctx, "s", &tiering.LeaseRequest{Holder: "one", TTL: "30m"})
	a.no(err)
	demote := func() {
		t.Helper()
		x, err := a.r.Demote(a.ctx, tiering.SessionPartsNamespace, "s/"+leasePart)
		a.no(err)
		for _, c := range x.Copies {
			if c.Tier == tiering.Warm && c.State != "absent" {
				t.Fatalf("the lease was not demoted: %+v", x)
			}
		}
	}
	demote()
	_, err = all.AcquireLease(a.ctx, "s", &tiering.LeaseRequest{Holder: "two"})
	code(t, "another holder", err, tiering.CodeLeaseHeld)
	demote()
	renewed, err := all.AcquireLease(a.ctx, "s", &tiering.LeaseRequest{Holder: "one", TTL: "30m"})
	if err != nil || renewed.Token != first.Token {
		t.Errorf("renewed: %+v, %v", renewed, err)
	}
	demote()
	a.no(all.ReleaseLease(a.ctx, "s", first.Token))
}
