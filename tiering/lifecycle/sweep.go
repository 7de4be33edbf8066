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
)

// sweep takes every move that is due in warm: expire, demote, retire, and the
// removal of tombstones that retention no longer covers. Each is checked again
// under the head's lock, so that a sweep that is late or doubled does no harm.
func (e *Engine) sweep(ctx context.Context, _ warm.Lease) (time.Duration, error) {
	now, ok, err := e.trustedNow(ctx)
	if err != nil || !ok {
		return e.SweepEvery, err
	}
	s := e.newSweeper(now)
	steps := []func(context.Context) error{s.expire}
	pause := e.SweepEvery
	if !s.bothReachable(ctx) {
		pause = min(pause, awayPause)
	} else {
		steps = append(steps, s.demote, s.retire)
	}
	for _, step := range append(steps, s.purge, s.tell) {
		if err := step(ctx); err != nil {
			return 0, err
		}
	}
	return pause, nil
}

// awayPause is how soon the next sweep comes when a bucket was away.
const awayPause = 8 * time.Second

// Sweep runs one sweep now, for tests and operators. It fails with lease_held
// where another daemon sweeps.
func (e *Engine) Sweep(ctx context.Context) error {
	_, err := e.underLease(ctx, "sweep", e.sweep)
	return err
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

// demote drops the bytes of idle documents from warm.
func (s *sweeper) demote(ctx context.Context) error {
	after := tiering.Key{}
	for {
		page, err := s.Warm.Walk(ctx, after, walkPage)
		if err != nil {
			return err
		}
		for _, cur := range page {
			after = cur.Head.Key
			if err := s.demoteOne(ctx, cur); err != nil {
				return err
			}
		}
		if len(page) < walkPage {
			return nil
		}
	}
}

func (s *sweeper) demoteOne(ctx context.Context, cur warm.Current) error {
	h := cur.Head
	if !h.InWarm || h.Key.Reserved() || !h.Live(s.now) {
		return nil
	}
	p, ok, err := s.policy(ctx, h.Key)
	if err != nil || !ok {
		return err
	}
	// Copies are warm's to check, under the lock: only the ages are judged here.
	a := p.Plan(s.now, tiering.VersionMeta{
		Version: h.Version, Op: h.Op, Current: true, UpdatedAt: h.UpdatedAt, AccessedAt: h.AccessedAt, ExpiresAt: h.ExpiresAt,
		Pinned: h.Pinned, InWarm: true, InCold: true, Copies: 2,
	})
	if a.Move != tiering.MoveDemote || !a.Ready(s.now) {
		s.count(a)
		return nil
	}
	if err := s.Proven(ctx, h.Key, h.Version, h.Digest); err != nil {
		return s.unproven(tiering.MoveDemote, h.Key, err)
	}
	if err := failpoint.Hit(failpoint.DemoteProven); err != nil {
		return err
	}
	done, err := s.Warm.Demote(ctx, h.Key, h.Version, s.now.Add(-p.DemoteAfter.Std()))
	if died := failpoint.Hit(failpoint.DemoteDone); died != nil {
		err = died
	}
	s.Recorder.Moved(tiering.MoveDemote, done, err)
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

// retire drops superseded versions from warm.
func (s *sweeper) retire(ctx context.Context) error {
	cursor := ""
	for {
		rows, next, err := s.Warm.WalkVersions(ctx, cursor, walkPage)
		if err != nil {
			return err
		}
		due := map[tiering.Key][]int64{}
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
			if err := s.Proven(ctx, v.Key, v.Version.Version, v.Digest); err != nil {
				if err := s.unproven(tiering.MoveRetire, v.Key, err); err != nil {
					return err
				}
				continue
			}
			due[v.Key] = append(due[v.Key], v.Version.Version)
		}
		for k, versions := range due {
			n, err := s.Warm.Retire(ctx, k, versions)
			s.Recorder.Moved(tiering.MoveRetire, n > 0, err)
			if err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
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
