package warmtest

import (
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testExpiry(t *testing.T, h Harness) {
	k := key("k")
	none := &tiering.TTL{None: true}
	t.Run("what a put does to the expiry", func(t *testing.T) {
		hour := func() warm.Expiry { return ttl(time.Hour) }
		// One minute lies between the two puts; times count from the second.
		for _, c := range []struct {
			name    string
			before  *warm.Expiry // nil: the key is new
			row     warm.Expiry
			expires time.Duration // 0: never
			ttl     time.Duration
		}{
			{"new, nothing said", nil, warm.Expiry{}, 0, 0},
			{"new, a TTL", nil, hour(), time.Hour, time.Hour},
			{"new, none", nil, warm.Expiry{TTL: none, New: time.Minute}, 0, 0},
			{"new, the policy's life", nil, warm.Expiry{New: time.Minute}, time.Minute, time.Minute},
			{"new, a TTL over the policy's", nil, warm.Expiry{TTL: &tiering.TTL{Life: time.Hour}, New: time.Minute}, time.Hour, time.Hour},
			{"standing, kept", new(hour()), warm.Expiry{New: time.Second}, 59 * time.Minute, time.Hour},
			{"standing, slid", new(hour()), warm.Expiry{Slide: true}, time.Hour, time.Hour},
			{"standing without a life, slid", new(warm.Expiry{}), warm.Expiry{Slide: true, New: time.Hour}, 0, 0},
			{"standing, a shorter TTL", new(hour()), ttl(time.Minute), time.Minute, time.Minute},
			{"standing, cleared", new(hour()), warm.Expiry{TTL: none}, 0, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := setup(t, h)
				if c.before != nil {
					row := put(`1`)
					row.Expiry = *c.before
					f.must(k, row)
				}
				f.clock.advance(time.Minute)
				row := put(`2`)
				row.Expiry = c.row
				r := f.must(k, row)
				f.expires(r.Head, c.expires, c.ttl)
				f.expires(f.load(k).Head, c.expires, c.ttl)
			})
		}
	})
	t.Run("what a touch does to the expiry", func(t *testing.T) {
		for _, c := range []struct {
			name    string
			before  warm.Expiry
			touch   warm.Expiry
			exact   bool
			expires time.Duration
		}{
			{"slides by the head's TTL", ttl(time.Hour), warm.Expiry{}, false, time.Hour},
			{"without a TTL anywhere", warm.Expiry{}, warm.Expiry{}, false, 0},
			{"longer", ttl(time.Hour), ttl(2 * time.Hour), false, 2 * time.Hour},
			{"never shorter", ttl(time.Hour), ttl(time.Minute), false, 59 * time.Minute},
			{"shorter when exact", ttl(time.Hour), ttl(time.Minute), true, time.Minute},
			{"a life for ever does not become shorter", warm.Expiry{}, ttl(time.Minute), false, 0},
			{"a life for ever, exact", warm.Expiry{}, ttl(time.Minute), true, time.Minute},
			{"cleared", ttl(time.Hour), warm.Expiry{TTL: none}, false, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := setup(t, h)
				row := put(`1`)
				row.Expiry = c.before
				f.must(k, row)
				f.clock.advance(time.Minute)
				touch := op(tiering.OpTouch)
				touch.Expiry, touch.Exact = c.touch, c.exact
				r := f.must(k, touch)
				f.expires(r.Head, c.expires, r.Head.TTL)
				equal(f, "version", r.Head.Version, 1)
				equal(f, "revision", r.Head.Revision, 1)
			})
		}
	})
	t.Run("expired at the very moment, and then it is as if it was not there", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.Expiry = ttl(time.Minute)
		row.User = "ann"
		f.must(k, row)
		f.clock.advance(time.Minute - time.Microsecond)
		f.body(k, `1`)
		f.clock.advance(time.Microsecond)
		f.body(k, "")
		f.status(f.one(k, op(tiering.OpTouch)), warm.Conflict)
		r := f.one(k, op(tiering.OpDelete))
		f.status(r, warm.NoChange)
		equal(f, "the head that stands", r.Head.Version, 1)
		page, err := f.store.List(f.ctx, warm.List{Tenant: tenant, Namespace: space, Limit: 10})
		f.no(err)
		equal(f, "listed", ids(page), "")
		row = put(`2`)
		row.User = "bob"
		r = f.must(k, row)
		equal(f, "created", r.Created, true)
		equal(f, "version", r.Head.Version, 2)
		equal(f, "prev", r.Prev, 0)
		equal(f, "created_at", r.Head.CreatedAt, f.clock.Now())
		equal(f, "user", r.Head.User, "bob")
		equal(f, "expires_at", r.Head.ExpiresAt, time.Time{})
	})
	t.Run("the sweep", func(t *testing.T) {
		f := setup(t, h)
		for _, c := range []struct {
			id   string
			life time.Duration
		}{{"second", 2 * time.Minute}, {"first", time.Minute}, {"later", time.Hour}, {"pinned", time.Minute}} {
			row := put(`1`)
			row.Expiry = ttl(c.life)
			f.must(key(c.id), row)
		}
		f.must(key("for-ever"), put(`1`))
		f.must(key("pinned"), op(tiering.OpPin))
		f.clock.advance(10 * time.Minute)
		keys, err := f.store.Expired(f.ctx, 10)
		f.no(err)
		if len(keys) != 2 || keys[0] != key("first") || keys[1] != key("second") {
			t.Fatalf("expired: %v, want first and second", keys)
		}
		keys, err = f.store.Expired(f.ctx, 1)
		f.no(err)
		equal(f, "keys under a limit", len(keys), 1)
		for id, want := range map[string]warm.Status{"first": warm.Done, "second": warm.Done, "later": warm.NoChange, "pinned": warm.NoChange, "for-ever": warm.NoChange, "never": warm.NoChange} {
			f.status(f.one(key(id), op(tiering.OpExpire)), want)
		}
		head := f.load(key("first")).Head
		equal(f, "op", head.Op, tiering.OpExpire)
		equal(f, "version", head.Version, 2)
		f.status(f.one(key("first"), op(tiering.OpExpire)), warm.NoChange)
		keys, err = f.store.Expired(f.ctx, 10)
		f.no(err)
		equal(f, "keys after the sweep", len(keys), 0)
	})
	t.Run("a key written since it expired is not swept", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.Expiry = ttl(time.Minute)
		f.must(k, row)
		f.clock.advance(time.Hour)
		f.must(k, put(`2`))
		f.status(f.one(k, op(tiering.OpExpire)), warm.NoChange)
		f.body(k, `2`)
	})
	t.Run("unpinning what has expired ends it", func(t *testing.T) {
		f := setup(t, h)
		row := put(`1`)
		row.Expiry = ttl(time.Minute)
		f.must(k, row)
		f.must(k, op(tiering.OpPin))
		f.clock.advance(time.Hour)
		f.body(k, `1`)
		f.must(k, op(tiering.OpUnpin))
		f.body(k, "")
		f.must(k, op(tiering.OpExpire))
	})
}

// expires fails the test unless the head expires after life from now; 0: never.
func (f *fixture) expires(head warm.Head, life, ttl time.Duration) {
	f.Helper()
	var want time.Time
	if life > 0 {
		want = f.clock.Now().Add(life)
	}
	equal(f, "expires_at", head.ExpiresAt, want)
	equal(f, "ttl", head.TTL, ttl)
}
