package tierd

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// lease is the one of daemons, as a shared warm store keeps it.
type lease struct {
	mu   sync.Mutex
	down error // what the store answers while it is away
	held warm.Lease
}

func (l *lease) Acquire(_ context.Context, name, holder string, ttl time.Duration) (warm.Lease, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return warm.Lease{}, false, l.down
	}
	if now := time.Now(); l.held.Holder == holder || !now.Before(l.held.Expires) {
		l.held = warm.Lease{Name: name, Holder: holder, Expires: now.Add(ttl)}
	}
	return l.held, l.held.Holder == holder, nil
}

func (l *lease) Release(context.Context, warm.Lease) error { return nil }

func (l *lease) set(down error, held warm.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.held = down, held
}

// gated is a daemon of which only the gate runs.
type gated struct {
	*testing.T
	leases *lease
	tiers  tiers
	stop   func()
}

func startGated(t *testing.T, hotURL string) *gated {
	d := &gated{T: t, leases: &lease{}}
	d.tiers.hot = memory.Open(nil)
	d.tiers.membership = newMembership(d.leases, Config{Hot: hotURL}, "here")
	d.tiers.gate = newGate(d.tiers.hot)
	d.tiers.hot = d.tiers.gate
	if err := d.tiers.membership.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.tiers.gate.admit(time.Now(), d.tiers.membership)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.tiers.gate.keep(ctx, d.tiers.membership, d.tiers.renewHot, slog.New(slog.DiscardHandler)) })
	d.stop = func() {
		stop()
		running.Wait()
		if err := d.tiers.hot.Close(); err != nil {
			t.Error(err)
		}
	}
	return d
}

var gatedKey = tiering.Key{Tenant: "t", Namespace: "n", ID: "id"}

func (d *gated) set() {
	d.Helper()
	body := []byte(`1`)
	meta := tiering.Meta{Version: 1, Digest: tiering.DigestOf(body)}
	if stored, err := d.tiers.hot.Set(d.Context(), hot.Set{Key: gatedKey, Entry: hot.Entry{Meta: meta, Body: body}, TTL: time.Hour}); !stored || err != nil {
		d.Fatalf("set: %v, %v", stored, err)
	}
}

// serves asserts what a get is answered: a value, nothing, or that hot may not
// be used.
func (d *gated) serves(when string, state hot.State, code tiering.Code) {
	d.Helper()
	if l, err := d.tiers.hot.Get(d.Context(), gatedKey, false); l.State != state || tiering.CodeOf(err) != code {
		d.Errorf("%s: state %d, %v; want state %d, code %q", when, l.State, err, state, code)
	}
}

// A daemon with hot in its own memory stops using it before its lease can be
// another's, and begins anew when it has the lease again.
func TestHotOfOneDaemonIsServedWhileItsLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startGated(t, "memory:")
		defer d.stop()
		d.set()
		time.Sleep(10*daemonsTTL + time.Millisecond)
		d.serves("while the lease is renewed", hot.Present, "")

		before := d.leases.held
		d.leases.set(errors.New("away"), before)
		time.Sleep(daemonsExpiry - daemonsRenew)
		d.serves("while the lease is surely held", hot.Present, "")
		time.Sleep(2 * daemonsRenew)
		if time.Now().After(before.Expires) {
			t.Fatal("the lease ran out first")
		}
		d.serves("before another can take the lease", hot.Empty, tiering.CodeUnavailable)

		d.leases.set(nil, before)
		time.Sleep(daemonsRenew + time.Millisecond)
		d.serves("with the lease again", hot.Empty, "")
		d.set()
		d.serves("anew", hot.Present, "")
	})
}

// A daemon whose hot tier is shared serves it while the store is away, and stops
// when daemons with another hot tier hold the lease.
func TestSharedHotIsServedUntilOthersHoldTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startGated(t, "redis://host:6379/0")
		defer d.stop()
		d.set()
		d.leases.set(errors.New("away"), warm.Lease{})
		time.Sleep(10 * daemonsTTL)
		d.serves("while the store is away", hot.Present, "")

		d.leases.set(nil, warm.Lease{Holder: "redis at elsewhere:6379", Expires: time.Now().Add(daemonsTTL)})
		time.Sleep(daemonsRenew + time.Millisecond)
		d.serves("while others hold the lease", hot.Empty, tiering.CodeUnavailable)
	})
}

// A hot tier that took the place of another is closed with the node.
func TestTheHotTierThatBeganAnewIsClosed(t *testing.T) {
	d := tiers{hotBytes: 1 << 20}
	if err := d.openHot(t.Context(), Config{Hot: "memory:"}); err != nil {
		t.Fatal(err)
	}
	d.gate = newGate(d.hot)
	d.hot, d.membership = d.gate, newMembership(nil, Config{Hot: "memory:"}, "here")
	if err := d.renewHot(t.Context()); err != nil {
		t.Fatal(err)
	}
	anew := d.gate.Unwrap()
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if err := anew.Ping(t.Context()); !errors.Is(err, memory.ErrClosed) {
		t.Errorf("a ping of it: %v", err)
	}
}
