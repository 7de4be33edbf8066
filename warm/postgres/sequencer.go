package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// The sequencer gives committed batches their places in the feed. Whoever holds
// the row lock of the table sequencer does so, for the length of one
// transaction of two statements sent together: there is no lease that could
// outlive its holder, and no position is chosen but under the lock. A daemon
// that stops in between holds nothing.
const (
	// idleOutbox locks nothing, and so an idle store writes nothing.
	idleOutbox    = `SELECT q.last, NOT EXISTS (SELECT FROM outbox) FROM life($1), sequencer q`
	lockSequencer = `SELECT q.last FROM life($1), sequencer q FOR UPDATE OF q`
	// moveOutbox takes the lowest ids that are visible. Ids of batches with a
	// key in common were drawn under that key's lock, so of two such the lower
	// one is visible whenever the higher one is, or has its place already. An
	// open transaction elsewhere holds up nothing but itself.
	moveOutbox = `WITH taken AS (DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox ORDER BY seq LIMIT $1) RETURNING seq),
		moved AS (INSERT INTO feed (pos, seq) SELECT q.last + row_number() OVER (ORDER BY t.seq), t.seq FROM taken t, sequencer q RETURNING pos)
		UPDATE sequencer SET last = last + (SELECT count(*) FROM moved) WHERE (SELECT count(*) FROM moved) > 0 RETURNING last`
)

const (
	// sequenceStep is how many batches one transaction moves.
	sequenceStep = 1000
	// sequencePace is the least time between two moves: what came meanwhile
	// moves together, and the sequencer's flushes stay a few beside the
	// committers'.
	sequencePace = 20 * time.Millisecond
	// sequencePoll is the time between two looks for what a daemon left behind
	// that died after its commit.
	sequencePoll = 500 * time.Millisecond
)

// sequence moves one step and returns how many batches that were.
func (s *Store) sequence(ctx context.Context) (moved int64, err error) {
	var last int64
	var idle bool
	err = s.read(ctx, func(q querier) error { return q.QueryRow(ctx, idleOutbox, s.life()).Scan(&last, &idle) })
	if err != nil {
		return 0, err
	}
	if idle {
		s.published(last)
		return 0, nil
	}
	return s.sequenceNow(ctx)
}

// sequenceNow is sequence without a look whether anything is there: after a commit
// of this daemon's there is, unless another was first.
func (s *Store) sequenceNow(ctx context.Context) (moved int64, err error) {
	return s.sequenceBy(ctx, (*txn).moveOutbox)
}

// sequenceBy is sequence with another step; tests pause inside of one.
func (s *Store) sequenceBy(ctx context.Context, step func(*txn) (before, last int64, err error)) (moved int64, err error) {
	var before, last int64
	err = s.transact(ctx, func(t *txn) error {
		before, last, err = step(t)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.published(max(last, before))
	return max(last-before, 0), nil
}

// moveOutbox is one step: two statements in one round trip. last is 0 when
// nothing was there.
func (t *txn) moveOutbox() (before, last int64, err error) {
	b := &pgx.Batch{}
	b.Queue(lockSequencer, t.s.life()).QueryRow(func(row pgx.Row) error { return row.Scan(&before) })
	b.Queue(moveOutbox, sequenceStep).Query(func(rows pgx.Rows) error {
		return drain(rows, func(row pgx.Rows) error { return row.Scan(&last) })
	})
	err = t.conn.SendBatch(t.ctx, b).Close()
	return before, last, err
}

// published makes a feed position known to this daemon.
func (s *Store) published(pos int64) {
	for {
		had := s.last.Load()
		if pos <= had {
			return
		}
		if s.last.CompareAndSwap(had, pos) {
			s.news.Wake()
			return
		}
	}
}

// Settle gives everything that was committed before the call its place in the
// feed.
func (s *Store) Settle(ctx context.Context) error {
	for {
		if n, err := s.sequence(ctx); err != nil || n < sequenceStep {
			return err
		}
	}
}

// runSequencer works until Close. A failure is tried again: the next look is
// at most sequencePoll away.
func (s *Store) runSequencer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(sequencePoll)
	defer timer.Stop()
	for {
		step := s.sequence
		select {
		case <-s.closing:
			return
		case <-s.commits:
			step = s.sequenceNow
		case <-timer.C:
		}
		n, err := step(ctx)
		pause := sequencePoll
		if err == nil && n == sequenceStep {
			pause = 0
		}
		timer.Reset(pause)
		pace := time.NewTimer(sequencePace)
		select {
		case <-s.closing:
			pace.Stop()
			return
		case <-pace.C:
		}
	}
}
