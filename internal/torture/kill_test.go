package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
)

// What a daemon that was killed may take.
const (
	ready   = 5 * time.Second // until it serves
	erasing = 3 * time.Minute // until an erase that it died in is done: 10 s for readers' leases, a rewrite of Redis' file, and a machine that others keep busy
)

// worldRounds is how many processes die over one store, before the next begins with
// an empty one.
const worldRounds = 60

// killEmbedded kills an embedded daemon at each step in turn, under writers,
// demotions and erases, starts it again, and looks for everything that was
// acknowledged, and for what an erase has left. A round is one process that the step
// has killed.
func killEmbedded(t *testing.T, c *course) {
	binary := daemontest.Build(t, "failpoints")
	killRounds(t, c, func() world { return embeddedWorld(t, binary) })
}

// killReal is killEmbedded with PostgreSQL, S3 and Redis below the daemon.
func killReal(t *testing.T, c *course) {
	binary := daemontest.Build(t, "failpoints")
	killRounds(t, c, func() world { return realWorld(t, binary) })
}

// killRounds kills daemons until enough processes have died at their step.
func killRounds(t *testing.T, c *course, found func() world) {
	k := &killer{course: c, reached: map[string]int{}, tried: map[string]int{}}
	k.enter(t, found())
	all := failpoint.Steps()
	first := c.random(0).IntN(len(all)) // the short form has fewer rounds than there are steps
	missed := 0
	for try := 1; !c.over() && len(c.violations) == 0; try++ {
		if c.rounds >= k.until {
			k.leave(t)
			k.enter(t, found())
		}
		step := all[(first+try)%len(all)]
		k.tried[step]++
		if k.try(t, try, step) {
			if c.more() {
				c.inject(1)
				k.reached[step]++
			}
			continue
		}
		if missed++; missed > len(all)+c.rounds {
			c.violated("%d processes were to die at a step, and %d did not come to it, the last one not to %s", try, missed, step)
		}
	}
	if len(c.violations) == 0 {
		k.leave(t)
	}
	whole := c.goal >= 2*len(all) // in the short form one slow start is the machine's
	if whole && k.late > 0 {
		c.violated("%d daemons took longer than %v to be ready, the slowest %v", k.late, ready, k.slowest)
	}
	fewest := c.rounds
	for _, s := range all {
		fewest = min(fewest, k.reached[s])
		if whole {
			t.Logf("%s: %d of %d", s, k.reached[s], k.tried[s])
		}
	}
	c.note("%d acknowledged writes looked for, each of %d steps killed %d times or more (%d tries did not come to theirs), %d erases looked for, %d of them cut off and done within %v, ready in at most %v",
		k.looked, len(all), fewest, missed, k.erased, k.finished, k.longest.Round(time.Second), k.slowest.Round(time.Millisecond))
}

type killer struct {
	*course
	world
	client         *client.Client
	known          map[string]bool // erases of rounds before
	until, lives   int             // the rounds, of all, after which the world ends; the worlds that have
	tried, reached map[string]int  // by step

	looked           int           // for writes
	late             int           // daemons that were ready too late
	erased, finished int           // erases, and those that nobody was answered
	slowest, longest time.Duration // until a daemon was ready, and an erase that was cut off done
}

