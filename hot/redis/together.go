package redis

import (
	"context"
	"encoding/binary"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// maxTogether is how many keys one script takes: nobody else is served while it
// runs.
const maxTogether = 128

// Mark implements hot.Store.
func (s *Store) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	_, err := s.one(ctx, hot.Step{Act: hot.ToMark, Set: hot.Set{Key: key, Token: token}})
	return err
}

// Unmark implements hot.Store.
func (s *Store) Unmark(ctx context.Context, key tiering.Key, token hot.Token) error {
	_, err := s.one(ctx, hot.Step{Act: hot.ToUnmark, Set: hot.Set{Key: key, Token: token}})
	return err
}

// Set implements hot.Store. Called again after a reply was lost it changes
// nothing more, and answers false.
func (s *Store) Set(ctx context.Context, set hot.Set) (bool, error) {
	return s.one(ctx, hot.Step{Act: hot.ToSet, Set: set})
}

func (s *Store) one(ctx context.Context, st hot.Step) (stored bool, err error) {
	e := s.epoch.Load()
	did, errs := s.carryOut(ctx, e, []hot.Step{st})
	return did[0] && s.stands(e), errs[0]
}

// Together implements hot.Batcher.
func (s *Store) Together(ctx context.Context, steps []hot.Step) []error {
	_, errs := s.carryOut(ctx, s.epoch.Load(), steps)
	return errs
}

// part is steps of one act on their way in one script.
type part struct {
	*call
	steps []int // which they are
}

// carryOut carries steps out under e, and reports of each whether its script
// answered 1, as a set does that was stored.
func (s *Store) carryOut(ctx context.Context, e *epoch, steps []hot.Step) (did []bool, errs []error) {
	did, errs = make([]bool, len(steps)), make([]error, len(steps))
	if err := s.ready(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return did, errs
	}
	var parts []part
	var open [hot.ToSet + 1]int // of each act the part that takes more steps, counted from 1
	for i := range steps {
		st := &steps[i]
		if st.Act == hot.ToMark && st.Set.Token == 0 {
			errs[i] = errZeroToken
			continue
		}
		at := open[st.Act]
		// In a cluster a script has one key: others may be on other servers.
		if at == 0 || s.clustered || len(parts[at-1].keys) >= maxTogether || parts[at-1].size > maxBytes/2 {
			parts = append(parts, part{call: s.begin(ctx, st.Act, len(steps)-i)})
			at = len(parts)
			open[st.Act] = at
		}
		p := &parts[at-1]
		p.steps = append(p.steps, i)
		p.keys = append(p.keys, e.redisKey(st.Set.Key))
		s.add(p.call, st)
	}
	calls := make([]*call, len(parts))
	for i := range parts {
		calls[i] = parts[i].call
	}
	for i, err := range s.queue.doAll(calls) {
		parts[i].answer(err, did, errs)
	}
	return did, errs
}

// begin is the call of an act, with the arguments that its keys share. About
// as many as most keys will follow.
func (s *Store) begin(ctx context.Context, act hot.Act, most int) *call {
	c := &call{ctx: ctx, keys: make([]string, 0, min(most, maxTogether))}
	switch act {
	case hot.ToMark:
		c.script, c.args = s.scripts.mark, append(make([]any, 0, 2+cap(c.keys)), micros(s.Timing.Token), micros(s.Timing.Tombstone))
	case hot.ToUnmark:
		c.script = s.scripts.unmark
	default:
		c.script, c.args = s.scripts.set, append(make([]any, 0, 1+2*cap(c.keys)), micros(s.Timing.Tombstone))
	}
	return c
}

// add gives c the arguments of one key.
func (s *Store) add(c *call, st *hot.Step) {
	set := &st.Set
	if st.Act != hot.ToSet {
		c.args = append(c.args, tokenBytes(set.Token))
		return
	}
	what := make([]byte, 0, 8+16+1+8)
	what = binary.BigEndian.AppendUint64(what, uint64(set.Token))
	what = binary.BigEndian.AppendUint64(what, uint64(set.Entry.Meta.Version))
	what = binary.BigEndian.AppendUint64(what, uint64(set.Entry.Meta.Revision))
	deleted, value := byte(0), []byte(nil)
	switch {
	case set.Deleted:
		deleted = 1
	case set.TTL > 0:
		value = encodeValue(&set.Entry)
	}
	what = append(what, deleted)
	what = binary.BigEndian.AppendUint64(what, uint64(micros(set.TTL)))
	c.args = append(c.args, what, value)
	c.size += len(what) + len(value)
}

// refusal is what a script says of one key that it could not carry out.
type refusal string

func (r refusal) Error() string { return "redis: " + string(r) }

// answer hands out what the script said, or err.
func (p *part) answer(err error, did []bool, errs []error) {
	var answers []any
	if err == nil { // else the call may still be under way
		if answers, _ = p.reply.([]any); len(answers) != len(p.steps) {
			err = errReply
		}
	}
	for n, i := range p.steps {
		switch {
		case err != nil:
			errs[i] = err
		case answers[n] == int64(1):
			did[i] = true
		case answers[n] != int64(0):
			errs[i] = refusal(text(answers[n]))
		}
	}
}
