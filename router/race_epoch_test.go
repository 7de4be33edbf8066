package router

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The races around a hot tier that fails over, and those of two daemons that
// share one. Two of them need Redis and PostgreSQL: epochs are nothing to a
// hot tier in process.

// replica is what a replica of Redis holds: it lags.
type replica struct {
	w     *world
	redis *goredis.Client
	key   string
	held  string
}

// replicated is a replica that has the key as it stands now.
func (w *world) replicated(id string) *replica {
	w.Helper()
	redisURL, _ := addresses(w)
	o, err := goredis.ParseURL(redisURL)
	w.no(err)
	r := &replica{w: w, redis: goredis.NewClient(o)}
	w.Cleanup(func() { r.redis.Close() })
	k := w.key(id)
	r.key = r.marker() + ":" + k.Tenant + ":" + k.Namespace + ":" + k.ID
	r.held, err = r.redis.Get(w.ctx, r.key).Result()
	w.no(err)
	return r
}

// marker is the Redis key that says in which life of the server an epoch began.
func (r *replica) marker() string {
	r.w.Helper()
	e, err := r.w.warm.HotEpoch(r.w.ctx)
	r.w.no(err)
	return "tierd:" + e.String()
}

// promote makes the replica the server: what it lacks is lost. Its replication
// id is another one, unless it is said to lie.
func (r *replica) promote(lies bool) {
	r.w.Helper()
	r.w.no(r.redis.Set(r.w.ctx, r.key, r.held, time.Minute).Err())
	if !lies {
		r.w.no(r.redis.Set(r.w.ctx, r.marker(), "the life before", time.Minute).Err())
	}
}

// inUse is the epoch that a daemon uses.
func (w *world) inUse(r *Router) int64 {
	w.Helper()
	store, ok := hot.As[hot.Epochal](r.Hot)
	if !ok {
		w.Fatal("hot has no epochs")
	}
	return store.HotEpoch().Count
}

// Hot acknowledges version 2 and fails over to a replica that has version 1.
// Every daemon serves version 2, and fills hot with it again.
func TestRaceR11FailoverToALaggingReplica(t *testing.T) {
	for _, c := range []struct {
		name string
		lies bool
	}{{"tierd", false}, {"naive", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, setup{place: servers, epochs: epochSetup{own: true, hears: [2]bool{true, true}}})
			w.put("k", `1`)
			lagging := w.replicated("k")
			w.put("k", `2`)
			lagging.promote(c.lies)
			if !c.lies {
				w.eventually("both daemons use the next epoch", func() bool { return w.inUse(w.r) == 1 && w.inUse(w.writer) == 1 })
			}
			var stale error
			for _, r := range []*Router{w.r, w.writer, w.r} {
				d, err := r.Get(w.ctx, space, "k", nil)
				w.no(err)
				if d.Version != 2 {
					stale = violatedf("a daemon serves version %d", d.Version)
				}
				if d, err = r.Get(w.ctx, space, "k", &tiering.GetOptions{MinVersion: 2}); err != nil || d.Version != 2 {
					t.Errorf("min_version 2 is answered with %+v, %v", d, err)
				}
			}
			switch {
			case c.lies && stale == nil:
				t.Error("the naive variant keeps the promise: this schedule proves nothing")
			case !c.lies && stale != nil:
				t.Error(stale)
			case !c.lies:
				w.eventually("hot serves again", func() bool { w.get("k"); return w.hotState("k").State == hot.Present })
			}
		})
	}
}

// undated returns results that name no hot epoch.
type undated struct{ warm.Store }

func (u undated) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	results, err := u.Store.Commit(ctx, b)
	for _, rows := range results {
		for i := range rows {
			rows[i].HotEpoch = tiering.HotEpoch{}
		}
	}
	return results, err
}

func (u undated) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency,
	decide func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	results, committed, err := u.Store.Atomic(ctx, id, keys, idem, decide)
	for _, rows := range results {
		for i := range rows {
			rows[i].HotEpoch = tiering.HotEpoch{}
		}
	}
	return results, committed, err
}

// A daemon that has not heard of a failover writes: the epoch that its commit
// comes back with is where it tells hot, before it answers. The naive writer
// tells the old one, and readers under the new one are served what they had
// loaded.
func TestRaceR11WriterBehindAFailover(t *testing.T) {
	hour := tiering.TTL{Life: time.Hour}
	for _, c := range []struct {
		name  string
		write func(w *world) error
	}{
		{"put", func(w *world) error { w.put("k", `2`); return nil }},
		{"delete", func(w *world) error { w.delete("k"); return nil }},
		{"touch", func(w *world) error {
			_, err := w.writer.Touch(w.ctx, space, "k", &tiering.TouchOptions{WriteOptions: tiering.WriteOptions{TTL: &hour}})
			return err
		}},
		{"atomic batch", func(w *world) error {
			_, err := w.writer.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "put", Namespace: space, ID: "k", Data: []byte(`2`)}}})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sound := setup{epochs: epochSetup{own: true, hears: [2]bool{true, false}}}
			sound.config = func(c *Config) { c.EpochEvery = time.Hour }
			naive := sound
			naive.warm = func(s warm.Store) warm.Store { return undated{s} }
			raceOn(t, []place{servers}, sound, naive, func(w *world) error {
				w.put("k", `1`)
				w.replicated("k").promote(false)
				w.eventually("the daemon that heard uses the next epoch", func() bool { return w.inUse(w.r) == 1 })
				w.eventually("it has filled hot", func() bool { w.get("k"); return w.hotState("k").State == hot.Present })
				if n := w.inUse(w.writer); n != 0 {
					w.Fatalf("the other daemon uses epoch %d already", n)
				}
				w.no(c.write(w))
				d, err := w.r.Get(w.ctx, space, "k", nil)
				if tiering.CodeOf(err) == tiering.CodeNotFound {
					d, err = &tiering.Document{}, nil
				}
				w.no(err)
				head, err := w.warm.Head(w.ctx, w.key("k"))
				w.no(err)
				if head.Head.Live(head.Now) && (d.Version != head.Head.Version || d.Revision != head.Head.Revision) ||
					!head.Head.Live(head.Now) && d.Version != 0 {
					return violatedf("a reader is served version %d.%d, warm has %d.%d", d.Version, d.Revision, head.Head.Version, head.Head.Revision)
				}
				return nil
			})
		})
	}
}

