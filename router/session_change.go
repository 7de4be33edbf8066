package router

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// sessionChange is one change of a session on its way to its commit.
type sessionChange struct {
	s       sessions
	id      string
	policy  *policy // of the log
	guard   tiering.SessionWrite
	idem    *warm.Idempotency
	creates bool
	birth   *birth // the session is one that is being made, of which this is a part
	user    string // of a session that is made
	ended   int64  // the last version of the log whose life is over and of which nothing stands
	entries [][]byte
	attrs   *tiering.SessionPatch
	state   []byte            // the merge patch of the session's own state; nil: none
	shared  map[string][]byte // user and app: patches of what is shared
	ttl     *tiering.TTL
	parts   []string // that the change reads or writes
	answer  any      // kept with the idempotency key

	// What became of it.
	result   tiering.SessionAppended
	replayed bool
	stored   json.RawMessage // the answer of the first try
}

// sessionTx is a session under the locks of its transaction.
type sessionTx struct {
	log     warm.Head
	doc     sessionDoc
	version int64 // of the document that stands
	before  int64 // of the document, be it deleted
	parts   map[string]warm.Current
	entries [][]byte // appended besides the caller's, behind them
	wrote   bool     // the document changed
	put     map[string][]byte
}

// change begins a change. request is what the idempotency key stands for.
func (s sessions) change(ctx context.Context, id, op, idempotencyKey string, request any) (*sessionChange, error) {
	idem, err := s.idempotency(id, op, idempotencyKey, request)
	if err != nil {
		return nil, err
	}
	p, err := s.sessionSpaces(ctx)
	return &sessionChange{s: s, id: id, policy: p, idem: idem}, err
}

// idempotency is what stands for a change that may come again, nil without a key.
func (s sessions) idempotency(id, op, key string, request any) (*warm.Idempotency, error) {
	if err := checkIdempotencyKey(key); err != nil || key == "" {
		return nil, err
	}
	asked, err := json.Marshal(request)
	if err != nil {
		return nil, tiering.Invalidf("the request cannot be read: %v", err)
	}
	named := &mutation{key: s.docKey(id), row: warm.Row{User: s.who.Scope.User}}
	if op == "create" { // the id may be made anew by the second try
		named.key.ID = ""
	}
	return &warm.Idempotency{Tenant: s.who.Tenant, Key: key, Hash: requestHash("session "+op, named, [][]byte{asked})}, nil
}

// with takes events and a patch into the change.
func (c *sessionChange) with(events []json.RawMessage, p *tiering.SessionPatch, user string) (err error) {
	if len(events) > 0 {
		if c.entries, err = c.policy.events(events); err != nil {
			return err
		}
	}
	if p.Empty() {
		return nil
	}
	if p.Progress != nil && (*p.Progress < 0 || *p.Progress > 1) {
		return tiering.Unprocessablef("/progress", "progress %v: use 0 to 1", *p.Progress)
	}
	for name, v := range map[string]*string{"agent": p.Agent, "app": p.App, "status": p.Status} {
		if v != nil && *v != "" {
			if err := tiering.ValidateOwner(name, *v); err != nil {
				return tiering.Below(err, "/"+name)
			}
		}
	}
	if p.TTL != "" {
		if c.ttl, err = tiering.ParseTTL(p.TTL); err != nil {
			return tiering.Below(err, "/ttl")
		}
	}
	c.attrs = p
	if len(p.State) > 0 {
		c.state, c.shared, err = splitState(p.State)
	}
	return err
}

// patch applies the change's patch to the document.
func (t *sessionTx) patch(c *sessionChange) error {
	if c.attrs == nil {
		return nil
	}
	for _, f := range []struct {
		to   *string
		from *string
	}{{&t.doc.Agent, c.attrs.Agent}, {&t.doc.App, c.attrs.App}, {&t.doc.Status, c.attrs.Status}} {
		if f.from != nil && *f.to != *f.from {
			*f.to, t.wrote = *f.from, true
		}
	}
	if c.attrs.Progress != nil {
		t.doc.Progress, t.wrote = c.attrs.Progress, true
	}
	if c.state == nil {
		return nil
	}
	next, err := jsondoc.MergePatch(t.doc.State, c.state)
	if err != nil {
		return tiering.Below(err, "/state")
	}
	if jsondoc.KindOf(next) != jsondoc.Object {
		return tiering.Unprocessablef("/state", "a session's state is an object")
	}
	t.doc.State, t.wrote = next, true
	return nil
}

