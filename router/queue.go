package router

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The bounds of one batch.
const (
	maxBatchRows  = 512
	maxBatchBytes = 16 << 20
)

// base is what a fold is computed on: the version that stands, and its bytes.
// The zero base is an absent key.
type base struct {
	version int64
	body    []byte
	user    string
}

// mutation is one caller's change of one key, on its way through the queue.
type mutation struct {
	key  tiering.Key
	cond tiering.Condition
	row  warm.Row
	// more are rows that follow row with nothing between: the other entries of an
	// append. They are plain puts.
	more []warm.Row
	// eval computes the row from what stands, for patches and edits; nil for
	// a row that is whole already. It may be called more than once.
	eval func(base) (warm.Row, error)
	// hint is where the caller saw the key; nil when it did not look.
	hint *base
	// limit is the user that the caller is limited to; "" for none.
	limit string
	// fence is the lease that the write stands under; nil: none.
	fence *tiering.Fence
	// warmOnly: hot does not hold the key, and is told nothing.
	warmOnly bool
	// blind: the caller may not read, so faults must not quote what stands.
	blind bool
	// before is what eval last computed on.
	before []byte

	policy *policy // of its namespace, for how long hot may serve it
	idem   idemName
	// alone keeps it out of folds: the fold it was in was refused.
	alone bool
	// probe asks for the idempotency result alone: eval has failed, or cond
	// has, and only warm knows whether an earlier try succeeded.
	probe    bool
	probeErr error

	// over is closed when the caller need not wait any more: behind result, err and
	// hotOK, or behind doubt.
	over   chan struct{}
	result warm.Result
	err    error
	hotOK  bool // whether hot agrees with warm about it
	// doubt is set when warm went away under the commit: how it ended is known once
	// warm is back, and nobody is told.
	doubt error
}

type idemName struct{ tenant, key string }

// begin readies m for one round through the queue.
func (m *mutation) begin() {
	m.over, m.doubt = make(chan struct{}), nil
}

func (m *mutation) finish(r warm.Result, err error) {
	m.result, m.err = r, err
	m.tell()
}

// tell lets the caller go on, unless it went in doubt.
func (m *mutation) tell() {
	if m.doubt == nil {
		close(m.over)
	}
}

// queue is the one line that all writes stand in. It starts a commit when none
// is in flight. Another one, up to committers, starts when the writes waiting are
// at least half of those in flight: what a commit costs by itself is dear, and
// while it waits for the disk another can be made.
//
// A batch marks its keys in hot, commits, makes room for the next, and then
// tells hot and its callers: each of its mutations waits once, and the marks and
// sets of a batch are one exchange each. A key has one token in a batch, however
// many mutations fold.
type queue struct {
	store      warm.Store
	committers int
	timeout    time.Duration
	rec        Recorder
	// takes says what may fold. Tests that need a naive router replace it.
	takes func(*chain, *mutation) bool
	// mark makes keys pending in hot before the commit; settle tells hot of its
	// outcome before anybody is answered.
	mark   func(ctx context.Context, keys ...tiering.Key) []hotMark
	settle func(ctx context.Context, outs []outcome)
	// away reports whether warm is known not to answer; closing ends with the
	// router.
	away    func() bool
	closing context.Context

	mu       sync.Mutex
	waiting  []*mutation
	busy     map[tiering.Key]bool
	bases    map[tiering.Key]*base // known from the commit before, while mutations wait
	idem     map[idemName]bool     // in flight: equal keys wait for the first
	inflight int                   // writes that were taken and not answered yet
	batches  int                   // under way, or starting
	starting bool                  // a batch is about to be filled
	closed   bool
	running  sync.WaitGroup
}

func newQueue(s warm.Store, committers int, timeout time.Duration, rec Recorder) *queue {
	return &queue{
		store: s, committers: committers, timeout: timeout, rec: rec, takes: (*chain).takes,
		away: func() bool { return false }, closing: context.Background(),
		busy: map[tiering.Key]bool{}, bases: map[tiering.Key]*base{}, idem: map[idemName]bool{},
	}
}

// submit puts m in line. Its result comes when m.over is closed, whatever
// becomes of the caller.
func (q *queue) submit(m *mutation) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosing()
	}
	q.waiting = append(q.waiting, m)
	q.pump()
	return nil
}

