package redis

import (
	"context"
	"encoding/binary"
	"slices"

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
	steps []int  // which they are
	what  []byte // what they say of their keys: the script's last argument
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
	values := s.values.Take(valueBytes(steps))
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
			parts = append(parts, s.begin(ctx, st.Act, len(steps)-i))
			at = len(parts)
			open[st.Act] = at
		}
		p := &parts[at-1]
		p.steps = append(p.steps, i)
		p.keys = append(p.keys, e.redisKey(st.Set.Key))
		values = p.add(st, values)
	}
	calls := make([]*call, len(parts))
	for i := range parts {
		parts[i].args = append(parts[i].args, parts[i].what)
		calls[i] = parts[i].call
	}
	for i, err := range s.queue.doAll(calls) {
		parts[i].answer(err, did, errs)
	}
	if !slices.ContainsFunc(calls, (*call).underway) {
		s.values.Give(values)
	}
	return did, errs
}

// whatSize is how many bytes a set says of a key: token, rank, 1 for a
// tombstone, TTL. The other acts say the token.
const whatSize = 8 + 16 + 1 + 8

// begin is the script of an act, with the arguments that its keys share. About
// as many as most keys will follow.
func (s *Store) begin(ctx context.Context, act hot.Act, most int) part {
	if most = min(most, maxTogether); s.clustered {
		most = 1
	}
	p := part{call: &call{ctx: ctx, keys: make([]string, 0, most)}, steps: make([]int, 0, most)}
	switch act {
	case hot.ToMark:
		p.script, p.args = s.scripts.mark, []any{micros(s.Timing.Token), micros(s.Timing.Tombstone)}
	case hot.ToUnmark:
		p.script = s.scripts.unmark
	default:
		p.script, p.args = s.scripts.set, append(make([]any, 0, 2+most), micros(s.Timing.Tombstone))
	}
	return p
}

// add gives p what st says of its key, and its value, which goes behind values.
func (p *part) add(st *hot.Step, values []byte) []byte {
	set := &st.Set
	if st.Act != hot.ToSet {
		p.what = binary.BigEndian.AppendUint64(p.what, uint64(set.Token))
		return values
	}
	from, deleted := len(values), byte(0)
	switch {
	case set.Deleted:
		deleted = 1
	case set.TTL > 0:
		values = appendValue(values, &set.Entry)
	}
	value := values[from:len(values):len(values)]
	p.args = append(p.args, value)
	if p.what == nil {
		p.what = make([]byte, 0, whatSize*cap(p.keys))
	}
	p.what = binary.BigEndian.AppendUint64(p.what, uint64(set.Token))
	p.what = binary.BigEndian.AppendUint64(p.what, uint64(set.Entry.Meta.Version))
	p.what = binary.BigEndian.AppendUint64(p.what, uint64(set.Entry.Meta.Revision))
	p.what = append(p.what, deleted)
	p.what = binary.BigEndian.AppendUint64(p.what, uint64(micros(set.TTL)))
	p.size += whatSize + len(value)
	return values
}

// valueBytes is how many bytes the values of steps take.
func valueBytes(steps []hot.Step) int {
	n := 0
	for i := range steps {
		if steps[i].Act == hot.ToSet {
			n += sizeOfValue(&steps[i].Set.Entry)
		}
	}
	return n
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
