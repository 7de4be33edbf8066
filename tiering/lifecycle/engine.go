package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/warm"
)

// Config is what an engine works on. Warm and Archive are required; the zero
// value of the rest works.
type Config struct {
	Warm    warm.Store
	Archive *cold.Archive
	// Hot is cleared of what is erased; nil when there is none.
	Hot hot.Store
	// HotLease is how long a reader may take to fill Hot; 0 means hot.LeaseTTL.
	HotLease time.Duration
	// Memories is what memories are indexed with; none by default.
	Memories Memories

	// Holder names this daemon in leases; it must be unique among daemons.
	Holder string
	// SegmentBytes and SegmentAge bound how long changes wait for the archive:
	// a segment is written when either is reached. 0 means 8 MiB and 10 s.
	SegmentBytes int64
	SegmentAge   time.Duration
	// FeedAge is how long the feed, idempotency results and batch ids are
	// kept; 0 means 24 h.
	FeedAge time.Duration
	// SweepEvery is how often warm is looked through for moves that are due; 0
	// means 1 min.
	SweepEvery time.Duration
	// MergeCount segments of a tenant that lie side by side and are each below
	// MergeBelow bytes are merged; 0 means 8 and 4 MiB.
	MergeCount int
	MergeBelow int64
	// MergeEvery is how often segments are looked through for what can be
	// merged or collected; 0 means 1 min.
	MergeEvery time.Duration
	// Grace is how long the objects of a replaced segment stay, for readers
	// that looked it up before; 0 means 1 h.
	Grace time.Duration
	// CollectCap bounds how many objects one run deletes; 0 means 1000.
	CollectCap int
	// VerifyEvery is how often a copy of a segment, chosen at random, is read
	// back; 0 means 1 min.
	VerifyEvery time.Duration
	// PolicySettle is how old a policy has to be before an index that it asks for
	// is built: longer than any daemon goes by the one before. 0 means 10 s.
	PolicySettle time.Duration
	// LeaseTTL is how long a worker may be silent before another takes over;
	// 0 means 30 s.
	LeaseTTL time.Duration

	Recorder Recorder
	Logger   *slog.Logger
}

// Recorder takes the engine's measurements.
type Recorder interface {
	// ArchiveLag is how many feed entries wait for the archive, and how old
	// the oldest is.
	ArchiveLag(entries int64, oldest time.Duration)
	// FeedLag is how many committed transactions are not in the feed yet.
	FeedLag(entries int64)
	// MissingCopies is how many segments lack a copy.
	MissingCopies(c tiering.Copy, segments int64)
	// CopyChecked is one copy of a segment that was read back: sound, or what
	// is wrong with it.
	CopyChecked(c tiering.Copy, err error)
	// CopyRepaired is one copy that was made again from the other, or failed.
	CopyRepaired(c tiering.Copy, err error)
	// Moved is one move: done, or not because the world had moved on, or failed.
	Moved(m tiering.Move, done bool, err error)
	// Due is how many of a move fall due within a day.
	Due(m tiering.Move, n int64)
	// Stored is how many bytes a tier holds; c counts for cold alone.
	Stored(t tiering.Tier, c tiering.Copy, bytes int64)
	// Indexed is what the index of memories holds, and how many memories wait for
	// the vector of their text.
	Indexed(s vector.Stats, pending int64)
	// Parked is how many moves keep failing.
	Parked(n int)
}

type discard struct{}

func (discard) ArchiveLag(int64, time.Duration)   {}
func (discard) FeedLag(int64)                     {}
func (discard) MissingCopies(tiering.Copy, int64) {}
func (discard) CopyChecked(tiering.Copy, error)   {}
func (discard) CopyRepaired(tiering.Copy, error)  {}
func (discard) Moved(tiering.Move, bool, error)   {}
func (discard) Due(tiering.Move, int64)           {}
func (discard) Stored(tiering.Tier, tiering.Copy, int64) {
}
func (discard) Indexed(vector.Stats, int64) {}
func (discard) Parked(int)                  {}

// Engine runs the background workers of one daemon. Run starts them; the other
// methods may be called at any time, from any goroutine.
type Engine struct {
	Config
	archiving  turn // one archive step at a time in this process
	renaming   turn // one segment at a time leaves its name
	erasures   erasures
	merges     merges // what is known of segments between two runs of merge
	succession succession
	suspects   suspects  // segments of which a read found a copy bad
	indexer    indexer   // the index worker's
	pass       pass      // the sweep worker's
	sampled    time.Time // when a copy was last read back; the verify worker's

	mu       sync.Mutex
	parked   map[string]*tiering.ParkedMove
	damaged  map[tiering.Key]bool   // documents that parked names
	forecast map[tiering.Move]int64 // of the last sweep
	leases   map[string]warm.Lease  // of workers, as they were taken last
}

