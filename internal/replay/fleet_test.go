package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/tiering"
)

// fleet is two daemons on the same tiers.
type fleet struct {
	t       *testing.T
	config  tierd.Config
	daemons [2]*daemontest.Daemon
	clients [2]*client.Client

	mu    sync.Mutex
	lives [2]context.Context // end with the daemon
	ends  [2]context.CancelFunc
	// lastStart is when a daemon was started last.
	lastStart time.Time

	// quiet is even while nothing is broken, and odd from the begin of a fault
	// until everything serves again.
	quiet atomic.Int64
	stale atomic.Int64 // cached gets without min_version that were behind, during faults
}

func newFleet(t *testing.T, binary string, c tierd.Config) *fleet {
	t.Helper()
	f := &fleet{t: t, config: c}
	for i := range f.daemons {
		d := daemontest.New(t, binary, &daemontest.Options{Env: []string{"TIERD_HOT=" + c.Hot, "TIERD_WARM=" + c.Warm, "TIERD_COLD=" + c.Cold, "TIERD_BACKUP=" + c.Backup}})
		f.daemons[i] = d
		// Nothing is remembered: the test itself says which version it has seen.
		cl, err := client.New(d.URL(), &client.Options{RememberWrites: -1, Timeout: 10 * time.Second, Retry: client.Retry{Attempts: 2}})
		if err != nil {
			t.Fatal(err)
		}
		f.clients[i] = cl
	}
	return f
}

func (f *fleet) start() {
	for i := range f.daemons {
		f.startOne(i)
	}
}

func (f *fleet) stop() {
	for i := range f.daemons {
		f.end(i)
		f.daemons[i].Stop()
	}
}

// startOne starts daemon i and returns how long it took to listen.
func (f *fleet) startOne(i int) time.Duration {
	took := f.daemons[i].MustStart()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives[i], f.ends[i] = context.WithCancel(context.Background())
	f.lastStart = time.Now()
	return took
}

func (f *fleet) killOne(i int) {
	f.daemons[i].Kill()
	f.end(i)
}

func (f *fleet) end(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[i]()
}

// life is a context that ends with ctx, and with the life of daemon i.
func (f *fleet) life(ctx context.Context, i int) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, cancel := context.WithCancel(ctx)
	context.AfterFunc(f.lives[i], cancel)
	return out
}

// put stores step n of a session through the daemon whose turn it is, and
// through the other where that one does not answer, until one has acknowledged
// it. It returns which.
func (f *fleet) put(ctx context.Context, s session, n int) (*tiering.Receipt, int, error) {
	o := &tiering.PutOptions{User: userOf(s), WriteOptions: tiering.WriteOptions{IdempotencyKey: fmt.Sprintf("%s-%d", s.id, n)}}
	for i := n % 2; ; i = 1 - i {
		rc, err := f.clients[i].Put(ctx, namespace, s.id, s.docs[n], o)
		if err == nil || !tiering.Retryable(err) || ctx.Err() != nil {
			return rc, i, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// get reads what was just written through daemon i, or the other one.
func (f *fleet) get(ctx context.Context, id string, i int, o *tiering.GetOptions) (*tiering.Document, error) {
	for ; ; i = 1 - i {
		d, err := f.clients[i].Get(ctx, namespace, id, o)
		if err == nil || !tiering.Retryable(err) || ctx.Err() != nil {
			return d, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// readBack reads version v at the daemon that did not take it: with min_version
// it is there at once whatever is broken, without it unless something is.
func (f *fleet) readBack(ctx context.Context, id string, v int64, body []byte, i int) error {
	if rand.IntN(2) == 0 {
		d, err := f.get(ctx, id, i, &tiering.GetOptions{MinVersion: v})
		if err != nil || d.Version != v || !bytes.Equal(d.Body, body) {
			return fmt.Errorf("a get with min_version %d: %v, %w", v, versionOf(d), err)
		}
		return nil
	}
	before := f.quiet.Load()
	d, err := f.get(ctx, id, i, nil)
	if errors.Is(err, tiering.ErrNotFound) {
		d, err = &tiering.Document{}, nil
	}
	if err != nil {
		return fmt.Errorf("a cached get: %w", err)
	}
	if d.Version == v && bytes.Equal(d.Body, body) {
		return nil
	}
	if before%2 == 0 && f.quiet.Load() == before {
		return fmt.Errorf("a cached get from %s answers version %d behind an acknowledged %d, and nothing is broken", d.Tier, d.Version, v)
	}
	f.stale.Add(1)
	return nil
}

func versionOf(d *tiering.Document) int64 {
	if d == nil {
		return 0
	}
	return d.Version
}

// load writes sessions, many at once, until all of them were written and until
// ends. An agent thinks between two steps.
type load struct {
	acked    *acked
	sessions []session // those that were written
	took     time.Duration
}

func (f *fleet) write(ctx context.Context, sessions []session, think time.Duration, until <-chan struct{}) *load {
	l := &load{acked: newAcked()}
	work := make(chan session)
	var wg sync.WaitGroup
	began := time.Now()
	for range parallel {
		wg.Go(func() {
			for s := range work {
				if err := f.converse(ctx, s, think, l.acked); err != nil {
					f.t.Errorf("session %s: %v", s.id, err)
				}
			}
		})
	}
	for round := 0; ctx.Err() == nil; round++ {
		for _, s := range sessions {
			if round > 0 {
				select {
				case <-until:
					close(work)
					wg.Wait()
					l.took = time.Since(began)
					return l
				default:
				}
				s = s.again(f.t, round)
			}
			l.sessions = append(l.sessions, s)
			work <- s
		}
	}
	close(work)
	wg.Wait()
	return l
}

// converse writes one session, step by step.
func (f *fleet) converse(ctx context.Context, s session, think time.Duration, a *acked) error {
	for n := range s.docs {
		began := time.Now()
		rc, i, err := f.put(ctx, s, n)
		if err != nil {
			return fmt.Errorf("put of step %d: %w", n, err)
		}
		a.add(s.id, rc.Version, began, time.Now())
		if err := f.readBack(ctx, s.id, rc.Version, s.docs[n], 1-i); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
		if think > 0 {
			time.Sleep(think/2 + rand.N(think))
		}
	}
	return nil
}
