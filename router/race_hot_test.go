package router

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/tiering"
)

// The races between the two tiers: what hot serves after each schedule.

// want reports a violation when a cached get answers other than body ("": not
// found).
func want(w *world, when, id, body string) error {
	w.Helper()
	if got := w.get(id); got != body {
		return violatedf("%s a cached get answers %q, want %q", when, got, body)
	}
	return nil
}

// hotState is what hot knows of a key.
func (w *world) hotState(id string) hot.Lookup {
	w.Helper()
	l, err := w.hot.Get(w.ctx, w.key(id), false)
	w.no(err)
	return l
}

// A fill that was read before a newer write is refused: hot stays at the newer
// version.
func TestRaceR01FillAfterNewerSet(t *testing.T) {
	race(t, faulty(hottest.IgnoreLeases), func(w *world) error {
		w.put("k", `1`)
		w.evict("k")
		fill := w.hold("hot.Fill")
		read := w.startGet("k", nil)
		fill.reached(w)
		w.put("k", `2`)
		fill.release()
		_, err := read()
		w.no(err)
		return want(w, "after the late fill", "k", `2`)
	})
}

// A deleted document does not come back by a fill that was read before the
// delete, also when the tombstone in hot has lapsed.
func TestRaceR02FillAfterTombstoneLapsed(t *testing.T) {
	race(t, faulty(hottest.IgnoreLeases), func(w *world) error {
		w.put("k", `1`)
		w.evict("k")
		fill := w.hold("hot.Fill")
		read := w.startGet("k", nil)
		fill.reached(w)
		w.delete("k")
		w.advance(w.timing.Tombstone + w.unit/10)
		fill.release()
		_, err := read()
		w.no(err)
		return want(w, "after the late fill", "k", "")
	})
}

// A commit does not begin before its marks are in: else a reader could fill what
// stood before a write that was acknowledged, and whose set was lost.
func TestRaceR03CommitBeforeItsMark(t *testing.T) {
	var hurried sync.Map // the queues that did not wait
	hasty := setup{router: func(r *Router) {
		wait, written := r.queue.mark, map[tiering.Key]bool{}
		r.queue.mark = func(ctx context.Context, keys ...tiering.Key) []hotMark {
			if !written[keys[0]] { // the second write of a key is hasty
				written[keys[0]] = true
				return wait(ctx, keys...)
			}
			hurried.Store(r.queue, true)
			marks := make([]hotMark, len(keys))
			for i, key := range keys {
				marks[i] = hotMark{key: key, token: 1, epoch: r.hotEpoch()}
				go func() { _ = r.Hot.Mark(ctx, key, 1) }()
			}
			return marks
		}
	}}
	race(t, hasty, func(w *world) error {
		w.put("k", `1`)
		w.evict("k")
		fill := w.hold("hot.Fill")
		read := w.startGet("k", nil)
		fill.reached(w)
		w.kill("hot.Set")
		mark := w.hold("hot.Mark")
		write := w.startPut("k", `2`, tiering.Condition{})
		mark.reached(w)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = write()
		}()
		_, early := hurried.Load(w.writer.queue)
		if early {
			<-answered
		} else {
			select {
			case <-answered:
				early = true
			case <-time.After(200 * time.Millisecond): // it waits for its mark
			}
		}
		fill.release()
		_, err := read()
		w.no(err)
		if early {
			if err := want(w, "once the write was answered", "k", `2`); err != nil {
				return err
			}
		}
		mark.release()
		<-answered
		return want(w, "behind the write", "k", `2`)
	})
}

// The intent of a writer that died behind its commit kills the lease of a
// reader that had read the version before.
func TestRaceR03FillAfterKilledWriter(t *testing.T) {
	race(t, faulty(hottest.NoPending), func(w *world) error {
		w.put("k", `1`)
		w.evict("k")
		fill := w.hold("hot.Fill")
		read := w.startGet("k", nil)
		fill.reached(w)
		w.kill("hot.Set")
		if rc := w.put("k", `2`); rc.Hot {
			return violatedf("the answer says that hot took a write that never reached it")
		}
		fill.release()
		_, err := read()
		w.no(err)
		if err := want(w, "while the mark lives", "k", `2`); err != nil {
			return err
		}
		w.advance(w.timing.Token)
		return want(w, "when the mark has lapsed", "k", `2`)
	})
}