// commit runs the change in one transaction. decide sees the session as it
// stands, and may be called again.
func (c *sessionChange) commit(ctx context.Context, decide func(*sessionTx) error) error {
	s := c.s
	keys := []tiering.Key{s.logKey(c.id), s.docKey(c.id)}
	for _, p := range c.parts {
		keys = append(keys, s.partKey(c.id, p))
	}
	if f := c.guard.Fence; f != nil {
		keys = append(keys, s.partKey(f.Session, leasePart))
	}
	var order []tiering.Key // of the changes
	var log *warm.Head
	results, committed, err := s.transact(ctx, keys, c.idem, func(current []warm.Current) ([]warm.Change, error) {
		t := &sessionTx{parts: map[string]warm.Current{}, put: map[string][]byte{}}
		if err := c.judge(t, current); err != nil {
			return nil, err
		}
		if err := decide(t); err != nil {
			return nil, err
		}
		changes, err := c.changes(t)
		if err != nil {
			return nil, err
		}
		order = order[:0]
		for _, ch := range changes {
			order = append(order, ch.Key)
		}
		if c.idem != nil {
			c.idem.Answer, err = json.Marshal(c.answer)
		}
		log = &t.log
		return changes, err
	})
	if err != nil {
		return err
	}
	return c.settled(results, committed, order, log)
}

// judge checks what guards the change, and fills t with what stands.
func (c *sessionChange) judge(t *sessionTx, current []warm.Current) error {
	at := map[tiering.Key]warm.Current{}
	for _, cur := range current {
		at[cur.Head.Key] = cur
	}
	if err := c.s.underLease(c.guard.Fence, at); err != nil {
		return err
	}
	log, doc := at[c.s.logKey(c.id)], at[c.s.docKey(c.id)]
	live := log.Head.Live(log.Now)
	t.log = log.Head
	t.version, t.before = doc.Head.Standing(doc.Now), doc.Head.Version
	switch {
	case c.birth != nil:
		if err := c.birth.goesOn(live, log.Head, t.version); err != nil {
			return err
		}
		c.takeParts(t, at)
		return nil
	case c.creates && live && t.version == 0:
		return errBeingMade()
	case c.creates && live && !c.s.mayRead(log.Head.User):
		return &tiering.Error{Code: tiering.CodeVersionConflict, Detail: "the session exists"} // its version is not the caller's to know
	case c.creates && live:
		return &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: doc.Head.Version, Detail: "the session exists"}
	case c.creates && log.Head.Version != c.ended:
		return errFormerLife
	case c.creates:
		return nil
	case !live || t.version == 0 || !c.s.mayRead(log.Head.User):
		return noSession()
	}
	if err := c.s.asExpected(c.guard, t.version, log.Head.Version); err != nil {
		return err
	}
	c.takeParts(t, at)
	if doc.Body == nil {
		return errBaseInCold
	}
	return decodeDoc(doc.Body, &t.doc)
}

// takeParts gives t the change's parts that stand.
func (c *sessionChange) takeParts(t *sessionTx, at map[tiering.Key]warm.Current) {
	for _, p := range c.parts {
		if cur := at[c.s.partKey(c.id, p)]; cur.Head.Live(cur.Now) {
			t.parts[p] = cur
		}
	}
}

// underLease refuses a write whose lease does not stand among what was read.
func (s sessions) underLease(f *tiering.Fence, at map[tiering.Key]warm.Current) error {
	if f == nil {
		return nil
	}
	if cur := at[s.partKey(f.Session, leasePart)]; !cur.Head.Live(cur.Now) || cur.Head.Version != f.Token {
		return errFenced()
	}
	return nil
}