// New returns an engine that does nothing until Run.
func New(c Config) *Engine {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	fill(&c.SegmentAge, 10*time.Second)
	fill(&c.FeedAge, 24*time.Hour)
	fill(&c.SweepEvery, time.Minute)
	fill(&c.MergeEvery, time.Minute)
	fill(&c.Grace, time.Hour)
	fill(&c.VerifyEvery, time.Minute)
	fill(&c.PolicySettle, 10*time.Second)
	fill(&c.LeaseTTL, 30*time.Second)
	fill(&c.HotLease, hot.LeaseTTL)
	if c.MergeCount == 0 {
		c.MergeCount = 8
	}
	if c.MergeBelow == 0 {
		c.MergeBelow = 4 << 20
	}
	if c.CollectCap == 0 {
		c.CollectCap = 1000
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 8 << 20
	}
	if c.Holder == "" {
		c.Holder = "tierd"
	}
	if c.Recorder == nil {
		c.Recorder = discard{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{Config: c, archiving: make(turn, 1), renaming: make(turn, 1), parked: map[string]*tiering.ParkedMove{}, damaged: map[tiering.Key]bool{}, leases: map[string]warm.Lease{}}
}

// Run works until ctx ends, then returns when every worker has stopped.
func (e *Engine) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for name, step := range map[string]func(context.Context, warm.Lease) (time.Duration, error){
		"archive":   e.archiveWhenDue,
		"replicate": e.replicate,
		"erase":     e.erase,
		"orders":    e.finishOrders,
		"merge":     e.merge,
		"sweep":     e.sweep,
		"trim":      e.trim,
		"verify":    e.sampleCopies,
		"queries":   e.indexQueries,
		"memories":  e.index,
	} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			e.work(ctx, name, step)
		}()
	}
	wg.Wait()
}

// How a failing worker waits.
const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 5 * time.Minute
	// awayBackoff is lastBackoff where a tier does not answer: its return has to
	// be noticed within seconds, and to ask costs little.
	awayBackoff = 3 * time.Second
	parkAfter   = 5 // failures in a row before a worker shows as parked
)

// backoff is the pause behind a number of failures in a row, of which err is
// the last.
func backoff(failures int, err error) time.Duration {
	last := lastBackoff
	if errors.Is(tiering.Wrap(err, "", "", tiering.Key{}), tiering.ErrUnavailable) {
		last = awayBackoff
	}
	return min(firstBackoff<<min(failures-1, 16), last)
}

// work runs one worker's steps while it holds the lease of its name. A step
// says how long to wait for the next. A step that fails is tried again with
// growing pauses, for ever, and shows as parked meanwhile.
func (e *Engine) work(ctx context.Context, name string, step func(context.Context, warm.Lease) (time.Duration, error)) {
	failures := 0
	for ctx.Err() == nil {
		pause, err := e.underLease(ctx, name, step)
		if errors.Is(err, errElsewhere) {
			pause, err = e.LeaseTTL/3, nil
		}
		if err != nil && ctx.Err() == nil {
			failures++
			pause = backoff(failures, err)
			e.park(name, "worker", failures, err)
			if failures&(failures-1) == 0 { // of an outage not every try
				e.Logger.Warn("background worker failed", "worker", name, "failures", failures, "retry_in", pause, "err", err)
			}
		} else if err == nil && failures > 0 {
			failures = 0
			e.unpark(name, "worker")
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// underLease runs one step if this daemon holds the lease, and fails with
// lease_held if another does.
func (e *Engine) underLease(ctx context.Context, name string, step func(context.Context, warm.Lease) (time.Duration, error)) (time.Duration, error) {
	l, ok, err := e.Warm.Acquire(ctx, name, e.Holder, e.LeaseTTL)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, &tiering.Error{Code: tiering.CodeLeaseHeld, RetryAfter: e.LeaseTTL / 3, Err: errElsewhere, Detail: fmt.Sprintf("daemon %s does the work %q until %s", l.Holder, name, l.Expires.Format(time.RFC3339))}
	}
	e.took(l)
	return step(warm.Under(ctx, l), l)
}

func (e *Engine) took(l warm.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases[l.Name] = l
}

// Resign gives up the leases of the workers once Run has returned: another daemon
// need not wait until they lapse.
func (e *Engine) Resign(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for name, l := range e.leases {
		errs = append(errs, e.Warm.Release(ctx, l))
		delete(e.leases, name)
	}
	return errors.Join(errs...)
}

// errElsewhere is a worker's lease in the hands of another daemon.
var errElsewhere = errors.New("another daemon does this work")

// stillHeld renews a lease, and fails when it was lost, even if nobody has it
// now. Asked once an intent stands, it closes a gap: whoever takes over later
// finds the intent and drops it; whoever did before may have archived the same
// run, and found none to drop.
func (e *Engine) stillHeld(ctx context.Context, l warm.Lease) error {
	now, ok, err := e.Warm.Acquire(ctx, l.Name, l.Holder, e.LeaseTTL)
	if err != nil {
		return err
	}
	if !ok || now.Token != l.Token {
		return tiering.Errorf(tiering.CodeFenced, "the lease %s was lost while its holder was paused", l.Name)
	}
	return nil
}

// turn is a lock that is waited for no longer than a context lasts: who holds
// it may wait for a bucket that does not answer.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// sleep waits for d, false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errNoProgress is a step that could do nothing at all.
var errNoProgress = errors.New("neither bucket took the segment")
