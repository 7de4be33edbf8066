package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Reads slide the expiry of a session's documents, at most once per tenth of
// its ttl, and writes do; those of a persistent namespace they leave alone.
func TestReadsSlideSessions(t *testing.T) {
	for _, local := range []int{0, 10, -10} { // years that the node's own clock is off
		t.Run(fmt.Sprint("clock off by ", local, " years"), func(t *testing.T) {
			w := open(t, setup{local: func(now time.Time) time.Time { return now.AddDate(local, 0, 0) }})
			w.policy(space, tiering.Policy{Class: tiering.ClassSession, TTL: tiering.Duration(100 * time.Minute), HotTTL: tiering.Duration(3 * time.Hour)})
			made := w.put("k", `1`).ExpiresAt
			slides := func() int { return w.count("warm.Commit") }
			before := slides()
			for range 9 {
				w.clock.advance(time.Minute)
				w.get("k")
				w.strong("k")
			}
			w.r.background.Wait()
			if n := slides() - before; n != 0 {
				t.Errorf("reads in the first tenth made %d commits", n)
			}
			w.clock.advance(time.Minute)
			w.get("k")
			w.eventually("a slide", func() bool { return w.expiry("k").After(made) })
			w.r.background.Wait()
			for range 3 {
				w.get("k")
				w.strong("k")
			}
			w.r.background.Wait()
			if n := slides() - before; n != 1 {
				t.Errorf("reads in the second tenth made %d commits", n)
			}
			if got, want := w.expiry("k"), w.clock.Now().Add(100*time.Minute); !got.Equal(want) {
				t.Errorf("it expires at %v, want %v", got, want)
			}
			w.clock.advance(100 * time.Minute)
			if got := w.get("k"); got != "" {
				t.Errorf("unread for its whole ttl it is %s", got)
			}
		})
	}
	t.Run("persistent", func(t *testing.T) {
		w := open(t, setup{})
		_, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: 10 * time.Minute}}})
		w.no(err)
		made := w.expiry("k")
		w.clock.advance(9 * time.Minute)
		w.get("k")
		w.put("k", `2`)
		w.r.background.Wait()
		if got := w.expiry("k"); !got.Equal(made) {
			t.Errorf("its expiry moved from %v to %v", made, got)
		}
	})
}

// expiry is the one that warm keeps.
func (w *world) expiry(id string) time.Time {
	w.Helper()
	cur, err := w.warm.Head(w.ctx, key(id))
	w.no(err)
	return cur.Head.ExpiresAt
}

// A touch never shortens a life unless it is exact, and brings nothing back
// that has expired.
func TestTouch(t *testing.T) {
	minutes := func(n int) *tiering.TTL { return &tiering.TTL{Life: time.Duration(n) * time.Minute} }
	for _, c := range []struct {
		name  string
		has   *tiering.TTL // at creation
		touch tiering.TouchOptions
		after time.Duration // the touch comes so long behind it
		want  time.Duration // left behind the touch; 0: for ever
	}{
		{"longer", minutes(10), tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: minutes(20)}}, time.Minute, 20 * time.Minute},
		{"shorter", minutes(10), tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: minutes(2)}}, time.Minute, 9 * time.Minute},
		{"shorter, exact", minutes(10), tiering.TouchOptions{Exact: true, WriteOptions: tiering.WriteOptions{TTL: minutes(2)}}, time.Minute, 2 * time.Minute},
		{"by its own ttl", minutes(10), tiering.TouchOptions{}, time.Minute, 10 * time.Minute},
		{"to none", minutes(10), tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{None: true}}}, time.Minute, 0},
		{"of one that lives for ever", nil, tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: minutes(2)}}, time.Minute, 0},
		{"of one that lives for ever, exact", nil, tiering.TouchOptions{Exact: true, WriteOptions: tiering.WriteOptions{TTL: minutes(2)}}, time.Minute, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, setup{})
			_, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: c.has}})
			w.no(err)
			w.clock.advance(c.after)
			rc, err := w.r.Touch(w.ctx, space, "k", &c.touch)
			w.no(err)
			d, err := w.r.Get(w.ctx, space, "k", nil)
			w.no(err)
			for how, at := range map[string]time.Time{"the receipt": rc.ExpiresAt, "a get": d.ExpiresAt, "warm": w.expiry("k")} {
				var left time.Duration
				if !at.IsZero() {
					left = at.Sub(w.clock.Now())
				}
				if left != c.want {
					t.Errorf("%s leaves it %v, want %v", how, left, c.want)
				}
			}
			if c.want > 0 {
				w.clock.advance(c.want)
				if _, err := w.r.Touch(w.ctx, space, "k", &c.touch); tiering.CodeOf(err) != tiering.CodeNotFound {
					t.Errorf("a touch of what has expired answers %v", err)
				}
			}
		})
	}
}