// refuse refuses new mutations from now on. Those in line go on; running ends
// with the last of them.
func (q *queue) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// abandon refuses the mutations that still stand in line, and returns how many
// they were and how many are in flight, which only warm can tell about.
func (q *queue) abandon() (waiting, inflight int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.waiting {
		m.finish(warm.Result{}, errClosing())
	}
	waiting, q.waiting = len(q.waiting), nil
	return waiting, q.inflight
}

// pump starts as many batches as the rule allows. q.mu is held.
func (q *queue) pump() {
	if q.starting || len(q.waiting) == 0 || q.batches == q.committers {
		return
	}
	if 2*len(q.waiting) < q.inflight {
		return
	}
	q.starting = true
	q.batches++
	q.running.Go(q.run)
}

// run carries one batch through. It is filled only here, behind the writers that
// are ready to run: those whose batch was just answered stand in line again.
func (q *queue) run() {
	runtime.Gosched()
	q.mu.Lock()
	q.starting = false
	b := q.take()
	if len(b.chains) == 0 { // every key in line is in flight
		q.batches--
		q.mu.Unlock()
		return
	}
	q.inflight += b.writes
	q.pump()
	q.mu.Unlock()

	growStack(b.writes)
	b.mark(q.mark)
	q.commit(b)

	q.mu.Lock()
	q.batches--
	for _, c := range b.chains {
		delete(q.busy, c.key)
		for _, m := range c.all {
			delete(q.idem, m.idem)
		}
	}
	again := q.requeue(b)
	q.inflight -= again
	q.pump()
	q.mu.Unlock()

	q.answer(b)

	q.mu.Lock()
	q.inflight -= b.writes - again
	q.pump()
	q.mu.Unlock()
}

// growStack makes the stack of a batch's goroutine as large as a commit needs, while
// there is next to nothing on it. SQLite's frames are large: on the way down to them
// the stack would double four times, and all frames would move each time, which was
// an eighth of the processor time of a lone put.
//
//go:noinline
func growStack(n int) byte {
	var room [24 << 10]byte
	room[n%len(room)] = 1
	return room[(n+1)%len(room)]
}

// answer tells hot what became of a batch's keys, and then everybody whose
// mutation was decided.
func (q *queue) answer(b *batch) {
	outs := make([]outcome, len(b.chains))
	for i, c := range b.chains {
		outs[i] = outcome{mark: c.mark, last: c.last()}
	}
	q.settle(context.Background(), outs)
	for i, c := range b.chains {
		for _, m := range c.decided {
			m.hotOK = outs[i].agrees
			m.tell()
		}
	}
}

// requeue puts what has to go round again at the head of the line, and forgets
// the bases of keys nobody waits for. It returns how much that is. q.mu is held.
func (q *queue) requeue(b *batch) int {
	var again []*mutation
	for _, c := range b.chains {
		again = append(again, c.again...)
	}
	if len(again) > 0 {
		q.waiting = append(again, q.waiting...)
	}
	q.keepBases(b)
	return len(again)
}

// keepBases keeps what a batch left behind of keys that are waited for. q.mu is
// held.
func (q *queue) keepBases(b *batch) {
	known := false
	for _, c := range b.chains {
		delete(q.bases, c.key)
		known = known || c.base != nil
	}
	if !known { // as after puts
		return
	}
	wanted := make(map[tiering.Key]bool, len(q.waiting))
	for _, m := range q.waiting {
		wanted[m.key] = true
	}
	for _, c := range b.chains {
		if c.base != nil && wanted[c.key] {
			q.bases[c.key] = c.base
		}
	}
}

// batch is one commit under way.
type batch struct {
	chains []*chain
	writes int // mutations
	rows   int
	bytes  int
}

// mark makes the keys pending that hot holds. Each chain keeps its mark: the
// commit brings them into another order.
func (b *batch) mark(mark func(ctx context.Context, keys ...tiering.Key) []hotMark) {
	chains := make([]*chain, 0, len(b.chains))
	keys := make([]tiering.Key, 0, len(b.chains))
	for _, c := range b.chains {
		if !c.all[0].warmOnly {
			chains, keys = append(chains, c), append(keys, c.key)
		}
	}
	if len(keys) == 0 {
		return
	}
	for i, m := range mark(context.Background(), keys...) {
		chains[i].mark = m
	}
}

