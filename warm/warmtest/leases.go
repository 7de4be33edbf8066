package warmtest

import (
	"testing"
	"time"
)

func testLeases(t *testing.T, h Harness) {
	f := setup(t, h)
	a, ok, err := f.store.Acquire(f.ctx, "archive", "a", time.Minute)
	f.no(err)
	equal(f, "acquired", ok, true)
	equal(f, "holder", a.Holder, "a")
	equal(f, "expires", a.Expires, f.clock.Now().Add(time.Minute))

	held, ok, err := f.store.Acquire(f.ctx, "archive", "b", time.Minute)
	f.no(err)
	equal(f, "acquired while another holds it", ok, false)
	equal(f, "the lease as it stands", held, a)

	f.clock.advance(30 * time.Second)
	renewed, ok, err := f.store.Acquire(f.ctx, "archive", "a", time.Minute)
	f.no(err)
	equal(f, "renewed", ok, true)
	equal(f, "token of a renewal", renewed.Token, a.Token)
	equal(f, "expires", renewed.Expires, f.clock.Now().Add(time.Minute))

	other, ok, err := f.store.Acquire(f.ctx, "index", "b", time.Minute)
	f.no(err)
	equal(f, "acquired under another name", ok, true)

	f.clock.advance(time.Minute)
	b, ok, err := f.store.Acquire(f.ctx, "archive", "b", time.Minute)
	f.no(err)
	equal(f, "acquired after it expired", ok, true)
	if b.Token <= a.Token {
		t.Fatalf("a lease taken anew has token %d after %d", b.Token, a.Token)
	}
	f.no(f.store.Release(f.ctx, a))
	_, ok, err = f.store.Acquire(f.ctx, "archive", "c", time.Minute)
	f.no(err)
	equal(f, "acquired after a late release by the one before", ok, false)

	f.no(f.store.Release(f.ctx, b))
	f.reopen()
	c, ok, err := f.store.Acquire(f.ctx, "archive", "c", time.Minute)
	f.no(err)
	equal(f, "acquired after its release", ok, true)
	if c.Token <= b.Token {
		t.Fatalf("a lease taken after a release has token %d after %d", c.Token, b.Token)
	}
	f.no(f.store.Release(f.ctx, other))
}
