package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// raced runs a race twice in each place: on tierd as it is, where what must hold
// does, and on a naive variant of the part that stands against it, where it must
// not, or the test would prove nothing. run returns what was broken.
func raced(t *testing.T, run func(n *node, naive bool) error) {
	t.Helper()
	for _, p := range places() {
		t.Run(string(p)+", as it is", func(t *testing.T) {
			if err := run(newNodeAt(t, p, lifecycle.Config{}), false); err != nil {
				t.Error(err)
			}
		})
		t.Run(string(p)+", naive", func(t *testing.T) {
			err := run(newNodeAt(t, p, lifecycle.Config{}), true)
			if err == nil {
				t.Error("the naive variant passes: the race was not run")
			}
			t.Log(err)
		})
	}
}

// inPlaces runs a test in each of some places.
func inPlaces(t *testing.T, name string, in []place, run func(t *testing.T, p place)) {
	t.Helper()
	for _, p := range in {
		t.Run(string(p)+", "+name, func(t *testing.T) { run(t, p) })
	}
}

// reader returns a router that has read nothing yet.
func (n *node) reader(store warm.Store) *router.Router {
	h := memory.Open(nil)
	r := router.New(router.Config{Hot: h, Warm: store, Archive: n.archive})
	n.Cleanup(func() {
		r.Close()
		_ = h.Close()
	})
	return r.As(tiering.Principal{Tenant: tenant})
}

// held holds the next segment that is written, at both buckets, until the gate
// opens; wait returns once it is there.
func (n *node) held(gate <-chan struct{}) (wait func()) {
	var reached [2]chan struct{}
	for i, b := range n.buckets {
		reached[i] = make(chan struct{})
		b.Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Reached: reached[i], Gate: gate})
	}
	return func() {
		for _, r := range reached {
			<-r
		}
	}
}

// background runs do beside the test, which waits for it with the result.
func (n *node) background(do func(context.Context) error) (wait func() error) {
	done := make(chan error, 1)
	ctx := context.WithoutCancel(n.ctx)
	go func() { done <- do(ctx) }()
	return func() error { return <-done }
}

// bottomless is a store whose reader falls through to cold where warm has
// nothing that lives: the newest location decides, and not the head.
type bottomless struct{ warm.Store }

func (b bottomless) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	cur, err := b.Store.Load(ctx, key)
	if err != nil || cur.Head.Live(cur.Now) {
		return cur, err
	}
	locs, err := b.Locations(ctx, key)
	if err != nil || len(locs) == 0 {
		return cur, err
	}
	v, _, err := b.Version(ctx, key, locs[0].MaxVersion)
	cur.Head.Op, cur.Head.Version, cur.Head.Digest, cur.Head.Size = tiering.OpPut, locs[0].MaxVersion, v.Digest, v.Size
	return cur, err
}

// R05: the archiver has read v1, a writer deletes, the archiver writes v1 and
// finishes. Cold knows of no deletion when a reader comes.
func TestRaceR05ArchiveBehindADelete(t *testing.T) {
	t.Parallel()
	raced(t, func(n *node, naive bool) error {
		n.policy("notes", tiering.Policy{})
		k, first := key("k"), n.put("k")
		gate := make(chan struct{})
		reached := n.held(gate)
		archived := n.background(n.engine.Flush)
		reached()
		second := n.del("k")
		// Flush goes on until the feed is empty: what it reads behind v1, the
		// deletion, must not be in cold yet.
		for _, b := range n.buckets {
			b.Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Before: errDown})
		}
		close(gate)
		if archived() == nil {
			n.Fatal("the deletion was archived")
		}
		if got := n.records(k); got != fmt.Sprintf("put%d", first.Version) {
			n.Fatalf("cold holds %q, want v1 alone", got)
		}

		var store warm.Store = n.store
		if naive {
			store = bottomless{store}
		}
		r := n.reader(store)
		var broken []error
		for _, o := range []*tiering.GetOptions{{}, {Strong: true}} {
			if d, err := r.Get(n.ctx, k.Namespace, k.ID, o); !errors.Is(err, tiering.ErrNotFound) {
				broken = append(broken, fmt.Errorf("strong %t: got %v, %v, want not found", o.Strong, d, err))
			}
		}
		if rec, ok := n.fromCold(k, first.Version); !ok || rec.Digest != first.Digest {
			broken = append(broken, errors.New("v1 is not in cold"))
		}
		old, err := r.Get(n.ctx, k.Namespace, k.ID, &tiering.GetOptions{Version: first.Version})
		if err != nil || old.Digest != first.Digest {
			broken = append(broken, fmt.Errorf("version 1 by its number: %v, %w", old, err))
		}
		h, err := r.History(n.ctx, k.Namespace, k.ID, nil)
		if err != nil || len(h.Versions) != 2 || h.Versions[0].Version != second.Version || h.Versions[1].Version != first.Version {
			broken = append(broken, fmt.Errorf("history: %+v, %w", h, err))
		}
		return errors.Join(broken...)
	})
}

