package postgres

import (
	"bytes"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// entry is a head with what only the driver knows of it.
type entry struct {
	kid   int64 // 0: there is no row, not even a placeholder
	head  warm.Head
	query bool
	due   int64
	body  packed // of the version that stands, where it was asked for
	// changed and remade say that the row, and its version, are new.
	changed, remade bool
	fresh           bool                 // the row is written already
	stood           bool                 // there was a head before: what hangs on it may be there
	memory          *tiering.MemoryEntry // what the last version came with
}

// requestKey names an idempotency row.
type requestKey struct{ tenant, key string }

// stored is an idempotency row.
type stored struct{ hash, result []byte }

// state is what a transaction has read under its locks, and what its changes
// make of that. It touches no database: who holds no locks may ask it too.
type state struct {
	now      time.Time
	hotCount int64 // of the hot epoch
	spaces   map[nsKey]*space
	entries  map[tiering.Key]*entry
	requests map[requestKey]stored

	feed     []warm.FeedChange
	versions []versionRow
	once     []requestRow
	docs     map[tiering.Key][]byte // the last put of a key
}

// versionRow is a version to be written.
type versionRow struct {
	entry *entry
	head  warm.Head
	body  packed
}

// requestRow is an idempotency row to be written.
type requestRow struct {
	*warm.Idempotency
	result []byte
}

func (s *state) space(k nsKey) *space {
	if n := s.spaces[k]; n != nil {
		return n
	}
	return &space{key: k}
}

func (s *state) entry(k tiering.Key) *entry {
	e := s.entries[k]
	if e == nil {
		e = &entry{}
		s.entries[k] = e
	}
	return e
}

// wrote reports whether there is anything to keep.
func (s *state) wrote() bool { return len(s.feed) > 0 || len(s.once) > 0 }

// apply evaluates one change against what stands. The order of the checks is
// the contract's: a known idempotency key, the namespace, the condition, the
// owner.
func (s *state) apply(c *warm.Change, bodies []packed) ([]warm.Result, error) {
	results := make([]warm.Result, len(c.Rows))
	if known, err := s.replay(c.Rows, results); err != nil || known {
		return results, err
	}
	ns := s.space(spaceOf(c.Key))
	if !writable(ns, c) {
		return fill(results, warm.Result{Status: warm.NoNamespace}), nil
	}
	e := s.entry(c.Key)
	if !c.If.Holds(e.head.Standing(s.now)) {
		return fill(results, warm.Result{Status: warm.Conflict, Head: e.head}), nil
	}
	if i := foreign(e.head, c.Rows, s.now); i >= 0 {
		fill(results, warm.Result{Status: warm.Again})
		results[i] = warm.Result{Status: warm.UserFixed, Head: e.head}
		return results, nil
	}
	for i := range c.Rows {
		if i > 0 {
			// The same request twice in one change: the first row counts.
			if twin, err := s.replay(c.Rows[i:i+1], results[i:i+1]); err != nil {
				return nil, err
			} else if twin {
				continue
			}
		}
		if err := s.carryOut(ns, c, i, e, bodies, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// writable reports whether the change may be made in ns. The sweep may still
// bury what expired in a namespace that was dropped.
func writable(ns *space, c *warm.Change) bool {
	if c.Key.Reserved() || ns.known && !ns.deleted {
		return true
	}
	return ns.known && len(c.Rows) == 1 && c.Rows[0].Op == tiering.OpExpire
}

// fill puts r in every place.
func fill(results []warm.Result, r warm.Result) []warm.Result {
	for i := range results {
		results[i] = r
	}
	return results
}

// foreign returns the first row that names another user than the key's, -1
// for none. The first put of a new key says whose it is.
func foreign(h warm.Head, rows []warm.Row, now time.Time) int {
	live, owner := h.Live(now), h.User
	for i := range rows {
		if live && rows[i].User != "" && rows[i].User != owner {
			return i
		}
		if !live && rows[i].Op == tiering.OpPut {
			live, owner = true, rows[i].User
		}
	}
	return -1
}

// carryOut makes one row of a change whose conditions hold.
func (s *state) carryOut(ns *space, c *warm.Change, i int, e *entry, bodies []packed, results []warm.Result) error {
	row := &c.Rows[i]
	r, err := s.row(ns, c.Key, row, e)
	if err != nil {
		return err
	}
	if r.Status == warm.Done {
		e.changed = true
		if row.Op.Versioned() {
			e.remade, e.memory = true, row.Memory
			v := versionRow{entry: e, head: r.Head}
			if bodies != nil {
				v.body = bodies[i]
			}
			s.versions = append(s.versions, v)
			s.docs[c.Key] = row.Body
		}
		s.feed = append(s.feed, change(row.Op, r, e.query, s.now))
	}
	if row.Idempotency != nil && (r.Status == warm.Done || r.Status == warm.NoChange) {
		s.remember(row.Idempotency, r)
	}
	results[i] = r
	return nil
}

// row evaluates one row and moves e to what it makes.
func (s *state) row(ns *space, key tiering.Key, row *warm.Row, e *entry) (warm.Result, error) {
	h := e.head
	r := warm.Result{Head: h, Prev: h.Standing(s.now)}
	live := r.Prev > 0
	switch row.Op {
	case tiering.OpPut:
		r.Created = !live
		r.Head = afterPut(h, key, row, s.now, ns.floor)
		e.query = row.Query
	case tiering.OpDelete:
		if !live {
			return warm.Result{Status: warm.NoChange, Head: h}, nil
		}
		r.Head = afterDelete(h, row.Op, s.now, ns.floor)
		e.query = false
	case tiering.OpExpire:
		if !expired(h, s.now) {
			return warm.Result{Status: warm.NoChange, Head: h}, nil
		}
		r.Prev = h.Version // what the sweep buries, though it no longer stood
		r.Head = afterDelete(h, row.Op, s.now, ns.floor)
		e.query = false
	case tiering.OpTouch, tiering.OpPin, tiering.OpUnpin:
		if !live {
			return warm.Result{Status: warm.Conflict, Head: h}, nil
		}
		if row.Op == tiering.OpTouch {
			r.Head = afterTouch(h, row, s.now)
			break
		}
		pin := row.Op == tiering.OpPin
		if h.Pinned == pin {
			return warm.Result{Status: warm.NoChange, Head: h, Prev: r.Prev}, nil
		}
		r.Head = afterPin(h, pin)
	default:
		return warm.Result{}, tiering.Invalidf("op %d of %s is not one of a row", row.Op, key)
	}
	e.head = r.Head
	e.due = earlierDue(e.due, r.Head)
	return r, nil
}

// earlierDue is the lazy due time of a head: it moves forward with the sweep
// alone.
func earlierDue(due int64, h warm.Head) int64 {
	at := column.Micros(h.ExpiresAt)
	if at != 0 && !h.Pinned && (due == 0 || at < due) {
		return at
	}
	return due
}

// change is the feed's record of a row that was done.
func change(op tiering.Op, r warm.Result, query bool, now time.Time) warm.FeedChange {
	h := r.Head
	at := h.UpdatedAt
	if !op.Versioned() && now.After(at) {
		at = now
	}
	return warm.FeedChange{
		Key: h.Key, Op: op, Version: h.Version, Revision: h.Revision, Prev: r.Prev, At: at,
		CreatedAt: h.CreatedAt, ExpiresAt: h.ExpiresAt, TTL: h.TTL, User: h.User,
		Pinned: h.Pinned, Query: query, Size: h.Size, Digest: h.Digest,
	}
}

// replay fills results and reports true when any of rows is known: then the
// change is not applied, and the rows that are new have to come again.
func (s *state) replay(rows []warm.Row, results []warm.Result) (known bool, err error) {
	for i := range rows {
		results[i] = warm.Result{Status: warm.Again}
		idem := rows[i].Idempotency
		if idem == nil {
			continue
		}
		had, ok := s.requests[requestKey{idem.Tenant, idem.Key}]
		switch {
		case !ok:
			continue
		case !bytes.Equal(had.hash, idem.Hash[:]):
			results[i] = warm.Result{Status: warm.Mismatch}
		default:
			all, err := decodeStored(had.result)
			if err != nil {
				return false, err
			}
			if len(all) > 0 && len(all[0]) > 0 {
				results[i] = all[0][0]
			}
			results[i].Status = warm.Replayed
		}
		known = true
	}
	return known, nil
}

// remember keeps the result of a row that was carried out.
func (s *state) remember(i *warm.Idempotency, r warm.Result) {
	r.Answer = i.Answer
	s.keep(i, encodeResult(r))
}

func (s *state) keep(i *warm.Idempotency, result []byte) {
	s.requests[requestKey{i.Tenant, i.Key}] = stored{i.Hash[:], result}
	s.once = append(s.once, requestRow{i, result})
}

// rememberAll keeps the results of a whole transaction. decide may have filled
// in the answer by now.
func (s *state) rememberAll(i *warm.Idempotency, results [][]warm.Result) {
	kept := make([][]warm.Result, len(results))
	for c := range results {
		kept[c] = append([]warm.Result(nil), results[c]...)
		for r := range kept[c] {
			kept[c][r].Answer = i.Answer
		}
	}
	if len(kept) == 0 {
		kept = [][]warm.Result{{{Answer: i.Answer}}}
	}
	s.keep(i, encodeResults(kept, false))
}

// replayAll is replay for a transaction that one request covers.
func (s *state) replayAll(i *warm.Idempotency) (results [][]warm.Result, known bool, err error) {
	if i == nil {
		return nil, false, nil
	}
	had, ok := s.requests[requestKey{i.Tenant, i.Key}]
	switch {
	case !ok:
		return nil, false, nil
	case !bytes.Equal(had.hash, i.Hash[:]):
		return [][]warm.Result{{{Status: warm.Mismatch}}}, true, nil
	}
	if results, err = decodeStored(had.result); err != nil {
		return nil, false, err
	}
	for c := range results {
		for r := range results[c] {
			results[c][r].Status = warm.Replayed
		}
	}
	return results, true, nil
}
