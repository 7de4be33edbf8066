package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// TestReplaySessions holds conversations as sessions, through two daemons on one
// store of which each is killed once: every message is an event with its change of
// state in one commit, and a watcher of each session compares what it sees with
// what was written. Then contexts are made of them; then come several agents of one
// session, jobs that die, and holders of leases that are stopped.
func TestReplaySessions(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	f := liveFleet(t)
	t.Run("conversations, each daemon killed once", func(t *testing.T) { f.replaySessions(ctx, t, spokenSessions(t, 12, 4), false) })
	t.Run("ten agents write, a daemon is killed, nothing is lost", func(t *testing.T) { f.tenAgents(ctx, t) })
	t.Run("steps of a job run once, wherever it and a daemon die", func(t *testing.T) { f.stepsRunOnce(ctx, t) })
	t.Run("a lease's holder is stopped, and its late write is fenced", func(t *testing.T) { f.stoppedHolder(ctx, t) })
	t.Run("a daemon is stopped with a write of a lease's holder in it", func(t *testing.T) { f.stoppedDaemon(ctx, t) })
	f.stop()
}

// TestReplaySessionsOfRealSessions does it with the sessions of the file that
// REPLAY_DATA names, and holds the time from commit to delivery to its promise.
func TestReplaySessionsOfRealSessions(t *testing.T) {
	sessions := realSessions(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f := liveFleet(t)
	f.replaySessions(ctx, t, sessions, true)
	f.stop()
}

// spokenSessions are conversations in the shape of chat completions, with calls of
// tools.
func spokenSessions(t *testing.T, count, turns int) (out []session) {
	t.Helper()
	for i := range count {
		messages := []json.RawMessage{json.RawMessage(`{"role":"system","content":"You take bookings for a small inn. Be brief, and never promise what is not free."}`)}
		for n := range turns + 6*(i%4) {
			for _, m := range []string{
				fmt.Sprintf(`{"role":"user","content":"Guest %d: is the blue room by the lake free for %d nights, and what does it cost with breakfast?"}`, i, n+1),
				fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"free_rooms","arguments":"{\"nights\":%d}"}}]}`, n, n+1),
				fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%d","name":"free_rooms","content":"{\"free\":true,\"price\":%d.50}"}`, n, 80+n),
				fmt.Sprintf(`{"role":"assistant","content":"It is free, for %d.50 a night. Shall I book it?"}`, 80+n),
			} {
				messages = append(messages, json.RawMessage(m))
			}
		}
		s, err := newSession(fmt.Sprintf("spoken-%03d", i), messages)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// liveFleet is two daemons on the shared servers, which are left alone: the
// daemons are what dies.
func liveFleet(t *testing.T) *fleet {
	t.Helper()
	warm, _ := servicestest.Schema(t)
	f := newFleet(t, daemontest.Build(t), tierd.Config{
		Hot: servicestest.Variable(t, "TIERD_HOT"), Warm: warm,
		Cold: servicestest.Bucket(t, servicestest.Variable(t, "TIERD_COLD"), false), Backup: servicestest.Bucket(t, servicestest.Variable(t, "TIERD_BACKUP"), false),
	})
	f.start()
	return f
}