// A writer that stalls between its commit and its set does not overwrite what
// a later writer set.
func TestRaceR04StalledSet(t *testing.T) {
	race(t, faulty(hottest.BlindSet), func(w *world) error {
		set := w.hold("hot.Set")
		first := w.startPut("k", `1`, tiering.Condition{})
		set.reached(w)
		w.put("k", `2`)
		set.release()
		_, err := first()
		w.no(err)
		if err := want(w, "after the stalled set", "k", `2`); err != nil {
			return err
		}
		return want(w, "at the next read", "k", `2`)
	})
}

// A document has one expiry, kept in warm: a put that names none keeps it, and
// hot serves nothing past it.
func TestRaceR14OneExpiry(t *testing.T) {
	race(t, setup{hot: func(s hot.Store) hot.Store { return plainHot{s} }}, func(w *world) error {
		w.policy(space, tiering.Policy{HotTTL: tiering.Duration(5 * w.unit)})
		rc, err := w.writer.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: 2 * w.unit}}})
		w.no(err)
		w.advance(w.unit)
		if again := w.put("k", `2`); !again.ExpiresAt.Equal(rc.ExpiresAt) {
			return violatedf("a put without a ttl moved the expiry from %v to %v", rc.ExpiresAt, again.ExpiresAt)
		}
		w.advance(w.unit)
		if l := w.hotState("k"); l.State == hot.Present {
			return violatedf("hot holds the document past its expiry")
		}
		return want(w, "past the expiry", "k", "")
	})
}

// A document that outlives its stay in hot is filled again for no longer than
// it has left.
func TestRaceR14FillForWhatIsLeft(t *testing.T) {
	race(t, setup{hot: func(s hot.Store) hot.Store { return plainHot{s} }}, func(w *world) error {
		w.policy(space, tiering.Policy{HotTTL: tiering.Duration(2 * w.unit)})
		_, err := w.writer.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &tiering.TTL{Life: 4 * w.unit}}})
		w.no(err)
		w.advance(3 * w.unit)
		if l := w.hotState("k"); l.State == hot.Present {
			return violatedf("hot holds the document past hot_ttl")
		}
		if err := want(w, "past hot_ttl", "k", `1`); err != nil {
			return err
		}
		w.advance(w.unit)
		if l := w.hotState("k"); l.State == hot.Present {
			return violatedf("hot holds the document past its expiry")
		}
		return want(w, "past the expiry", "k", "")
	})
}