// chain is the mutations of one key that commit together.
type chain struct {
	key   tiering.Key
	mark  hotMark
	all   []*mutation
	base  *base       // before: what evals stand on; after: what the commit left; nil unknown
	again []*mutation // to go round once more
	// decided are the others, with their results, in the order of the rows.
	decided []*mutation
}

// decide ends m's rounds. Its caller is told once hot was.
func (c *chain) decide(m *mutation, r warm.Result, err error) {
	m.result, m.err = r, err
	c.decided = append(c.decided, m)
}

// last is the mutation that hot has to be told of: see outcome.
func (c *chain) last() *mutation {
	var last *mutation
	for _, m := range c.decided {
		if m.unknown() {
			return m
		}
		if last == nil || m.committed() {
			last = m
		}
	}
	return last
}

// take fills a batch from the line, in order: one chain a key, plain puts
// together, or mutations that are computed together. q.mu is held.
func (q *queue) take() *batch {
	most := min(len(q.waiting), maxBatchRows)
	b := &batch{chains: make([]*chain, 0, most)}
	chains := make(map[tiering.Key]*chain, most)
	shut := map[tiering.Key]bool{} // keys whose later mutations wait for the next batch
	room := make([]chain, 0, most) // a chain has a row or more
	rest := q.waiting[:0:0]
	for i, m := range q.waiting {
		if b.rows >= maxBatchRows || b.rows > 0 && b.bytes+m.bytes() > maxBatchBytes {
			rest = append(rest, q.waiting[i:]...)
			break
		}
		c := chains[m.key]
		named := m.idem != (idemName{})
		if q.busy[m.key] && c == nil || shut[m.key] || named && q.idem[m.idem] || c != nil && !q.takes(c, m) {
			rest = append(rest, m)
			shut[m.key] = true
			continue
		}
		if c == nil {
			room = append(room, chain{key: m.key, base: q.bases[m.key]})
			c = &room[len(room)-1]
			chains[m.key] = c
			b.chains = append(b.chains, c)
			q.busy[m.key] = true
		}
		if named {
			q.idem[m.idem] = true
		}
		c.all = append(c.all, m)
		b.writes++
		b.rows += m.rows()
		b.bytes += m.bytes()
	}
	q.waiting = rest
	return b
}

// takes reports whether m may fold into c. Unconditional puts of one owner fold
// with each other; unconditional computed mutations fold on their base, and
// with the puts among them. Everything else stands alone.
func (c *chain) takes(m *mutation) bool {
	first := c.all[0]
	return foldable(first) && foldable(m) && m.cond == first.cond && m.row.User == first.row.User && (first.eval != nil || m.eval == nil)
}

func foldable(m *mutation) bool {
	// What exists before the first row exists before the next ones too.
	exists := m.cond.Exists() && m.eval == nil
	return !m.probe && !m.alone && (m.cond.Unconditional() || exists) && (m.eval != nil || m.row.Op == tiering.OpPut)
}

// commit runs one batch through warm: every mutation is decided, or in its
// chain's again.
func (q *queue) commit(b *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), q.timeout)
	defer cancel()
	p := q.prepare(ctx, b)
	if len(p.changes) == 0 {
		return
	}
	results, err := q.send(ctx, p.changes, p.doubt)
	switch {
	case err == nil:
	case len(p.changes) > 1 && onesOwnFault(err):
		q.split(ctx, p)
		return
	default:
		p.refuse(err)
		return
	}
	q.rec.Batch(b.rows)
	for i, pc := range p.chains {
		pc.deal(results[i])
	}
}

// split sends each change alone, so that the one that warm refuses does not
// take the others down.
func (q *queue) split(ctx context.Context, p *prepared) {
	for i, pc := range p.chains {
		results, err := q.send(ctx, p.changes[i:i+1], pc.doubt)
		if err != nil {
			pc.refuse(err)
			continue
		}
		pc.deal(results[0])
	}
}

// onesOwnFault reports whether err may come from the data of one row.
func onesOwnFault(err error) bool {
	c := tiering.CodeOf(err)
	return c == tiering.CodeInvalid || c == tiering.CodeTooLarge
}
