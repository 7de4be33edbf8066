package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The pages of a sweep. Each is one short transaction or read.
const (
	walkPage   = 500
	expirePage = 200
	// demoteChunk is how many documents leave warm in one transaction, which whoever
	// writes one of them waits for.
	demoteChunk = 25
)

// sweep takes the next step of a pass over warm.
func (e *Engine) sweep(ctx context.Context, _ warm.Lease) (time.Duration, error) {
	over, err := e.step(ctx, &e.pass)
	switch {
	case err != nil || !over:
		return 0, err
	case e.pass.away:
		return min(e.SweepEvery, awayPause), nil
	}
	return e.SweepEvery, nil
}

// awayPause is how soon the next sweep comes when a bucket was away.
const awayPause = 8 * time.Second

// step takes the moves that are due in warm, for as long as a step lasts: expire,
// demote, retire, and at the end of the pass the removal of tombstones that retention
// no longer covers. Each is checked again under the head's lock, so that a sweep that
// is late or doubled does no harm. over: nothing is to be done for now.
func (e *Engine) step(ctx context.Context, p *pass) (over bool, err error) {
	now, ok, err := e.trustedNow(ctx)
	if err != nil || !ok {
		return true, err
	}
	s := e.newSweeper(now)
	if err := s.expire(ctx); err != nil || time.Now().Before(p.next) {
		return true, err
	}
	p.begin()
	s.pass, s.due = p, p.due
	p.away = !s.bothReachable(ctx)
	if !p.away {
		for _, walk := range []func(context.Context) (bool, error){s.demote, s.retire} {
			if over, err := walk(ctx); err != nil || !over {
				return false, err
			}
		}
	}
	for _, finish := range []func(context.Context) error{s.purge, s.tell} {
		if err := finish(ctx); err != nil {
			return false, err
		}
	}
	p.end()
	return true, nil
}

// Sweep makes one pass now, for tests and operators. It fails with lease_held
// where another daemon sweeps.
func (e *Engine) Sweep(ctx context.Context) error {
	for p := new(pass); ; {
		var over bool
		_, err := e.underLease(ctx, "sweep", func(ctx context.Context, _ warm.Lease) (pause time.Duration, err error) {
			over, err = e.step(ctx, p)
			return 0, err
		})
		if err != nil || over {
			return err
		}
	}
}

// expire turns documents whose life is over into deleted versions. Reads do not
// wait for it: they check the expiry themselves.
func (s *sweeper) expire(ctx context.Context) error {
	for {
		keys, err := s.Warm.Expired(ctx, expirePage)
		if err != nil || len(keys) == 0 {
			return err
		}
		over, keys := partition(keys)
		ended, err := s.endSessions(ctx, over)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			if ended == 0 || len(over) < expirePage {
				return nil
			}
			continue
		}
		b := &warm.Batch{ID: uuid.New()}
		slices.SortFunc(keys, tiering.Key.Compare)
		for _, k := range keys {
			b.Changes = append(b.Changes, warm.Change{Key: k, Rows: []warm.Row{{Op: tiering.OpExpire}}})
		}
		results, err := s.Warm.Commit(ctx, b)
		done := 0
		for _, r := range results {
			if len(r) == 1 && r[0].Status == warm.Done {
				done++
			}
		}
		s.Recorder.Moved(tiering.MoveExpire, done > 0, err)
		if err != nil || done+ended == 0 || len(keys)+len(over) < expirePage {
			return err
		}
	}
}

// demote drops the bytes of idle documents from warm. over: it has looked at all.
func (s *sweeper) demote(ctx context.Context) (over bool, err error) {
	for !s.pass.demoted {
		began := time.Now()
		page, err := s.Warm.Walk(ctx, s.pass.at, walkPage)
		if err != nil {
			return false, err
		}
		s.pace(ctx, began)
		if err := s.demotePage(ctx, page); err != nil {
			return false, err
		}
		if s.pass.demoted = len(page) < walkPage; !s.pass.demoted {
			s.pass.at = page[len(page)-1].Head.Key
		}
		if s.pass.tired() {
			break
		}
	}
	return s.pass.demoted, nil
}

// demotePage demotes what is idle of a page, in short transactions. Documents that lie
// side by side are proven by the same blocks.
func (s *sweeper) demotePage(ctx context.Context, page []warm.Current) error {
	var due []warm.Head
	var keys []tiering.Key
	var idle []time.Time
	for _, cur := range page {
		at, ok, err := s.idleSince(ctx, cur.Head)
		if err != nil {
			return err
		}
		if ok {
			due, keys, idle = append(due, cur.Head), append(keys, cur.Head.Key), append(idle, at)
		}
	}
	if len(due) == 0 {
		return nil
	}
	proof, err := s.newProof(ctx, keys)
	if err != nil {
		return err
	}
	for first := 0; first < len(due); first += demoteChunk {
		began := time.Now()
		var chunk []warm.Demotion
		for i := first; i < min(first+demoteChunk, len(due)); i++ {
			h := due[i]
			if err := proof.of(ctx, h.Key, h.Version, h.Digest); err == nil {
				chunk = append(chunk, warm.Demotion{Key: h.Key, Version: h.Version, Idle: idle[i]})
			} else if err := s.unproven(tiering.MoveDemote, h.Key, err); err != nil {
				return err
			}
		}
		if err := s.demoteChunk(ctx, chunk); err != nil {
			return err
		}
		s.pace(ctx, began)
	}
	return nil
}

