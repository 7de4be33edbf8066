package router

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The pauses between two tries to settle a commit whose outcome is unknown.
const (
	firstResolve = 5 * time.Millisecond
	lastResolve  = time.Second
)

// errAway refuses a write while warm is known not to answer. Hot was told
// nothing: what it holds can still be read.
func errAway() error {
	return &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Warm, RetryAfter: time.Second}
}

func errUnknown(cause error) error {
	return &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Warm, Err: cause, RetryAfter: time.Second,
		Detail: "the outcome of the write is unknown: repeat it with the same Idempotency-Key, or read the key"}
}

// send commits changes. An unknown outcome is settled by the batch's id, never
// guessed: doubt is called when that has to wait until warm is back.
func (q *queue) send(ctx context.Context, changes []warm.Change, doubt func(error)) ([][]warm.Result, error) {
	b := &warm.Batch{ID: uuid.New(), Changes: changes}
	if err := failpoint.Hit(failpoint.CommitSent); err != nil {
		return nil, err
	}
	results, err := q.store.Commit(ctx, b)
	if died := failpoint.Hit(failpoint.CommitDone); died != nil {
		err = errors.Join(warm.ErrOutcomeUnknown, died)
	}
	if err == nil || !errors.Is(err, warm.ErrOutcomeUnknown) {
		return results, err
	}
	results, committed, err := q.resolve(b, err, func(err error) {
		doubt(err)
		q.dismiss()
	})
	if err == nil && !committed {
		err = tiering.Errorf(tiering.CodeUnavailable, "the write was not committed: try again")
	}
	return results, err
}

// resolve settles a batch whose commit ended with cause, for as long as a
// commit may take; the time that warm is away does not count. doubt is called
// once when it is.
func (q *queue) resolve(b *warm.Batch, cause error, doubt func(error)) (results [][]warm.Result, committed bool, err error) {
	deadline, told := time.Now().Add(q.timeout), false
	for wait := firstResolve; ; wait = min(2*wait, lastResolve) {
		ctx, cancel := context.WithTimeout(context.Background(), q.timeout)
		results, committed, err = q.store.Resolve(ctx, b)
		cancel()
		if err == nil {
			return results, committed, nil
		}
		away := q.away()
		if away {
			deadline = time.Now().Add(q.timeout)
		}
		if away && !told {
			told = true
			doubt(errUnknown(cause))
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-q.closing.Done():
			if away {
				pause.Stop()
				return nil, false, errUnknown(cause)
			}
			<-pause.C
		}
		if time.Now().After(deadline) {
			return nil, false, errUnknown(cause)
		}
	}
}

// dismiss refuses what stands in line: warm went away, and no commit will come
// to an end before it is back.
func (q *queue) dismiss() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.waiting {
		m.finish(warm.Result{}, errAway())
	}
	q.waiting = nil
}

// doubt tells those who wait for a chain that its outcome is not known yet.
func (pc *preparedChain) doubt(err error) {
	for _, m := range pc.sent {
		if m.doubt == nil { // else its caller left in a round before
			m.doubt = err
			close(m.over)
		}
	}
}

func (p *prepared) doubt(err error) {
	for _, pc := range p.chains {
		pc.doubt(err)
	}
}

// warmAway reports whether warm is known not to answer.
func (r *core) warmAway() bool { return r.remote != nil && r.remote.Away() }

// doubtAtomic clears hot of what an atomic batch may have written, once it is
// known how it ended: a server that was only frozen may commit it late, when
// the marks have lapsed and readers have filled what stood before.
func (r *core) doubtAtomic(id uuid.UUID, marks map[tiering.Key]hotMark, cause error) {
	for _, m := range marks {
		if !r.stands(m) {
			r.missed(r.hotEpoch())
		}
	}
	if r.enter() != nil {
		return // closing: the marks lapse
	}
	go func() {
		defer r.background.Done()
		if _, _, err := r.queue.resolve(&warm.Batch{ID: id}, cause, func(error) {}); err != nil {
			return
		}
		for key := range marks {
			r.clearHot(context.Background(), key)
		}
	}()
}
