package router

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/internal/soundness"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/window"
)

// Config is what a router stands on. Hot and Warm are required; the zero value
// of the rest works.
type Config struct {
	Hot  hot.Store
	Warm warm.Store
	// Archive reads history that left warm; nil when there is no cold tier.
	Archive *cold.Archive
	// Memories is what memories are indexed and found with; none by default.
	Memories Memories
	// Background is the engine that archives and erases; nil when there is none.
	Background Background
	// Summaries makes what stands in contexts in place of old turns. nil: summaries
	// are extractive, and nothing of a session is sent anywhere.
	Summaries window.Summariser

	// Committers is how many batches may be in flight at once; 0 means 1.
	Committers int
	// NoAutoCreate refuses writes to namespaces that were not created first.
	NoAutoCreate bool
	// CommitTimeout bounds one statement of warm; 0 means 10 s. It is shorter
	// than hot.TokenTTL, so that a pending mark outlives the commit it guards.
	CommitTimeout time.Duration
	// HotTimeout bounds one call to hot; 0 means 250 ms. Negative: hot is in this
	// process and never waits, so that a deadline would only cost.
	HotTimeout time.Duration
	// PolicyTTL is how old a cached policy may be; 0 means 1 s. A policy set
	// through this router is in force at once.
	PolicyTTL time.Duration
	// EpochEvery is how often the hot epoch is read from warm, besides in every
	// commit, where hot has epochs; 0 means 1 s.
	EpochEvery time.Duration
	// SummaryWait is how long a context waits for the first summary of its session;
	// 0 means 3 s.
	SummaryWait time.Duration
	// Clock is the local clock, used for bounds on caches alone: ages and
	// expiries are warm's. nil means time.Now.
	Clock func() time.Time

	Recorder Recorder
	Logger   *slog.Logger
	// Version of tierd, for status.
	Version string
	// Drivers names the driver of each tier, for status.
	Drivers Drivers
}

// Drivers are the schemes that the tiers were opened by.
type Drivers struct{ Hot, Warm, Primary, Backup, Vector string }

// Router is the request path of one tenant, seen by one principal. It
// satisfies tiering.Service and is safe for concurrent use. As makes views of
// the same router for other principals.
type Router struct {
	*core
	who tiering.Principal
	own bool // it writes what sessions share, which callers do not reach
}

var _ tiering.Service = (*Router)(nil)

// core is what all views of a router share.
type core struct {
	Config
	remote      warm.Remote // warm, where it can be away; else nil
	queue       *queue
	flights     flights
	epochs      epochs
	policies    policyCache
	apiKeys     parsedKeys
	keyPolicy   *policy // of API keys
	watchers    *feedReader
	started     time.Time
	slides      slides
	summaries   summaries
	recallNotes recallNotes
	warmTime    warmClock
	hotJudge    soundness.Breaker

	closing    context.Context
	close      context.CancelFunc
	mu         sync.Mutex // of closed, and of background while it may be at zero
	closed     bool
	background sync.WaitGroup // atomic batches until they are settled, loads, slides, and who follows the hot epoch
}

// New returns a router for the whole default tenant. Close it before the
// stores it stands on.
func New(c Config) *Router {
	if c.CommitTimeout == 0 {
		c.CommitTimeout = 10 * time.Second
	}
	if c.HotTimeout == 0 {
		c.HotTimeout = 250 * time.Millisecond
	}
	if c.PolicyTTL == 0 {
		c.PolicyTTL = time.Second
	}
	if c.EpochEvery == 0 {
		c.EpochEvery = epochEvery
	}
	if c.Committers == 0 {
		c.Committers = 1
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Recorder == nil {
		c.Recorder = discard{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &core{Config: c, started: c.Clock(), flights: flights{joins: underLease}, keyPolicy: reservedPolicy()}
	r.closing, r.close = context.WithCancel(context.Background())
	r.remote, _ = warm.As[warm.Remote](c.Warm)
	r.queue = newQueue(c.Warm, c.Committers, c.CommitTimeout, c.Recorder)
	r.queue.mark, r.queue.settle = r.markKeys, r.settleAll
	r.queue.away, r.queue.closing = r.warmAway, r.closing
	r.watchers = newFeedReader(c.Warm, c.Clock)
	if store, ok := hot.As[hot.Epochal](c.Hot); ok {
		r.epochs.store, r.epochs.miss, r.epochs.every = store, make(chan struct{}, 1), c.EpochEvery
		r.background.Go(r.followEpochs)
	}
	return &Router{core: r, who: tiering.Principal{Tenant: tiering.DefaultTenant}}
}

// As returns the same router as p sees it: p's tenant, within p's scope.
func (r *Router) As(p tiering.Principal) *Router { return &Router{core: r.core, who: p} }

// Close waits for every write that was accepted to be settled, so that whoever
// was told of a write finds it whole in hot and warm. It waits for a commit and
// the calls to hot before and behind it to time out, and no longer: a store that ignores its deadline
// must not keep a node from stopping. What it left then is logged; nobody was
// told that it was done. Calls made after Close fail with unavailable.
func (r *Router) Close() {
	r.close()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.queue.refuse()
	settled := make(chan struct{})
	go func() { // outlives Close only with what it waits for
		defer close(settled)
		r.queue.running.Wait()
		r.background.Wait()
	}()
	bound := r.CommitTimeout + 2*max(0, r.HotTimeout)
	patience := time.NewTimer(bound)
	defer patience.Stop()
	select {
	case <-settled:
	case <-patience.C:
		waiting, inflight := r.queue.abandon()
		r.Logger.Error("closed before every write was settled: nobody was told that these were done",
			"waited", bound, "refused", waiting, "in_flight", inflight)
	}
}

func (r *Router) key(ns, id string) tiering.Key {
	return tiering.Key{Tenant: r.who.Tenant, Namespace: ns, ID: id}
}

// enter begins work that Close waits for, until background.Done is called. It
// fails once the router is closed.
func (r *core) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosing()
	}
	r.background.Add(1)
	return nil
}

// detached runs work that must finish though its caller may leave. It fails,
// and runs nothing, once the router is closed.
func (r *core) detached(work func(ctx context.Context)) error {
	if err := r.enter(); err != nil {
		return err
	}
	go func() {
		defer r.background.Done()
		ctx, cancel := context.WithTimeout(context.Background(), r.CommitTimeout)
		defer cancel()
		work(ctx)
	}()
	return nil
}

// open fails once Close was called.
func (r *core) open() error {
	if r.closing.Err() != nil {
		return errClosing()
	}
	return nil
}

func errClosing() error {
	return tiering.Errorf(tiering.CodeUnavailable, "the node is shutting down")
}