// pausedDemote holds a demotion until the gate opens. Ages do not guard it: its
// clock takes everything for idle. unguarded, it drops whatever is current.
type pausedDemote struct {
	warm.Store
	reached, gate chan struct{}
	unguarded     bool
}

func (p *pausedDemote) DemoteAll(ctx context.Context, of []warm.Demotion) ([]bool, error) {
	close(p.reached)
	<-p.gate
	for i, d := range of {
		if p.unguarded {
			cur, err := p.Head(ctx, d.Key)
			if err != nil {
				return nil, err
			}
			of[i].Version = cur.Head.Version
		}
		of[i].Idle = d.Idle.Add(1000 * day)
	}
	return p.Store.DemoteAll(ctx, of)
}

// idleHour demotes what was idle for an hour.
var idleHour = tiering.Policy{DemoteAfter: tiering.Duration(time.Hour)}

// R06: the demoter has looked at v1, a writer commits v2, which reaches both
// buckets, the demoter drops: it drops v1.
func TestRaceR06DemotionBehindACommit(t *testing.T) {
	t.Parallel()
	raced(t, func(n *node, naive bool) error {
		n.policy("notes", idleHour)
		k := key("k")
		n.put("k")
		n.flush()
		n.tick(2 * time.Hour)
		paused := &pausedDemote{Store: n.store, reached: make(chan struct{}), gate: make(chan struct{}), unguarded: naive}
		config := n.config
		config.Warm = paused
		swept := n.background(lifecycle.New(config).Sweep)
		<-paused.reached
		second := n.put("k")
		n.flush()
		close(paused.gate)
		n.no(swept())
		cur, err := n.store.Load(n.ctx, k)
		n.no(err)
		if cur.Head.Version != second.Version || !cur.Head.InWarm || tiering.DigestOf(cur.Body) != second.Digest {
			return fmt.Errorf("warm holds %+v with %q, want v2 with its bytes", cur.Head, cur.Body)
		}
		return nil
	})
}

// assuming is a catalog that takes both copies for verified, whatever was.
type assuming struct{ warm.Store }

func (a assuming) FinishSegment(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location, reader string, pos int64) error {
	s.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	return a.Store.FinishSegment(ctx, s, locations, reader, pos)
}

// counted remembers the last figure of missing copies; the rest goes nowhere.
type counted struct {
	lifecycle.Recorder
	mu      sync.Mutex
	missing [2]int64
}

func (c *counted) MissingCopies(of tiering.Copy, segments int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing[of] = segments
}

func (c *counted) ArchiveLag(int64, time.Duration)          {}
func (c *counted) CopyChecked(tiering.Copy, error)          {}
func (c *counted) CopyRepaired(tiering.Copy, error)         {}
func (c *counted) Moved(tiering.Move, bool, error)          {}
func (c *counted) Due(tiering.Move, int64)                  {}
func (c *counted) Stored(tiering.Tier, tiering.Copy, int64) {}
func (c *counted) Parked(int)                               {}

var errBusy = errors.New("503 Slow Down")

