package router

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// hotMark is a write that is pending in hot.
type hotMark struct {
	key   tiering.Key
	token hot.Token
	epoch tiering.HotEpoch // in use when it was made
	err   error            // why hot did not take it
}

// taken reports whether hot took it. One that failed may be there all the same,
// when its answer was lost or late: whoever settles it takes its token away.
func (m hotMark) taken() bool { return m.token != 0 && m.err == nil }

func (m hotMark) step(act hot.Act) hot.Step {
	return hot.Step{Act: act, Set: hot.Set{Key: m.key, Token: m.token}}
}

// stands reports whether hot, as it is used now, has taken m: under another
// epoch it knows nothing of it.
func (r *core) stands(m hotMark) bool { return m.standsUnder(r.hotEpoch()) }

func (m hotMark) standsUnder(e tiering.HotEpoch) bool { return m.taken() && m.epoch == e }

// markHot tells hot that a write of key is on its way.
func (r *core) markHot(ctx context.Context, key tiering.Key) hotMark {
	return r.markKeys(ctx, key)[0]
}

// markKeys tells hot in one exchange that writes of all keys are on their way.
func (r *core) markKeys(ctx context.Context, keys ...tiering.Key) []hotMark {
	epoch := r.hotEpoch()
	marks := make([]hotMark, len(keys))
	steps := make([]hot.Step, len(keys))
	for i, key := range keys {
		marks[i] = hotMark{key: key, token: hot.Token(rand.Uint64() | 1), epoch: epoch}
		steps[i] = marks[i].step(hot.ToMark)
	}
	for i, err := range r.tell(ctx, steps) {
		marks[i].err = err
	}
	return marks
}

func (r *core) unmark(m hotMark) error {
	if m.token == 0 {
		return nil
	}
	return r.tell(context.Background(), []hot.Step{m.step(hot.ToUnmark)})[0]
}

// tell carries steps out within the bound of one call to hot, whether or not
// the caller still waits: a mark that was made has to be settled.
func (r *core) tell(ctx context.Context, steps []hot.Step) []error {
	if len(steps) == 0 {
		return nil
	}
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := r.hotBound(ctx)
	defer cancel()
	return hot.Together(ctx, r.Hot, steps)
}

// outcome is what a commit made of a key that was marked.
type outcome struct {
	mark hotMark
	// last of the key's mutations that was committed, or that may have been;
	// one that was not where none was; nil where all go round again.
	last *mutation
	// agrees: hot now agrees with warm about the key.
	agrees bool
}

// settle is settleAll of one key. It reports whether hot now agrees with warm
// about this write.
func (r *core) settle(ctx context.Context, p *policy, m *mutation, mark hotMark) bool {
	m.policy = p
	outs := []outcome{{mark: mark, last: m}}
	r.settleAll(ctx, outs)
	return outs[0].agrees
}

// settleAll tells hot in one exchange how a commit went, under the epoch that
// stood then. Nobody may be answered before.
func (r *core) settleAll(ctx context.Context, outs []outcome) {
	for _, o := range outs {
		if o.last == nil {
			continue
		}
		if !o.last.warmOnly {
			r.flights.outdate(o.last.key)
		}
		if !o.last.unknown() {
			r.advance(o.last.result.HotEpoch)
		}
	}
	epoch := r.hotEpoch()
	steps := make([]hot.Step, 0, len(outs))
	told := make([]*outcome, 0, len(outs)) // told[i] is whom steps[i] is about
	for i := range outs {
		o := &outs[i]
		if st, ok := r.settling(o, epoch); ok {
			steps, told = append(steps, st), append(told, o)
		}
	}
	for i, err := range r.tell(ctx, steps) {
		o := told[i]
		if steps[i].Act == hot.ToUnmark {
			o.agrees = err == nil && o.mark.taken()
			continue
		}
		if o.agrees = err == nil && !r.hotOwed(); err != nil {
			r.Recorder.HotMissed()
			if !o.mark.standsUnder(epoch) {
				r.missed(epoch)
			}
		}
	}
}

// settling is what hot has to be told of o; ok is false when nothing.
func (r *core) settling(o *outcome, epoch tiering.HotEpoch) (st hot.Step, ok bool) {
	if o.last != nil && o.last.warmOnly && o.mark.token == 0 {
		return st, false
	}
	stands := o.mark.standsUnder(epoch)
	if o.last != nil && o.last.unknown() {
		if !stands {
			r.missed(epoch)
		}
		return st, false // the mark lapses to empty, whatever becomes of the commit
	}
	set, sets := hot.Set{}, false
	if o.last != nil && !o.last.warmOnly {
		set, sets = o.last.set()
	}
	switch {
	case sets:
	case stands || !o.last.committed():
		return o.mark.step(hot.ToUnmark), o.mark.token != 0
	default: // no mark has dropped what is old by now
		set = hot.Set{Key: o.last.key, Entry: hot.Entry{Meta: o.last.result.Head.Meta()}}
	}
	if o.mark.epoch == epoch {
		set.Token = o.mark.token
	}
	return hot.Step{Act: hot.ToSet, Set: set}, true
}

// unknown reports whether nobody knows if m was committed.
func (m *mutation) unknown() bool { return errors.Is(m.err, warm.ErrOutcomeUnknown) }

// committed reports whether m changed what stands.
func (m *mutation) committed() bool {
	return m != nil && m.err == nil && m.result.Status == warm.Done
}

// set is what hot stores after the commit; ok is false when it only has to
// forget: nothing was committed, or only the head changed.
func (m *mutation) set() (hot.Set, bool) {
	if !m.committed() {
		return hot.Set{}, false
	}
	h := m.result.Head
	s := hot.Set{Key: m.key, Entry: hot.Entry{Meta: h.Meta()}}
	switch {
	case h.Op.Deleting():
		s.Deleted = true
		return s, true
	case m.row.Op == tiering.OpPut:
		s.Entry.Body = m.row.Body
		s.TTL = hotLife(m.policy, h, h.UpdatedAt)
		return s, s.TTL > 0
	}
	return hot.Set{}, false
}