// anywhere asks one daemon after the other until one of them answers something
// that does not pass by itself. A write among what it asks carries a key that
// makes it happen once.
func anywhere[T any](ctx context.Context, f *fleet, first int, ask func(s tiering.Sessions) (T, error)) (T, error) {
	for i := first % 2; ; i = 1 - i {
		out, err := ask(f.clients[i].Sessions())
		if err == nil || !tiering.Retryable(err) || ctx.Err() != nil {
			return out, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// replaySessions is that of sessions; hold says whether delivery has to be in time,
// which it is on a machine that does little else.
func (f *fleet) replaySessions(ctx context.Context, t *testing.T, sessions []session, hold bool) {
	total := 0
	watching := map[string]*witness{}
	for i, s := range sessions {
		total += len(s.messages)
		n := &tiering.NewSession{ID: s.id, User: userOf(s), TTL: "2h", State: json.RawMessage(`{"step":0}`), IdempotencyKey: "create-" + s.id}
		if _, err := anywhere(ctx, f, i, func(all tiering.Sessions) (*tiering.Session, error) { return all.Create(ctx, n) }); err != nil {
			t.Fatal(err)
		}
		watching[s.id] = f.witness(ctx, s, i)
	}
	for _, w := range watching {
		<-w.ready
	}
	var acked atomic.Int64
	struck := make(chan struct{})
	go func() {
		defer close(struck)
		f.killEach(ctx, &acked, int64(total))
	}()
	began := time.Now()
	f.hold(ctx, sessions, &acked)
	took := time.Since(began)
	<-struck
	if t.Failed() {
		return
	}
	var delays, all []time.Duration
	for _, s := range sessions {
		w := watching[s.id]
		<-w.done
		w.compare(t, s)
		delays, all = append(delays, w.delays...), append(all, w.all...)
	}
	slices.Sort(delays)
	slices.Sort(all)
	p := func(d []time.Duration, share float64) time.Duration {
		if len(d) == 0 {
			return 0 // a short replay is all around its kills
		}
		return d[int(float64(len(d)-1)*share)].Round(time.Millisecond)
	}
	t.Logf("%d messages of %d sessions in %v, %.0f/s; commit to delivery p50 %v p99 %v, with the %d around the kills p99 %v, slowest %v",
		total, len(sessions), took.Round(time.Millisecond), float64(total)/took.Seconds(), p(delays, .5), p(delays, .99), len(all)-len(delays), p(all, .99), p(all, 1))
	if most := 500 * time.Millisecond; hold && p(delays, .99) > most {
		t.Errorf("from commit to delivery it takes %v at p99, %v are promised", p(delays, .99), most)
	}
	f.checkContexts(ctx, t, sessions)
}

// killEach kills each daemon once, a third and two thirds of the way, and starts
// it again.
func (f *fleet) killEach(ctx context.Context, acked *atomic.Int64, total int64) {
	for i := range f.daemons {
		for acked.Load() < total*int64(i+1)/3 {
			if ctx.Err() != nil || f.t.Failed() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		f.quiet.Add(1)
		f.killOne(i)
		f.startOne(i)
		f.quiet.Add(1)
	}
}

// hold holds all conversations, many at once.
func (f *fleet) hold(ctx context.Context, sessions []session, acked *atomic.Int64) {
	work := make(chan session)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for s := range work {
				for n, m := range s.messages {
					patch := &tiering.SessionPatch{State: fmt.Appendf(nil, `{"step":%d}`, n+1)}
					o := &tiering.SessionWrite{IdempotencyKey: fmt.Sprintf("%s-%d", s.id, n)}
					_, err := anywhere(ctx, f, n, func(all tiering.Sessions) (*tiering.SessionAppended, error) {
						return all.Append(ctx, s.id, []json.RawMessage{m}, patch, o)
					})
					if err != nil {
						f.t.Errorf("%s message %d: %v", s.id, n, err)
						return
					}
					acked.Add(1)
				}
			}
		})
	}
	for _, s := range sessions {
		work <- s
	}
	close(work)
	wg.Wait()
}

// witness is what the watcher of one session saw.
type witness struct {
	ready  chan struct{} // closed once it watches
	done   chan struct{} // closed when it has seen as many messages as there are
	events []tiering.Event
	states []tiering.Event
	delays []time.Duration // from a commit to its delivery, while nothing was broken
	all    []time.Duration
	err    error
}

// witness watches a session. Every other one stays with its daemon and comes back
// to it by itself; the rest go over to the other daemon when theirs dies.
func (f *fleet) witness(ctx context.Context, s session, i int) *witness {
	w := &witness{ready: make(chan struct{}), done: make(chan struct{})}
	at, stays := i%2, i%4 < 2
	o := tiering.WatchOptions{Session: s.id, From: "start", Data: true}
	go func() {
		defer close(w.done)
		for w.err == nil && len(w.events) <= len(s.messages) && ctx.Err() == nil {
			life := ctx
			if !stays {
				life = f.life(ctx, at)
			}
			w.at(life, f, at, &o, len(s.messages))
			at = 1 - at
		}
	}()
	return w
}

// at watches at one daemon until the life ends, or all was seen.
func (w *witness) at(life context.Context, f *fleet, at int, o *tiering.WatchOptions, messages int) {
	for e, err := range f.clients[at].Events(life, o) {
		if err != nil {
			if life.Err() == nil && !tiering.Retryable(err) {
				w.err = err
			}
			return
		}
		now, quiet := time.Now(), f.quiet.Load()
		o.After = e.ID
		switch {
		case e.Type == "log.appended":
			if w.events = append(w.events, e); len(w.events) == 1 {
				close(w.ready) // it sees the entry that the session began with
				continue
			}
			w.all = append(w.all, now.Sub(e.Time))
			if quiet%2 == 0 && f.calm(e.Time) {
				w.delays = append(w.delays, now.Sub(e.Time))
			}
		case e.Namespace == tiering.SessionNamespace && e.Type == "session.put":
			w.states = append(w.states, e)
		}
		// The state of a commit stands before or behind its event.
		if len(w.events) > messages && len(w.states) > messages {
			return
		}
	}
}

// calm reports whether nothing was broken around then: a delivery that waited for
// a daemon to come back is told by itself.
func (f *fleet) calm(then time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.lastStart) > 2*time.Second || then.After(f.lastStart.Add(2*time.Second))
}

// compare: the entry that made the session, then every message once and in order,
// byte for byte, and every state once and in order.
func (w *witness) compare(t *testing.T, s session) {
	t.Helper()
	if w.err != nil || len(w.events) != len(s.messages)+1 || len(w.states) != len(s.messages)+1 {
		t.Errorf("%s: the watcher saw %d entries and %d states of %d: %v", s.id, len(w.events), len(w.states), len(s.messages)+1, w.err)
		return
	}
	for n, e := range w.events {
		want := []byte(`{"type":"tierd.created"}`)
		if n > 0 {
			var err error
			if want, err = jsondoc.Compact(s.messages[n-1]); err != nil {
				t.Fatal(err)
			}
		}
		if e.Version != int64(n+1) || !bytes.Equal(e.Data, want) {
			t.Errorf("%s: entry %d is %d %.60s, want %.60s", s.id, n+1, e.Version, e.Data, want)
			return
		}
	}
	for n, e := range w.states {
		var doc struct{ State struct{ Step int } }
		if err := json.Unmarshal(e.Data, &doc); err != nil || doc.State.Step != n || e.Version != int64(n+1) {
			t.Errorf("%s: state %d is version %d of step %d, %v", s.id, n, e.Version, doc.State.Step, err)
			return
		}
	}
}
