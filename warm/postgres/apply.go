package postgres

import (
	"bytes"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
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
	return &space{}
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

// apply evaluates one change against what stands. A known idempotency key comes
// before all that rules.Judge checks.
func (s *state) apply(c *warm.Change, bodies []packed) ([]warm.Result, error) {
	results := make([]warm.Result, len(c.Rows))
	if known, err := s.replay(c.Rows, results); err != nil || known {
		return results, err
	}
	ns := s.space(spaceOf(c.Key))
	e := s.entry(c.Key)
	if refused := rules.Judge(c, &ns.Namespace, e.head, s.now); refused != nil {
		return refused, nil
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

// carryOut makes one row of a change whose conditions hold.
func (s *state) carryOut(ns *space, c *warm.Change, i int, e *entry, bodies []packed, results []warm.Result) error {
	row := &c.Rows[i]
	r, err := rules.Next(e.head, c.Key, row, s.now, ns.Floor)
	if err != nil {
		return err
	}
	if r.Status == warm.Done {
		e.head, e.query, e.due = r.Head, rules.Queryable(row, e.query), earlierDue(e.due, r.Head)
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
		s.feed = append(s.feed, rules.Record(row.Op, r, e.query, s.now))
	}
	if row.Idempotency != nil && (r.Status == warm.Done || r.Status == warm.NoChange) {
		s.remember(row.Idempotency, r)
	}
	results[i] = r
	return nil
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

// rememberAll keeps the results of a whole transaction.
func (s *state) rememberAll(i *warm.Idempotency, results [][]warm.Result) {
	s.keep(i, encodeResults(rules.Remembered(i, results), false))
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
	return rules.Replayed(results), true, nil
}
