package torture

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// ready is how soon a daemon has to serve after it was killed.
const ready = 5 * time.Second

// steps are where daemons are killed. A merge is nothing that a round can bring
// about: the lifecycle's own tests kill it at each of its changes.
func steps() []string {
	all := failpoint.Steps()
	return all[:len(all)-1]
}

// killEmbedded kills an embedded daemon at each step in turn, under writers,
// demotions and erases, starts it again, and looks for everything that was
// acknowledged. A round is one kill.
func killEmbedded(t *testing.T, c *course) {
	killRounds(t, c, newDaemon(t, buildDaemon(t), nil, "--data", filepath.Join(t.TempDir(), "data")))
}

// killReal is killEmbedded with PostgreSQL, S3 and Redis below the daemon.
func killReal(t *testing.T, c *course) {
	schema, _ := servicestest.Schema(t)
	env := []string{"TIERD_HOT=" + servicestest.Variable(t, "TIERD_HOT"), "TIERD_WARM=" + schema,
		"TIERD_COLD=" + bucket(t, "TIERD_COLD"), "TIERD_BACKUP=" + bucket(t, "TIERD_BACKUP")}
	killRounds(t, c, newDaemon(t, buildDaemon(t), env, "--data", filepath.Join(t.TempDir(), "data")))
}

// bucket makes a bucket on the server that a variable names, and returns the URL
// of it. It goes when the test ends.
func bucket(t *testing.T, variable string) string {
	t.Helper()
	p, err := s3url.Parse(servicestest.Variable(t, variable))
	if err != nil {
		t.Fatal(err)
	}
	p.Bucket, p.Prefix = "tierd-torture-"+strings.ToLower(crand.Text()[:12]), ""
	u, err := url.Parse(p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	api, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewEnvAWS(), Secure: u.Scheme == "https", Region: p.Region, BucketLookup: minio.BucketLookupPath})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.MakeBucket(t.Context(), p.Bucket, minio.MakeBucketOptions{Region: p.Region}); err != nil {
		t.Fatalf("make a bucket: %v", err)
	}
	t.Cleanup(func() {
		if err := api.RemoveBucketWithOptions(context.Background(), p.Bucket, minio.RemoveBucketOptions{ForceDelete: true}); err != nil {
			t.Errorf("remove the bucket: %v", err)
		}
	})
	return p.String()
}

func killRounds(t *testing.T, c *course, d *daemon) {
	k := &killer{course: c, daemon: d, client: dial(t, "http://"+d.addr), reached: map[string]int{}}
	for round := 0; c.more(); round++ {
		if !k.round(t, round, steps()[round%len(steps())]) {
			break
		}
	}
	fewest := c.rounds
	for _, s := range steps() {
		fewest = min(fewest, k.reached[s])
	}
	c.note("%d acknowledged writes looked for, each of %d steps killed %d times or more, ready in at most %v",
		k.looked, len(steps()), fewest, k.slowest.Round(time.Millisecond))
}

type killer struct {
	*course
	daemon  *daemon
	client  *client.Client
	reached map[string]int
	looked  int
	slowest time.Duration
}

// round is one kill. false: there is no daemon any more.
func (k *killer) round(t *testing.T, round int, step string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	random := k.random(round)
	say := func(format string, args ...any) {
		k.violated("killed at %s in round %d: %s", step, round, fmt.Sprintf(format, args...))
	}
	most := 1
	if step == failpoint.CommitSent || step == failpoint.CommitDone {
		most = 40 // a round sees many commits, and few of the rest
	}
	l, erased := newLedger(func() int { return 0 }), ""
	_, err := k.daemon.start(fmt.Sprintf("%s=kill@%d", step, 1+random.IntN(most)))
	switch {
	case err == nil:
		erased = k.work(ctx, l, round, random.Uint64())
	case !errors.Is(err, errEarly): // else it went on with an erase, and met the step there
		say("it does not start: %v", err)
		return false
	}
	select {
	case <-k.daemon.ended:
		k.reached[step]++
		k.inject(1)
	case <-time.After(3 * time.Second): // the step was not reached
	}
	k.daemon.kill()
	took, err := k.daemon.start("")
	if err != nil {
		say("it does not start again: %v", err)
		return false
	}
	k.slowest = max(k.slowest, took)
	if took > ready {
		say("it was ready after %v", took)
	}
	k.looked += l.check(ctx, k.client, 0, say)
	if erased != "" {
		k.checkErased(ctx, erased, say)
	}
	k.daemon.kill()
	return true
}

// work writes, demotes and erases until it is done or the daemon is dead. It
// returns the prefix whose erase was ordered, "" for none.
func (k *killer) work(ctx context.Context, l *ledger, round int, seed uint64) (erased string) {
	if prepare(ctx, k.client) != nil {
		return ""
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range 25 {
				id := fmt.Sprintf("%d/%d/%d", round, w, r.IntN(2))
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
		prefix := fmt.Sprintf("subject/%d/", round)
		for i := range 3 {
			id := fmt.Sprintf("%s%d", prefix, i)
			if _, err := k.client.Put(ctx, documents, id, []byte(`{"secret":true}`), nil); err != nil {
				return
			}
			if _, err := k.client.Demote(ctx, documents, id); err != nil {
				return
			}
		}
		no := false
		if _, err := k.client.Erase(ctx, tiering.EraseRequest{Namespace: documents, Prefix: prefix, DryRun: &no}); err == nil {
			erased = prefix
		}
	})
	workers.Wait()
	return erased
}

// checkErased: what an erase was acknowledged for does not come back.
func (k *killer) checkErased(ctx context.Context, prefix string, say func(string, ...any)) {
	for i := range 3 {
		id := fmt.Sprintf("%s%d", prefix, i)
		if _, err := k.client.Get(ctx, documents, id, &tiering.GetOptions{Strong: true}); !errors.Is(err, tiering.ErrNotFound) {
			say("%s was erased: %v", id, err)
		}
	}
}
