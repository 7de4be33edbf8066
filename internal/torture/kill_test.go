package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// What a daemon that was killed may take.
const (
	ready   = 5 * time.Second  // until it serves
	erasing = 60 * time.Second // until an erase that it died in is done
)

// steps are where daemons are killed. A merge is nothing that a round can bring
// about: the lifecycle's own tests kill it at each of its changes.
func steps() []string {
	return slices.DeleteFunc(failpoint.Steps(), func(s string) bool { return s == failpoint.MergeUploaded })
}

// killEmbedded kills an embedded daemon at each step in turn, under writers,
// demotions and erases, starts it again, and looks for everything that was
// acknowledged, and for what an erase has left. A round is one process that the step
// has killed.
func killEmbedded(t *testing.T, c *course) {
	d := daemontest.New(t, daemontest.Build(t, "failpoints"), nil)
	killRounds(t, c, d, func(context.Context) ([]string, error) {
		entries, err := os.ReadDir(filepath.Join(d.Data(), "cold", lifecycle.OrdersPrefix))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names, err
	})
}

// killReal is killEmbedded with PostgreSQL, S3 and Redis below the daemon.
func killReal(t *testing.T, c *course) {
	schema, _ := servicestest.Schema(t)
	bucket := servicestest.Bucket(t, servicestest.Variable(t, "TIERD_COLD"), false)
	backup := servicestest.Bucket(t, servicestest.Variable(t, "TIERD_BACKUP"), false)
	place, err := s3url.Parse(bucket)
	if err != nil {
		t.Fatal(err)
	}
	objects := servicestest.Objects(t, place)
	d := daemontest.New(t, daemontest.Build(t, "failpoints"), &daemontest.Options{Env: []string{
		"TIERD_HOT=" + servicestest.Variable(t, "TIERD_HOT"), "TIERD_WARM=" + schema, "TIERD_COLD=" + bucket, "TIERD_BACKUP=" + backup}})
	killRounds(t, c, d, func(ctx context.Context) (names []string, err error) {
		for o := range objects.ListObjects(ctx, place.Bucket, minio.ListObjectsOptions{Prefix: lifecycle.OrdersPrefix, Recursive: true}) {
			names, err = append(names, strings.TrimPrefix(o.Key, lifecycle.OrdersPrefix)), errors.Join(err, o.Err)
		}
		return names, err
	})
}

// killRounds kills d until enough processes have died at their step. orders lists
// the erase orders in the primary bucket.
func killRounds(t *testing.T, c *course, d *daemontest.Daemon, orders func(context.Context) ([]string, error)) {
	k := &killer{course: c, daemon: d, client: dial(t, d.URL()), orders: orders, known: map[string]bool{}, reached: map[string]int{}}
	all := steps()
	first := c.random(0).IntN(len(all)) // the short form has fewer rounds than there are steps
	missed := 0
	for try := 1; !c.over() && len(c.violations) == 0; try++ {
		step := all[(first+try)%len(all)]
		if k.try(t, try, step) {
			c.more()
			c.inject(1)
			k.reached[step]++
			continue
		}
		if missed++; missed > len(all)+c.rounds {
			c.violated("%d processes were to die at a step, and %d did not come to it, the last one not to %s", try, missed, step)
		}
	}
	fewest := c.rounds
	for _, s := range all {
		fewest = min(fewest, k.reached[s])
	}
	c.note("%d acknowledged writes looked for, each of %d steps killed %d times or more (%d tries did not come to theirs), %d erases looked for, %d of them cut off, ready in at most %v",
		k.looked, len(all), fewest, missed, k.erased, k.finished, k.slowest.Round(time.Millisecond))
}

type killer struct {
	*course
	daemon  *daemontest.Daemon
	client  *client.Client
	orders  func(context.Context) ([]string, error)
	known   map[string]bool // erases of rounds before
	reached map[string]int

	looked           int // for writes
	erased, finished int // erases, and those that nobody was answered
	slowest          time.Duration
}

// try is one process. It reports whether its step killed it.
func (k *killer) try(t *testing.T, n int, step string) (killed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
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
	_, err := k.daemon.Start(fmt.Sprintf("TIERD_FAILPOINT=%s=kill@%d", step, 1+random.IntN(most)))
	switch {
	case err == nil:
		erased = k.work(ctx, l, n, random.Uint64())
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
	took, err := k.daemon.Start()
	if err != nil {
		say("it does not start again: %v", err)
		return killed
	}
	k.slowest = max(k.slowest, took)
	if took > ready {
		say("it was ready after %v", took)
	}
	k.looked += l.check(ctx, k.client, 0, say, say)
	k.checkErases(ctx, n, erased != "", strings.HasPrefix(step, "erase.") && killed, say)
	k.daemon.Kill()
	return killed
}

// subjects are the documents that a try erases.
const subjects = 3

// subject is the prefix that a try erases.
func subject(try int) string { return fmt.Sprintf("subject/%d/", try) }

// work writes, demotes and erases until it is done or the daemon is dead. It
// returns the prefix whose erase was answered as done, "" for none.
func (k *killer) work(ctx context.Context, l *ledger, try int, seed uint64) (erased string) {
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
				if i%12 == 11 {
					if _, err := k.client.Demote(ctx, documents, id); err != nil && tiering.CodeOf(err) == tiering.CodeUnavailable {
						return
					}
				}
			}
		})
	}
	workers.Go(func() {
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
	gone := answered
	for _, name := range names {
		id, _, _ := strings.Cut(name, ".")
		if k.known[id] {
			continue
		}
		k.known[id] = true
		switch done, err := k.await(ctx, id); {
		case errors.Is(err, tiering.ErrNotFound) && !answered && !cut: // it died before warm had it
		case err != nil || !done:
			say("erase %s is not done within %v: %v", id, erasing, err)
		default:
			gone = true
			if !answered {
				k.finished++
			}
		}
	}
	if !gone {
		if cut {
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