// A writer killed before its commit, or behind it, leaves a mark: readers go to
// warm, and the mark lapses to empty, never to the old value.
func TestRaceR30KilledBehindItsMark(t *testing.T) {
	for _, c := range []struct {
		name, dies, stands string
	}{
		{"behind the commit", "hot.Set", `2`},
		{"before the commit", "warm.Commit", `1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			play := func(w *world) error {
				w.put("k", `1`)
				w.kill(c.dies)
				w.fail("hot.Unmark", func() error { return errKilled })
				_, err := w.writer.Put(w.ctx, space, "k", []byte(`2`), nil)
				if lost := c.dies == "warm.Commit"; lost != (err != nil) {
					w.Fatalf("the write answers %v", err)
				}
				w.fail("hot.Unmark", nil)
				if l := w.hotState("k"); l.State != hot.Pending {
					return violatedf("hot is in state %d while the write is pending", l.State)
				}
				if err := want(w, "while the mark lives", "k", c.stands); err != nil {
					return err
				}
				w.advance(w.timing.Token)
				if l := w.hotState("k"); l.State != hot.Empty {
					return violatedf("the mark lapsed to state %d", l.State)
				}
				return want(w, "when the mark has lapsed", "k", c.stands)
			}
			race(t, faulty(hottest.NoPending), play)
		})
	}
}

// Beside the mark of a writer that has yet to commit nothing is stored; when
// that writer dies behind its commit the key is empty.
func TestRaceR33SetBesideAPendingWriter(t *testing.T) {
	race(t, faulty(hottest.NoPending), func(w *world) error {
		firstSet := w.hold("hot.Set")
		first := w.startPut("k", `1`, tiering.Condition{})
		firstSet.reached(w)
		commit := w.hold("warm.Commit")
		second := w.startPut("k", `2`, tiering.Condition{})
		commit.reached(w) // the second is marked
		firstSet.release()
		_, err := first()
		w.no(err)
		if l := w.hotState("k"); l.State == hot.Present {
			return violatedf("hot stored version %d beside a pending write", l.Entry.Meta.Version)
		}
		w.kill("hot.Set")
		commit.release()
		rc, err := second()
		w.no(err)
		if rc.Hot {
			return violatedf("the answer says that hot took a write that never reached it")
		}
		if err := want(w, "while the dead writer's mark lives", "k", `2`); err != nil {
			return err
		}
		w.advance(w.timing.Token)
		if l := w.hotState("k"); l.State == hot.Present && l.Entry.Meta.Version < rc.Version {
			return violatedf("the mark lapsed to version %d", l.Entry.Meta.Version)
		}
		return want(w, "when the mark has lapsed", "k", `2`)
	})
}

// joinAll lets every reader join the load under way.
var joinAll = setup{router: func(r *Router) { r.flights.joins = func(*flight, hot.Lookup, bool) bool { return true } }}

// A strong get joins no load that began before it: it would answer what stood
// before a write that is acknowledged.
func TestRaceR26StrongGetBehindARunningLoad(t *testing.T) {
	race(t, joinAll, func(w *world) error {
		w.put("k", `1`)
		w.evict("k")
		load := w.hold("warm.Load/after")
		running := w.startGet("k", nil)
		load.reached(w) // it read version 1
		w.put("k", `2`)
		w.evict("k")
		p, err := w.r.policyOf(w.ctx, w.tenant, space)
		w.no(err)
		// What a strong get does where hot does not hold the head, up to the
		// moment it waits.
		mine := w.r.share(w.key("k"), p, hot.Lookup{}, true)
		load.release()
		_, err = running()
		w.no(err)
		got, err := mine.wait(w.ctx)
		w.no(err)
		if got.head.Version != 2 {
			return violatedf("a strong get answers version %d after version 2 was acknowledged", got.head.Version)
		}
		return nil
	})
}

// A cached get does not join a load that began before a write of this node was
// acknowledged, even where hot kept nothing of the write: two writers whose sets
// come swapped leave hot empty.
func TestRaceR26CachedGetBehindARunningLoad(t *testing.T) {
	race(t, joinAll, func(w *world) error {
		w.put("k", `1`)
		w.evict("k")
		load := w.hold("warm.Load/after")
		running := w.startGet("k", nil)
		load.reached(w) // it read version 1
		set := w.hold("hot.Set")
		second := w.startPut("k", `2`, tiering.Condition{})
		set.reached(w)
		w.put("k", `3`)
		set.release()
		_, err := second()
		w.no(err)
		if l := w.hotState("k"); l.State != hot.Empty {
			w.Fatalf("hot is in state %d after two swapped sets", l.State)
		}
		p, err := w.r.policyOf(w.ctx, w.tenant, space)
		w.no(err)
		mine := w.r.share(w.key("k"), p, hot.Lookup{}, false) // another reader holds the lease
		load.release()
		_, err = running()
		w.no(err)
		got, err := mine.wait(w.ctx)
		w.no(err)
		if got.head.Version != 3 {
			return violatedf("a cached get answers version %d after version 3 was acknowledged", got.head.Version)
		}
		return nil
	})
}

// Many readers of one missing key cost one load.
func TestReadersShareALoad(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `1`)
	w.evict("k")
	load := w.hold("warm.Load")
	before := w.count("warm.Load")
	first := w.startGet("k", nil)
	load.reached(w)
	looks := w.count("hot.Get/after")
	var others []func() (*tiering.Document, error)
	for range 50 {
		others = append(others, w.startGet("k", nil))
	}
	w.eventually("all have looked into hot", func() bool { return w.count("hot.Get/after") == looks+50 })
	load.release()
	for _, wait := range append(others, first) {
		d, err := wait()
		w.no(err)
		if string(d.Body) != `1` {
			t.Fatalf("a reader was served %s", d.Body)
		}
	}
	// A reader that looked before the fill and asks after it finds no load to
	// join and makes one of its own: rare, and never one a reader.
	if n := w.count("warm.Load") - before; n > 3 {
		t.Errorf("51 readers cost %d loads", n)
	}
}

// A reader that leaves does not end the load that others wait for.
func TestAReaderLeavesTheLoadToTheOthers(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `1`)
	w.evict("k")
	load := w.hold("warm.Load")
	ctx, leave := context.WithCancel(w.ctx)
	first := call(w, func() (*tiering.Document, error) { return w.r.Get(ctx, space, "k", nil) })
	load.reached(w)
	second := w.startGet("k", nil)
	leave()
	if _, err := first(); !errors.Is(err, context.Canceled) {
		t.Fatalf("the reader that left was told %v", err)
	}
	load.release()
	d, err := second()
	w.no(err)
	if string(d.Body) != `1` {
		t.Fatalf("the other was served %s", d.Body)
	}
}
