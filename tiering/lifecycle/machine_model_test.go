package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// What the machine remembers: every change that was acknowledged, and what of it
// has to be there still.

// change is one change of the model. What an erase takes is taken out of the
// list; what a rebuild loses is its end.
type change struct {
	key     tiering.Key
	op      tiering.Op
	version int64
	body    string
	user    string
	at      time.Time
	expires time.Time
	mayGo   bool // retention did not cover it when a collection ran
}

func (c change) live(now time.Time) bool {
	return c.version > 0 && !c.op.Deleting() && (c.expires.IsZero() || now.Before(c.expires))
}

func (m *machine) commit(k tiering.Key, c tiering.Condition, r warm.Row) (warm.Result, error) {
	m.clock.advance(time.Second)
	results, err := m.store.Commit(m.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, If: c, Rows: []warm.Row{r}}}})
	if err != nil {
		return warm.Result{}, err
	}
	return results[0][0], nil
}

// write commits a row that must be done, and tells the model.
func (m *machine) write(k tiering.Key, r warm.Row) {
	m.Helper()
	last := m.standing()[k]
	result, err := m.commit(k, tiering.Condition{}, r)
	m.no(err)
	if result.Status != warm.Done {
		m.Fatalf("%s of %s: %+v", r.Op, k, result)
	}
	m.note(k, r.Op, last, string(r.Body), r.User, result.Head)
}

// note appends a change, as the head tells it, to the model.
func (m *machine) note(k tiering.Key, op tiering.Op, last change, body, user string, h warm.Head) {
	m.Helper()
	c := change{key: k, op: op, version: h.Version, body: body, user: user, at: h.UpdatedAt, expires: h.ExpiresAt}
	if op.Deleting() || op == tiering.OpTouch || last.live(m.clock.Now()) {
		c.user = last.user
	}
	if op == tiering.OpTouch {
		c.op, c.body, c.at = last.op, last.body, last.at
		if h.Version != last.version {
			m.Fatalf("a touch of version %d of %s made version %d", last.version, k, h.Version)
		}
	} else if h.Version <= m.top[k] {
		m.Fatalf("%s of %s made version %d, and %d was seen before", op, k, h.Version, m.top[k])
	}
	m.top[k] = max(m.top[k], h.Version)
	m.log = append(m.log, c)
}

// standing is the last change of each key.
func (m *machine) standing() map[tiering.Key]change { return fold(m.log) }

func fold(log []change) map[tiering.Key]change {
	out := map[tiering.Key]change{}
	for _, c := range log {
		out[c.key] = c
	}
	return out
}

// body is one that never was before.
func (m *machine) body() []byte {
	m.bodies++
	return fmt.Appendf(nil, `{"canary":"body-%06d"}`, m.bodies)
}

func (m *machine) id(rt *rapid.T) tiering.Key {
	return key(rapid.SampledFrom(machineIDs).Draw(rt, "id"))
}

// living draws a key that stands.
func (m *machine) living(rt *rapid.T) (tiering.Key, change) {
	all := m.standing()
	var keys []tiering.Key
	for _, id := range machineIDs {
		if all[key(id)].live(m.clock.Now().Add(time.Second)) {
			keys = append(keys, key(id))
		}
	}
	if len(keys) == 0 {
		rt.Skip("nothing stands")
	}
	k := rapid.SampledFrom(keys).Draw(rt, "key")
	return k, all[k]
}

func (m *machine) newRow(rt *rapid.T, k tiering.Key) warm.Row {
	r := put(m.body())
	r.Query = true
	if !m.standing()[k].live(m.clock.Now().Add(time.Second)) {
		r.User = rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(rt, "user")
	}
	return r
}

// expired tells the model which documents a sweep found at their end.
func (m *machine) expired() {
	all := m.standing()
	for _, id := range machineIDs {
		c := all[key(id)]
		if c.version == 0 || c.op.Deleting() || c.live(m.clock.Now()) {
			continue
		}
		cur, err := m.store.Head(m.ctx, c.key)
		m.no(err)
		if cur.Head.Op == tiering.OpExpire {
			m.note(c.key, tiering.OpExpire, c, "", "", cur.Head)
		}
	}
}

// mayGo marks what retention does not cover now.
func (m *machine) mayGo() {
	now := m.clock.Now()
	all := m.standing()
	newer, since := map[tiering.Key]int64{}, map[tiering.Key]time.Time{}
	for i := len(m.log) - 1; i >= 0; i-- {
		c := &m.log[i]
		head := all[c.key]
		if c.version == head.version && !head.op.Deleting() {
			since[c.key] = c.at
			continue
		}
		if i > 0 && since[c.key].IsZero() {
			since[c.key] = c.at
		}
		due := !since[c.key].Add(machinePolicy.KeepFor.Std()).After(now)
		seen := newer[c.key] + 1
		c.mayGo = c.mayGo || due && (head.op.Deleting() || seen >= machinePolicy.KeepVersions)
		newer[c.key], since[c.key] = seen, c.at
	}
}