// R08: the primary has the segment, the backup answers 503, the sweep runs, the
// primary is lost. Two things stand against the drop, each of them enough: what
// the catalog says of the copies, and that they are read back before it.
func TestRaceR08DemotionWithoutABackup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		refused          coldtest.Call // by the backup; "" is every call
		assumed, unasked bool          // the catalog; the backup
		lost             bool
	}{
		{name: "the backup refuses everything"},
		{name: "the backup refuses writes", refused: coldtest.Create},
		{name: "and the catalog has it for written", refused: coldtest.Create, assumed: true},
		{name: "and the backup is not read back", refused: coldtest.Create, unasked: true},
		{name: "naive: neither", refused: coldtest.Create, assumed: true, unasked: true, lost: true},
	} {
		inPlaces(t, c.name, places(), func(t *testing.T, p place) {
			recorder := &counted{}
			n := newNodeAt(t, p, lifecycle.Config{Recorder: recorder})
			if c.assumed {
				n.config.Warm = assuming{n.store}
				n.restart()
			}
			n.policy("notes", idleHour)
			k, h := key("k"), n.put("k")
			n.buckets[tiering.Backup].Inject(coldtest.Fault{Call: c.refused, Before: errBusy})
			n.flush()
			if len(n.objects(tiering.Primary)) != 1 || len(n.objects(tiering.Backup)) != 0 {
				t.Fatal("want the segment in the primary alone")
			}

			// The lag is told as long as the catalog knows of it.
			if _, err := n.engine.ReplicateOnce(n.ctx); (err == nil) != c.assumed {
				t.Errorf("replicate: %v", err)
			}
			if want := [2]int64{0, 1}; !c.assumed && recorder.missing != want {
				t.Errorf("missing copies %v, want %v", recorder.missing, want)
			}

			n.tick(2 * time.Hour)
			demoter := n.config
			if c.unasked {
				demoter.Archive = cold.NewArchive(n.buckets[tiering.Primary], n.buckets[tiering.Primary], nil)
			}
			n.no(lifecycle.New(demoter).Sweep(n.ctx))
			for _, name := range n.objects(tiering.Primary) {
				n.no(n.memory[tiering.Primary].Delete(n.ctx, name))
			}
			n.buckets[tiering.Backup].Clear()

			d, err := n.reader(n.store).Get(n.ctx, k.Namespace, k.ID, nil)
			if lost := err != nil || d.Digest != h.Digest; lost != c.lost {
				t.Errorf("read %v, %v: lost %t, want %t", d, err, lost, c.lost)
			}
		})
	}
}

// unfenced is a store that asks for no token: whoever had the lease has it, a
// segment is finished whoever began it, and the position is the last one told.
type unfenced struct {
	warm.Store
	mu     sync.Mutex
	leases map[string]warm.Lease // by holder
	pos    int64
}

func (u *unfenced) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (warm.Lease, bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l, ok := u.leases[holder]; ok {
		return l, true, nil
	}
	l, ok, err := u.Store.Acquire(ctx, name, holder, ttl)
	if ok {
		u.leases[holder] = l
	}
	return l, ok, err
}

func (u *unfenced) Position(context.Context, string) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pos, nil
}

func (u *unfenced) SetPosition(_ context.Context, _ string, pos int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pos = pos
	return nil
}

func (u *unfenced) FinishSegment(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location, reader string, pos int64) error {
	row, ok, err := u.Segment(ctx, s.Name)
	if err != nil || !ok {
		return errors.Join(err, tiering.ErrNotFound)
	}
	if row.State == tiering.SegmentDeleting { // its successor has dropped it
		if err := u.ForgetSegment(ctx, s.Name); err != nil {
			return err
		}
		if err := u.StartSegment(ctx, row); err != nil {
			return err
		}
	}
	s.Owner = ""
	if err := u.Store.FinishSegment(unleased(ctx), s, locations, "", 0); err != nil {
		return err
	}
	return u.SetPosition(ctx, reader, pos)
}

// unleased is ctx without the lease that its caller works under.
func unleased(ctx context.Context) context.Context { return warm.Under(ctx, warm.Lease{}) }