// A daemon that neither writes nor hears of a failover learns of the next epoch
// all the same.
func TestAnIdleDaemonLearnsOfTheNextEpoch(t *testing.T) {
	w := open(t, setup{place: servers, epochs: epochSetup{own: true, hears: [2]bool{true, false}},
		config: func(c *Config) { c.EpochEvery = 20 * time.Millisecond }})
	w.put("k", `1`)
	w.replicated("k").promote(false)
	w.eventually("both daemons use the next epoch", func() bool { return w.inUse(w.r) == 1 && w.inUse(w.writer) == 1 })
	e, err := w.warm.HotEpoch(w.ctx)
	w.no(err)
	if e.Count != 1 {
		t.Errorf("one failover made epoch %v", e)
	}
}

// oneLife gives the hot epoch the same life whichever store it is of.
type oneLife struct {
	warm.Store
	life string
}

func (o oneLife) HotEpoch(ctx context.Context) (tiering.HotEpoch, error) {
	e, err := o.Store.HotEpoch(ctx)
	e.Life = o.life
	return e, err
}

func (o oneLife) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	return undated{o.Store}.Commit(ctx, b)
}

// Warm is lost and rebuilt without the last versions, and Redis lives on: what
// it holds of the life before is not served.
func TestRaceR28HotOfAnEarlierLife(t *testing.T) {
	for _, c := range []struct {
		name  string
		naive bool
	}{{"tierd", false}, {"naive", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := setup{place: servers, epochs: epochSetup{own: true, tenant: uuid.NewString()}}
			if c.naive {
				life := uuid.NewString()
				s.warm = func(s warm.Store) warm.Store { return oneLife{s, life} }
			}
			before := open(t, s)
			for range 7 {
				before.put("k", `"lost"`)
			}
			if l := before.hotState("k"); l.State != hot.Present {
				t.Fatalf("hot is in state %d", l.State)
			}
			after := open(t, s)
			after.put("other", `1`)
			got := after.get("k")
			if c.naive == (got == "") {
				t.Errorf("after the rebuild a get answers %q", got)
			}
		})
	}
}

// A load under way in one daemon read version 1; another daemon's write of
// version 2 is acknowledged, and hot loses it. A reader that comes then, while
// somebody else holds the lease, does not join that load.
func TestRaceR26LoadBehindAnotherDaemonsWrite(t *testing.T) {
	joinEmpty := setup{router: func(r *Router) {
		r.flights.joins = func(running *flight, l hot.Lookup, fresh bool) bool {
			return !fresh && l.State == hot.Empty && l.Lease == 0 && !running.old
		}
	}}
	for _, c := range []struct {
		name   string
		answer func(w *world) hot.Lookup // what hot tells the reader
	}{
		{"the lease is another's", func(w *world) hot.Lookup {
			holder, err := w.hot.Get(w.ctx, w.key("k"), true)
			w.no(err)
			l, err := w.hot.Get(w.ctx, w.key("k"), true)
			w.no(err)
			if holder.Lease == 0 || l.State != hot.Empty || l.Lease != 0 || l.Holder != holder.Lease {
				w.Fatalf("hot answers %+v after %+v", l, holder)
			}
			return l
		}},
		{"hot grants no lease", func(w *world) hot.Lookup { return hot.Lookup{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			raceOn(t, together(), setup{}, joinEmpty, func(w *world) error {
				w.put("k", `1`)
				w.evict("k")
				load := w.hold("warm.Load/after")
				running := w.startGet("k", nil)
				load.reached(w) // it read version 1
				w.put("k", `2`)
				w.evict("k")
				p, err := w.r.policyOf(w.ctx, w.tenant, space)
				w.no(err)
				mine := w.r.share(w.key("k"), p, c.answer(w), false)
				load.release()
				_, err = running()
				w.no(err)
				got, err := mine.wait(w.ctx)
				w.no(err)
				if got.head.Version != 2 {
					return violatedf("a cached get answers version %d after version 2 was acknowledged", got.head.Version)
				}
				return nil
			})
		})
	}
}

// A reader that hot told of the lease of the load under way joins it, also on a
// hot tier that daemons share.
func TestAReaderJoinsTheLoadWhoseLeaseLives(t *testing.T) {
	for _, p := range everywhere() {
		t.Run(p.String(), func(t *testing.T) {
			w := open(t, setup{place: p})
			w.put("k", `1`)
			w.evict("k")
			load := w.hold("warm.Load/after")
			running := w.startGet("k", nil)
			load.reached(w)
			l, err := w.r.look(w.ctx, w.key("k"), true)
			w.no(err)
			pol, err := w.r.policyOf(w.ctx, w.tenant, space)
			w.no(err)
			before := w.count("warm.Load")
			mine := w.r.share(w.key("k"), pol, l, false)
			load.release()
			_, err = running()
			w.no(err)
			if _, err := mine.wait(w.ctx); err != nil {
				t.Error(err)
			}
			if n := w.count("warm.Load") - before; n != 0 {
				t.Errorf("a reader that could join cost %d loads", n)
			}
		})
	}
}