// adopt finds how much of the log came back: at least the first sure changes.
func (m *machine) adopt(sure int, report *lifecycle.RebuildReport) {
	heads := map[tiering.Key]warm.Head{}
	for _, id := range machineIDs {
		cur, err := m.store.Head(m.ctx, key(id))
		m.no(err)
		heads[key(id)] = cur.Head
	}
	var why string
	for n := len(m.log); n >= sure; n-- {
		if why = m.differs(heads, m.log[:n]); why != "" {
			continue
		}
		m.counts.lost.Add(int64(len(m.log) - n))
		m.log = m.log[:n]
		for i := range m.log { // sliding lives moved on while the store stood still
			c := &m.log[i]
			if h := heads[c.key]; h.Version == c.version && !h.Op.Deleting() {
				c.expires = h.ExpiresAt
			}
		}
		m.sure = [2]int{min(m.sure[0], n), min(m.sure[1], n)}
		return
	}
	m.Fatalf("of %d changes %d were archived: %s\n%+v\nlog %+v", len(m.log), sure, why, report, m.log)
}

// differs says which key does not stand as the log has it. Of an erase in doubt
// each key may have been taken or not.
func (m *machine) differs(heads map[tiering.Key]warm.Head, log []change) string {
	whole, left := fold(log), map[tiering.Key]change{}
	if m.doubt != nil {
		takes := takes(*m.doubt, log)
		left = fold(slices.DeleteFunc(slices.Clone(log), takes))
	}
	for _, id := range machineIDs {
		k := key(id)
		why := m.mismatch(whole[k], heads[k], m.past[k])
		if why != "" && m.doubt != nil && m.mismatch(left[k], heads[k], append(slices.Clone(log), m.past[k]...)) == "" {
			continue
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// mismatch says how a head differs from the change that it should stand at. One
// that should not be there may be the end of what an owner before had, found again
// by whoever saw that life over once more after a rebuild.
func (m *machine) mismatch(c change, h warm.Head, past []change) string {
	now := m.clock.Now()
	if c.version == 0 && !h.Live(now) && slices.ContainsFunc(past, func(p change) bool {
		return p.key == h.Key && (p.version == h.Version || h.Op == tiering.OpExpire && p.version < h.Version)
	}) {
		return ""
	}
	stands := c.version > 0 && !c.op.Deleting()
	switch got := h.Version > 0 && !h.Op.Deleting(); {
	case got != stands, h.Version > 0 && h.Version != c.version, h.Version == 0 && c.version > 0 && !c.mayGo:
		return fmt.Sprintf("%s is %s%d, want %s%d of %s", h.Key, h.Op, h.Version, c.op, c.version, c.key)
	case got && (h.Digest != tiering.DigestOf([]byte(c.body)) || h.User != c.user):
		return fmt.Sprintf("%s version %d has other bytes, or is of %q, want %q", h.Key, h.Version, h.User, c.user)
	case got && (h.ExpiresAt.IsZero() != c.expires.IsZero() || h.ExpiresAt.Before(c.expires) || h.ExpiresAt.Sub(c.expires) > now.Sub(c.at)):
		return fmt.Sprintf("%s version %d expires at %s, want %s", h.Key, h.Version, h.ExpiresAt, c.expires)
	}
	return ""
}

// takes says which changes of a log an erase takes. A user takes a key whole
// that is his in the end.
func takes(r tiering.EraseRequest, log []change) func(change) bool {
	all := fold(log)
	return func(c change) bool {
		switch {
		case r.ID != "":
			return c.key.ID == r.ID
		case r.Prefix != "":
			return strings.HasPrefix(c.key.ID, r.Prefix)
		}
		return c.user == r.User || all[c.key].user == r.User
	}
}

// forget takes what was erased out of the model. A user's key leaves warm whole;
// what earlier owners had there and deleted may stay in cold.
func (m *machine) forget(r tiering.EraseRequest) {
	takes := takes(r, m.log)
	var left []change
	sure := m.sure
	for i, c := range m.log {
		if !takes(c) {
			left = append(left, c)
			continue
		}
		if r.User != "" && c.user != r.User {
			m.past[c.key] = append(m.past[c.key], c)
		} else if c.body != "" {
			m.erased = append(m.erased, c.body)
		}
		for b := range sure {
			if i < sure[b] {
				m.sure[b]--
			}
		}
	}
	m.log = left
}