func (u *unfenced) StartSegment(ctx context.Context, s tiering.SegmentInfo) error {
	s.Owner = "" // no lease's
	return u.Store.StartSegment(unleased(ctx), s)
}

func (u *unfenced) ForgetSegment(ctx context.Context, name string) error {
	return u.Store.ForgetSegment(unleased(ctx), name)
}

// positioning is a store that notes where the archive stands behind each call
// that finishes a segment, or fails to.
type positioning struct {
	warm.Store
	seen []int64
}

func (p *positioning) FinishSegment(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location, reader string, pos int64) error {
	finished := p.Store.FinishSegment(ctx, s, locations, reader, pos)
	at, err := p.Position(ctx, reader)
	p.seen = append(p.seen, at)
	return errors.Join(finished, err)
}

// overtaken pauses one archiver, lets its lease lapse and another one archive,
// then lets the first go on. It returns what the first could change then.
//
// A sequencer that is overtaken in the same way (R35) does not exist over
// SQLite: its single writer assigns the positions.
func overtaken(n *node, naive bool, pause func(first *lifecycle.Config, gate chan struct{}) (wait func())) error {
	n.policy("notes", tiering.Policy{})
	n.put("k")
	first, second := n.config, n.config
	if naive {
		u := &unfenced{Store: n.store, leases: map[string]warm.Lease{}}
		first.Warm, second.Warm = u, u
	}
	seen := &positioning{Store: first.Warm}
	first.Warm = seen
	first.Holder, second.Holder = "first", "second"
	gate := make(chan struct{})
	reached := pause(&first, gate)
	archived := n.background(lifecycle.New(first).Flush)
	reached()

	n.tick(time.Minute) // twice the life of a lease
	successor := lifecycle.New(second)
	n.put("k")
	n.no(successor.Flush(n.ctx))
	n.put("k")
	n.no(successor.Flush(n.ctx))
	after, err := second.Warm.Position(n.ctx, lifecycle.ArchiveReader)
	n.no(err)
	segments := n.segments(tiering.SegmentFinished)

	close(gate)
	var broken []error
	if err := archived(); tiering.CodeOf(err) != tiering.CodeFenced {
		broken = append(broken, fmt.Errorf("the first archiver: %v, want fenced", err))
	}
	pos, err := second.Warm.Position(n.ctx, lifecycle.ArchiveReader)
	n.no(err)
	for _, at := range append(seen.seen, pos) {
		if at != after {
			broken = append(broken, fmt.Errorf("the archive went from position %d to %d", after, at))
		}
	}
	now := n.segments(tiering.SegmentFinished)
	if names(now) != names(segments) {
		broken = append(broken, fmt.Errorf("finished segments were %s and are %s", names(segments), names(now)))
	}
	slices.SortFunc(now, func(a, b tiering.SegmentInfo) int { return int(a.Ranges[0].From - b.Ranges[0].From) })
	for i, s := range now[1:] {
		if s.Ranges[0].From <= now[i].Ranges[0].To {
			broken = append(broken, fmt.Errorf("%v and %v are covered twice", now[i].Ranges, s.Ranges))
		}
	}
	return errors.Join(broken...)
}

func names(segments []tiering.SegmentInfo) string {
	var out []string
	for _, s := range segments {
		out = append(out, s.Name)
	}
	return fmt.Sprint(out)
}

// R18: the first archiver is paused while it writes its segment.
func TestRaceR18InAnUpload(t *testing.T) {
	t.Parallel()
	raced(t, func(n *node, naive bool) error {
		return overtaken(n, naive, func(_ *lifecycle.Config, gate chan struct{}) func() { return n.held(gate) })
	})
}

// R18: the first archiver has looked at what is to be archived, and is paused
// before its intent stands: its successor finds none to drop.
func TestRaceR18BeforeTheIntent(t *testing.T) {
	t.Parallel()
	raced(t, func(n *node, naive bool) error {
		return overtaken(n, naive, func(first *lifecycle.Config, gate chan struct{}) func() {
			paused := &pausedIntent{Store: first.Warm, reached: make(chan struct{}), gate: gate}
			first.Warm = paused
			return func() { <-paused.reached }
		})
	})
}