// demote demotes a document, again where the copies are not there in time.
func (k *killer) demote(ctx context.Context, id string) error {
	for {
		_, err := k.client.Demote(ctx, documents, id)
		if err == nil || !tiering.Retryable(err) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// enter leaves the world of the rounds before for w.
func (k *killer) enter(t *testing.T, w world) {
	k.world, k.client, k.known, k.until = w, dial(t, w.daemon.URL(), patience), map[string]bool{}, k.rounds+worldRounds
}

// leave ends a world: its primary bucket loses all segments, and what was demoted
// comes from the backup.
func (k *killer) leave(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	k.lives++
	say := func(format string, args ...any) {
		k.violated("the primary bucket lost its segments: %s", fmt.Sprintf(format, args...))
	}
	l := newLedger(func() int { return 0 })
	if err := k.scatter(ctx, l, fmt.Sprintf("life/%d", k.lives), k.random(-k.lives)); err != nil {
		say("before it: %v", err)
		return
	}
	if err := k.bereave(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := k.daemon.Start(); err != nil {
		say("the daemon does not start: %v", err)
		return
	}
	k.looked += l.check(ctx, k.client, 0, say, say)
	k.daemon.Kill()
}

// try is one process. It reports whether its step killed it.
func (k *killer) try(t *testing.T, n int, step string) (killed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	random := k.random(n)
	say := func(format string, args ...any) {
		k.violated("killed at %s in try %d: %s", step, n, fmt.Sprintf(format, args...))
	}
	most := 1
	if step == failpoint.CommitSent || step == failpoint.CommitDone {
		most = 20 // a round sees many commits, and few of the rest
	}
	l, erased := newLedger(func() int { return 0 }), ""
	steps, lease := &counter{id: fmt.Sprintf("%d/counter", n)}, &tenure{id: fmt.Sprintf("tenure-%d", n)}
	if step == failpoint.MergeUploaded { // whoever starts merges what there is
		if err := k.scatter(ctx, l, fmt.Sprint(n), random); err != nil {
			say("before it: %v", err)
			return false
		}
	}
	_, err := k.daemon.Start(fmt.Sprintf("TIERD_FAILPOINT=%s=kill@%d", step, 1+random.IntN(most)))
	switch {
	case err == nil:
		erased = k.work(ctx, l, steps, lease, n, random.Uint64())
	case !daemontest.EndedEarly(err): // else it went on with what the one before had begun, and met the step there
		say("it does not start: %v", err)
		return false
	}
	select {
	case <-k.daemon.Ended():
		if killed = k.daemon.Killed(); !killed {
			say("it has ended by itself")
		}
	case <-time.After(5 * time.Second): // what goes on in the background did not come to the step
	}
	k.daemon.Kill()
	k.lapse()
	took, err := k.daemon.Start()
	if err != nil {
		say("it does not start again: %v", err)
		return killed
	}
	k.slowest = max(k.slowest, took)
	if took > ready {
		k.late++
	}
	k.looked += l.check(ctx, k.client, 0, say, say)
	steps.check(ctx, k.client, say)
	lease.check(ctx, k.client, say)
	k.checkErases(ctx, n, erased != "", strings.HasPrefix(step, "erase.") && killed, say)
	k.daemon.Kill()
	k.lapse()
	return killed
}

// scatter has a daemon of its own leave enough small segments behind to be merged.
func (k *killer) scatter(ctx context.Context, l *ledger, under string, r *rand.Rand) error {
	if _, err := k.daemon.Start(); err != nil {
		return err
	}
	err := prepare(ctx, k.client)
	for i := 0; i < 10 && err == nil; i++ {
		id := fmt.Sprintf("%s/scattered/%d", under, i)
		if err = l.write(ctx, k.client, documents, id, r); err == nil {
			err = k.demote(ctx, id)
		}
	}
	k.daemon.Kill()
	k.lapse()
	return err
}

// subjects are the documents that a try erases.
const subjects = 3

// subject is the prefix that a try erases.
func subject(try int) string { return fmt.Sprintf("subject/%d/", try) }

// work writes, demotes and erases until it is done or the daemon is dead. It
// returns the prefix whose erase was answered as done, "" for none.
func (k *killer) work(ctx context.Context, l *ledger, steps *counter, lease *tenure, try int, seed uint64) (erased string) {
	if prepare(ctx, k.client) != nil {
		return ""
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range 25 {
				id := fmt.Sprintf("%d/%d/%d", try, w, r.IntN(2))
				ns := documents
				if w == 3 && i%2 == 0 {
					ns = lines
				}
				if l.write(ctx, k.client, ns, id, r) != nil {
					return
				}
				if i%4 == 1 && steps.raise(ctx, k.client) != nil {
					return
				}
				if i%12 == 11 {
					if _, err := k.client.Demote(ctx, documents, id); err != nil && tiering.CodeOf(err) == tiering.CodeUnavailable {
						return
					}
				}
			}
		})
	}
	workers.Go(func() {
		if lease.take(ctx, k.client) != nil {
			return
		}
		prefix := subject(try)
		for i := range subjects {
			id := fmt.Sprintf("%s%d", prefix, i)
			if _, err := k.client.Put(ctx, documents, id, []byte(`{"secret":true}`), nil); err != nil {
				return
			}
			if _, err := k.client.Demote(ctx, documents, id); err != nil {
				return
			}
		}
		no := false
		if rc, err := k.client.Erase(ctx, tiering.EraseRequest{Namespace: documents, Prefix: prefix, DryRun: &no}); err == nil && rc.State == "done" {
			erased = prefix
		}
	})
	workers.Wait()
	return erased
}

// checkErases looks at the erases of a try. One whose order lies in the bucket and in
// warm is carried out by whoever comes next, without being asked again; then, and where
// the try was answered that it is done, nothing of the subject is left. cut: the
// process died within one.
func (k *killer) checkErases(ctx context.Context, try int, answered, cut bool, say says) {
	names, err := k.orders(ctx)
	if err != nil {
		say("orders: %v", err)
		return
	}
	gone, ordered, began := answered, answered, time.Now()
	for _, name := range names {
		id, _, _ := strings.Cut(name, ".")
		if k.known[id] {
			continue
		}
		k.known[id], ordered = true, true
		switch done, err := k.await(ctx, id); {
		case errors.Is(err, tiering.ErrNotFound) && !answered && !cut: // it died before warm had it
		case err != nil || !done:
			say("erase %s is not done within %v: %v", id, erasing, err)
		default:
			gone = true
			if !answered {
				k.finished++
				k.longest = max(k.longest, time.Since(began))
			}
		}
	}
	if !gone {
		if cut && !ordered {
			say("there is no order of the erase that it died in")
		}
		return
	}
	k.erased++
	prefix := subject(try)
	for i := range subjects {
		id := fmt.Sprintf("%s%d", prefix, i)
		if d, err := k.client.Get(ctx, documents, id, &tiering.GetOptions{Strong: true}); !errors.Is(err, tiering.ErrNotFound) {
			say("%s was erased: %v, %v", id, d, err)
		}
		if h, err := k.client.History(ctx, documents, id, nil); !errors.Is(err, tiering.ErrNotFound) {
			say("%s was erased, and has a history: %v, %v", id, h, err)
		}
	}
	rc, err := k.client.Erase(ctx, tiering.EraseRequest{Namespace: documents, Prefix: prefix})
	if err != nil || rc.Keys+rc.Versions+rc.Bytes+rc.Segments != 0 {
		say("%s was erased, and there are left: %+v, %v", prefix, rc, err)
	}
}

// await waits until an erase is done.
func (k *killer) await(ctx context.Context, id string) (done bool, err error) {
	for end := time.Now().Add(erasing); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var rc *tiering.EraseReceipt
		rc, err = k.client.Erasure(ctx, id)
		if err == nil && rc.State == "done" {
			return true, nil
		}
		if err != nil && !tiering.Retryable(err) {
			return false, err
		}
	}
	return false, err
}

// TestKillCampaignsFind: a build without the version check, the fence and the second
// copy is found to lack each of them.
func TestKillCampaignsFind(t *testing.T) {
	broken := strings.Join([]string{failpoint.VersionCheck, failpoint.FenceCheck, failpoint.SecondCopy}, ",")
	k := &killer{course: &course{seed: 1}}
	k.enter(t, embeddedWorld(t, daemontest.Build(t, "failpoints"), "TIERD_FAILPOINT_SKIP="+broken))
	found := func(what string) bool {
		return slices.ContainsFunc(k.violations, func(v string) bool { return strings.Contains(v, what) })
	}
	const lost, stale, single = "/counter counts ", ": a write under token ", "the primary bucket lost its segments: life/1/"
	for try := 1; try <= 5 && !(found(lost) && found(stale)); try++ { // a process may die before it has done wrong
		k.try(t, try, failpoint.EraseCleaned)
	}
	k.leave(t)
	for what, sign := range map[string]string{failpoint.VersionCheck: lost, failpoint.FenceCheck: stale, failpoint.SecondCopy: single} {
		if !found(sign) {
			t.Errorf("without %s: nothing was found in %q", what, k.violations)
		}
	}
}