// idleSince is the time since when a document that is due to be demoted must not have
// been used.
func (s *sweeper) idleSince(ctx context.Context, h warm.Head) (at time.Time, due bool, err error) {
	if !h.InWarm || h.Key.Reserved() || !h.Live(s.now) {
		return at, false, nil
	}
	p, ok, err := s.policy(ctx, h.Key)
	if err != nil || !ok {
		return at, false, err
	}
	// Copies are warm's to check, under the lock: only the ages are judged here.
	a := p.Plan(s.now, tiering.VersionMeta{
		Version: h.Version, Op: h.Op, Current: true, UpdatedAt: h.UpdatedAt, AccessedAt: h.AccessedAt, ExpiresAt: h.ExpiresAt,
		Pinned: h.Pinned, InWarm: true, InCold: true, Copies: 2,
	})
	if a.Move != tiering.MoveDemote || !a.Ready(s.now) {
		s.count(a)
		return at, false, nil
	}
	return s.now.Add(-p.DemoteAfter.Std()), true, nil
}

func (s *sweeper) demoteChunk(ctx context.Context, chunk []warm.Demotion) error {
	if len(chunk) == 0 {
		return nil
	}
	if err := failpoint.Hit(failpoint.DemoteProven); err != nil {
		return err
	}
	done, err := s.Warm.DemoteAll(ctx, chunk)
	if died := failpoint.Hit(failpoint.DemoteDone); died != nil {
		err = died
	}
	for i := range chunk {
		s.Recorder.Moved(tiering.MoveDemote, err == nil && done[i], err)
	}
	return err
}

// unproven leaves a move for the next sweep when a cold copy did not prove it.
// Any other error ends the sweep.
func (s *sweeper) unproven(m tiering.Move, k tiering.Key, err error) error {
	if !errors.Is(err, tiering.ErrUnavailable) {
		return err
	}
	s.Recorder.Moved(m, false, err)
	s.Logger.Warn("bytes stay in warm: a cold copy could not be read back", "key", k, "err", err)
	return nil
}

// retire drops superseded versions from warm. over: it has looked at all.
func (s *sweeper) retire(ctx context.Context) (over bool, err error) {
	for !s.pass.retired {
		began := time.Now()
		rows, next, err := s.Warm.WalkVersions(ctx, s.pass.cursor, walkPage)
		if err != nil {
			return false, err
		}
		s.pace(ctx, began)
		if err := s.retirePage(ctx, rows); err != nil {
			return false, err
		}
		s.pass.cursor, s.pass.retired = next, next == ""
		if s.pass.tired() {
			break
		}
	}
	return s.pass.retired, nil
}

func (s *sweeper) retirePage(ctx context.Context, rows []warm.Superseded) error {
	var due []warm.Superseded
	var keys []tiering.Key // of them, each once: rows of a key lie side by side
	for _, v := range rows {
		p, ok, err := s.policy(ctx, v.Key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		a := p.Plan(s.now, tiering.VersionMeta{
			Version: v.Version.Version, Op: v.Op, Current: v.Current, UpdatedAt: v.At, SupersededAt: v.SupersededAt,
			Pinned: v.Pinned, InWarm: true, InCold: v.Copies > 0, Copies: v.Copies, KeyDeleted: v.KeyDeleted,
		})
		if a.Move != tiering.MoveRetire || !a.Ready(s.now) {
			s.count(a)
			continue
		}
		due = append(due, v)
		if len(keys) == 0 || keys[len(keys)-1] != v.Key {
			keys = append(keys, v.Key)
		}
	}
	if len(due) == 0 {
		return nil
	}
	proof, err := s.newProof(ctx, keys)
	if err != nil {
		return err
	}
	for _, k := range keys {
		began := time.Now()
		var versions []int64
		for ; len(due) > 0 && due[0].Key == k; due = due[1:] {
			if err := proof.of(ctx, k, due[0].Version.Version, due[0].Digest); err == nil {
				versions = append(versions, due[0].Version.Version)
			} else if err := s.unproven(tiering.MoveRetire, k, err); err != nil {
				return err
			}
		}
		if len(versions) > 0 {
			n, err := s.Warm.Retire(ctx, k, versions)
			s.Recorder.Moved(tiering.MoveRetire, n > 0, err)
			if err != nil {
				return err
			}
		}
		s.pace(ctx, began)
	}
	return nil
}

// purge removes tombstones that retention no longer covers, once nothing of
// their keys is left in warm or cold.
func (s *sweeper) purge(ctx context.Context) error {
	for at, p := range s.policies {
		if _, err := s.Warm.PurgeTombstones(ctx, at.Tenant, at.ID, s.now.Add(-p.KeepFor.Std()), walkPage); err != nil {
			return err
		}
	}
	return nil
}
