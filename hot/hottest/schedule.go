package hottest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"pgregory.net/rapid"
)

// A schedule plays several writers and readers of one key against a store and
// a model of warm, one call at a time in an order that is chosen, and asks
// after every call what a reader would be served.
type schedule struct {
	*probe
	choose func(what string, n int) int // one of 0..n-1
	// marking says that every writer marks. Then hot serves what warm holds,
	// exactly. Without marks it may lag until the writer's set, and no longer.
	marking bool
	times   bool // Advance is part of the schedule

	now     time.Duration
	warm    []commit // in order; the last one stands
	acked   int      // the highest commit whose set has returned
	token   hot.Token
	writers [3]scheduledWriter
	readers [3]scheduledReader
}

// commit is one state of the key in warm.
type commit struct {
	version, revision int64
	deleted           bool
}

type scheduledWriter struct {
	phase    string // "" idle, "marked", "committed"
	token    hot.Token
	marked   time.Duration
	commit   int // index in warm
	commited time.Duration
}

type scheduledReader struct {
	phase string // "" idle, "leased", "loaded"
	lease hot.Token
	load  commit
}

func testSchedules(t *testing.T, h Harness) {
	for name, marking := range map[string]bool{"writers that mark": true, "writers that do not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub, run := h.open(t, Options{}), 0
			rapid.Check(t, func(rt *rapid.T) {
				run++
				err := play(t.Context(), sub, fmt.Sprint("tenant", run), marking, !h.RealTime, func(what string, n int) int {
					return rapid.IntRange(0, n-1).Draw(rt, what)
				})
				if err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// RandomSchedules plays n schedules from seed and returns the first violation.
// It lets no time pass when realTime is set.
func RandomSchedules(ctx context.Context, s Subject, tenant string, seed uint64, n int, realTime bool) error {
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		choose := func(_ string, n int) int { return rnd.IntN(n) }
		if err := play(ctx, s, fmt.Sprint(tenant, "/", i), i%2 == 0, !realTime, choose); err != nil {
			return err
		}
	}
	return nil
}

const scheduleSteps = 60

func play(ctx context.Context, sub Subject, tenant string, marking, times bool, choose func(string, int) int) error {
	s := &schedule{
		probe:   &probe{ctx: ctx, Subject: sub, key: tiering.Key{Tenant: tenant, Namespace: "docs", ID: "x"}},
		choose:  choose,
		marking: marking,
		times:   times,
		warm:    []commit{{deleted: true}},
	}
	for range scheduleSteps {
		switch who := s.choose("actor", 8); {
		case who < 3:
			s.write(&s.writers[who])
		case who < 6:
			s.read(&s.readers[who-3])
		case who == 6 && s.times:
			s.letTimePass()
		default:
			at := s.warm[s.choose("which", len(s.warm))]
			s.drop(at.version, at.revision)
		}
		s.served(s.get(false))
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

func (s *schedule) letTimePass() {
	d := []time.Duration{s.Timing.Lease / 2, s.Timing.Lease, s.Timing.Token / 2, s.Timing.Token, s.Timing.Tombstone}[s.choose("time", 5)]
	s.now += d
	s.pass(d)
}

// write takes the writer's next step, as the write path of the router does.
func (s *schedule) write(w *scheduledWriter) {
	switch w.phase {
	case "":
		if s.token++; s.marking || s.choose("mark", 2) == 0 {
			w.token, w.marked, w.phase = s.token, s.now, "marked"
			s.mark(w.token)
			return
		}
		w.token = 0
		s.commit(w)
	case "marked":
		// A mark outlives the longest statement of warm: past it no commit
		// can come.
		lapsed := s.now >= w.marked+s.Timing.Token
		switch choice := s.choose("marked", 6); {
		case lapsed || choice == 0:
			s.unmark(w.token)
			w.phase = ""
		case choice == 1:
			s.mark(w.token)
			w.marked = s.now
		default:
			s.commit(w)
		}
	case "committed":
		dies := s.choose("die", 6) == 0
		if w.phase = ""; dies {
			s.step("the writer dies")
			return
		}
		if w.token == 0 && s.now >= w.commited+s.Timing.Tombstone {
			s.step("the writer gives hot up")
			return
		}
		c := s.warm[w.commit]
		if c.deleted {
			s.delete(c.version, w.token)
		} else {
			s.setFor(c.version, c.revision, w.token, s.ttl())
		}
		s.acked = max(s.acked, w.commit)
	}
}

// commit makes the writer's put, delete or touch the state of warm.
func (s *schedule) commit(w *scheduledWriter) {
	last := s.warm[len(s.warm)-1]
	next := commit{version: last.version + 1}
	switch what := s.choose("commit", 4); {
	case what == 0:
		next.deleted = true
	case what == 1 && !last.deleted:
		next = commit{version: last.version, revision: last.revision + 1}
	}
	s.warm = append(s.warm, next)
	w.commit, w.commited, w.phase = len(s.warm)-1, s.now, "committed"
	s.step("commit v%d.%d under %d (deleted %v)", next.version, next.revision, w.token, next.deleted)
}

// read takes the reader's next step, as the read path of the router does.
func (s *schedule) read(r *scheduledReader) {
	switch r.phase {
	case "":
		l := s.get(true)
		s.served(l)
		if l.Lease != 0 {
			s.step("a reader is given lease %x", uint64(l.Lease))
			r.lease, r.phase = l.Lease, "leased"
		}
	case "leased":
		r.load = s.warm[len(s.warm)-1]
		if r.phase = "loaded"; r.load.deleted {
			r.phase = ""
		}
	case "loaded":
		s.fillFor(r.lease, r.load.version, r.load.revision, s.ttl())
		r.phase = ""
	}
}

func (s *schedule) ttl() time.Duration {
	return []time.Duration{s.Timing.Lease / 2, s.Timing.Tombstone, long}[s.choose("ttl", 3)]
}

// served judges what a reader got.
func (s *schedule) served(l hot.Lookup) {
	if s.err != nil || (l.State != hot.Present && l.State != hot.Deleted) {
		return
	}
	at := -1
	for i, c := range s.warm {
		if c.version == l.Entry.Meta.Version && c.deleted == (l.State == hot.Deleted) && (c.deleted || c.revision == l.Entry.Meta.Revision) {
			at = i
		}
	}
	last := len(s.warm) - 1
	switch {
	case at < 0:
		s.fail("a reader got %s, which warm never held", describe(l))
	case l.State == hot.Present && !bytes.Equal(l.Entry.Body, entry(s.key, l.Entry.Meta.Version, 0).Body):
		s.fail("a reader got the body of another version: %s", describe(l))
	case s.marking && at != last:
		s.fail("a reader got %s, while warm holds v%d.%d", describe(l), s.warm[last].version, s.warm[last].revision)
	case at < s.acked:
		s.fail("a reader got %s, after v%d.%d was acknowledged", describe(l), s.warm[s.acked].version, s.warm[s.acked].revision)
	}
}