// asExpected refuses a write of a session that stands otherwise than its caller saw.
func (s sessions) asExpected(g tiering.SessionWrite, version, seq int64) error {
	switch {
	case g.IfVersion != nil && *g.IfVersion != version:
		return &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: version, Detail: "another version of the session stands: read it and try again"}
	case g.ExpectSeq != nil && *g.ExpectSeq != seq:
		return seqConflict(&tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: seq})
	}
	return nil
}

// changes are what the transaction writes, in key order. Entries slide the life
// of the session, and so does whatever else is done to it.
func (c *sessionChange) changes(t *sessionTx) ([]warm.Change, error) {
	s := c.s
	user := t.log.User
	if c.creates {
		user = c.user
	}
	put := func(key tiering.Key, body []byte, query bool, e warm.Expiry) warm.Change {
		return warm.Change{Key: key, Rows: []warm.Row{{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), User: user, Query: query, Expiry: e}}}
	}
	life := warm.Expiry{TTL: c.ttl, New: c.policy.TTL.Std(), Slide: true}
	var out []warm.Change
	if entries := append(slices.Clone(c.entries), t.entries...); len(entries) > 0 {
		m := &mutation{row: warm.Row{Op: tiering.OpPut, User: user, Expiry: life}}
		m.fill(entries)
		out = append(out, warm.Change{Key: s.logKey(c.id), Rows: m.run()})
	} else if t.log.TTL > 0 || c.ttl != nil {
		out = append(out, warm.Change{Key: s.logKey(c.id), Rows: []warm.Row{{Op: tiering.OpTouch, Expiry: warm.Expiry{TTL: c.ttl, Slide: true}, Exact: c.ttl != nil}}})
	}
	if t.wrote {
		body, err := encodeDoc(t.doc)
		if err != nil {
			return nil, err
		}
		if len(body) > tiering.MaxBody {
			return nil, tiering.Errorf(tiering.CodeTooLarge, "the session's state is %d bytes long, %d are allowed", len(body), tiering.MaxBody)
		}
		out = append(out, put(s.docKey(c.id), body, true, warm.Expiry{TTL: &tiering.TTL{None: true}}))
	}
	for part, body := range t.put {
		out = append(out, put(s.partKey(c.id, part), body, false, warm.Expiry{}))
	}
	slices.SortFunc(out, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
	return out, nil
}

// settled reads the outcome of the transaction.
func (c *sessionChange) settled(results [][]warm.Result, committed bool, order []tiering.Key, log *warm.Head) error {
	if len(results) > 0 && len(results[0]) > 0 {
		switch results[0][0].Status {
		case warm.Mismatch:
			return tiering.Errorf(tiering.CodeIdempotencyMismatch, "this Idempotency-Key came with another request before")
		case warm.Replayed:
			c.replayed, c.stored = true, results[0][0].Answer
		}
	}
	if !committed && !c.replayed {
		for _, rows := range results {
			for _, r := range rows {
				if r.Status == warm.UserFixed {
					return c.s.foreign()
				}
			}
		}
		return tiering.Errorf(tiering.CodeUnavailable, "the session was not changed: try again")
	}
	c.result = tiering.SessionAppended{Replayed: c.replayed}
	if log != nil {
		c.result.LastSeq, c.result.Time = log.Version, log.UpdatedAt
	}
	for i, rows := range results {
		last := rows[len(rows)-1]
		key := last.Head.Key
		if !c.replayed && i < len(order) {
			key = order[i]
		}
		switch key {
		case c.s.logKey(c.id):
			c.result.LastSeq, c.result.Time = last.Head.Version, later(c.result.Time, last.Head.UpdatedAt)
			if n := len(c.entries); n > 0 {
				c.result.FirstSeq = rows[0].Head.Version
			}
		case c.s.docKey(c.id):
			c.result.Version, c.result.Time = last.Head.Version, later(c.result.Time, last.Head.UpdatedAt)
		}
	}
	return nil
}
