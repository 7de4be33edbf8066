package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// The conditions of a put, as they travel: a version, or one of these.
const (
	wantAny    int64 = -2
	wantExists int64 = -1
	wantAbsent int64 = 0
)

// Bits of a put's mode. The two last ones travel in EXCLUDED.flags, above
// those that mean something in a row.
const (
	modeTTL   int16 = 1 << 3 // the row says what the expiry is to be
	modeSlide int16 = 1 << 4
)

// plainPuts reports whether the one statement can commit the batch: puts of
// namespaces that were written before, of which folds want the same for every
// row.
func plainPuts(changes []warm.Change, names map[nsKey]spaceID) bool {
	if len(changes) == 0 || len(changes) > 1<<14 {
		return false
	}
	total := 0
	for i := range changes {
		c := &changes[i]
		if total += len(c.Rows); !names[spaceOf(c.Key)].written || len(c.Rows) == 0 || total >= maxRows {
			return false
		}
		first := &c.Rows[0]
		for j := range c.Rows {
			row := &c.Rows[j]
			if row.Op != tiering.OpPut || row.User != first.User || row.Query != first.Query || !reflect.DeepEqual(row.Expiry, first.Expiry) {
				return false
			}
		}
		if e := first.Expiry; e.New%time.Microsecond != 0 || e.TTL != nil && !e.TTL.None && e.TTL.Life < time.Microsecond {
			return false
		}
	}
	_, twice := requestsOf(changes)
	return !twice
}

// puts is a batch on its way to its statement: changes in key order, and rows
// in the order of their changes.
type puts struct {
	putsVariant
	changes []warm.Change
	bodies  [][]packed
	nids    []int32
	indexed []int32 // namespaces that are believed to be
	rows    []rowAt
	asks    []putAsk
}

// rowAt names a row: the change and the row in it.
type rowAt struct{ change, row int }

// putAsk is a request of a row; rn counts rows from 1.
type putAsk struct {
	*warm.Idempotency
	change, rn int
}

// newPuts prepares a batch.
func newPuts(changes []warm.Change, names map[nsKey]spaceID, bodies [][]packed) *puts {
	p := &puts{changes: changes, bodies: bodies, nids: make([]int32, len(changes)), rows: make([]rowAt, 0, len(changes))}
	p.form = flatPuts
	if len(changes) == 1 {
		p.form = onePut
	}
	for i := range changes {
		c := &changes[i]
		id := names[spaceOf(c.Key)]
		p.nids[i] = id.nid
		if id.indexed && !slices.Contains(p.indexed, id.nid) {
			p.indexed = append(p.indexed, id.nid)
		}
		if len(c.Rows) > 1 {
			p.form = foldedPuts
		}
		switch {
		case !c.Rows[0].Query:
			p.unprojected = true
		case id.indexed:
			p.projected = true
		}
		for j := range c.Rows {
			p.rows = append(p.rows, rowAt{i, j})
			if r := c.Rows[j].Idempotency; r != nil {
				p.requests = true
				p.asks = append(p.asks, putAsk{r, i, len(p.rows)})
			}
		}
	}
	// The order in which every transaction inserts requests.
	slices.SortFunc(p.asks, func(a, b putAsk) int { return compareRequests(a.Idempotency, b.Idempotency) })
	return p
}

// head is the row that says what becomes of a change's head.
func (p *puts) head(i int) *warm.Row { return &p.changes[i].Rows[len(p.changes[i].Rows)-1] }

// life is what a row wants of its key's expiry: how long, in microseconds, and
// the bits of its mode.
func life(e warm.Expiry) (ttl int64, mode int16) {
	switch {
	case e.TTL != nil && e.TTL.None:
		return 0, modeTTL
	case e.TTL != nil:
		return e.TTL.Life.Microseconds(), modeTTL
	case e.Slide:
		mode = modeSlide
	}
	return max(e.New, 0).Microseconds(), mode
}

func modeOf(row *warm.Row) int16 {
	_, mode := life(row.Expiry)
	if row.Query {
		mode |= column.FlagQuery
	}
	return mode
}

func ttlOf(row *warm.Row) int64 {
	ttl, _ := life(row.Expiry)
	return ttl
}

// docOf is what the projection of a change is made from; nil for none in this
// statement, and empty for one without a document.
func (p *puts) docOf(i int, plain bool) []byte {
	switch row := p.head(i); {
	case !row.Query || !slices.Contains(p.indexed, p.nids[i]):
		return nil
	case plain:
		return []byte{}
	default:
		return jsondoc.WithoutNUL(row.Body)
	}
}

// notNil makes an empty value of a missing one, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// args are the parameters of the batch's statement, in into where they have room
// there. plain leaves projections empty.
func (p *puts) args(into []byte, now *int64, id uuid.UUID, shape []byte, plain bool) *wire {
	w := &wire{buf: into, ends: make([]int, 0, 32)}
	w.maybeInt8(now)
	w.bytes(id[:])
	w.bytes(shape)
	if p.form == onePut {
		p.oneArgs(w, plain)
		return w
	}
	n, rows := len(p.changes), len(p.rows)
	w.int4s(n, func(i int) int32 { return p.nids[i] })
	w.byteas(n, func(i int) []byte { return []byte(p.changes[i].Key.ID) })
	w.int8s(n, func(i int) int64 { return wanted(p.changes[i].If) })
	w.texts(n, func(i int) []byte { return []byte(p.head(i).User) })
	w.int8s(n, func(i int) int64 { return ttlOf(p.head(i)) })
	w.int2s(n, func(i int) int16 { return modeOf(p.head(i)) })
	w.int8s(n, func(i int) int64 { return int64(len(p.head(i).Body)) })
	w.byteas(n, func(i int) []byte { return column.DigestBytes(p.head(i).Digest) })
	w.int2s(rows, func(i int) int16 { return p.body(i).coding })
	w.byteas(rows, func(i int) []byte { return notNil(p.body(i).bytes) })
	w.byteas(rows, func(i int) []byte { return recordTail(p.changes[p.rows[i].change].Key, p.row(i)) })
	w.int4s(len(p.indexed), func(i int) int32 { return p.indexed[i] })
	if p.projected {
		w.texts(n, func(i int) []byte { return p.docOf(i, plain) })
	}
	if p.form == foldedPuts {
		w.int4s(n, func(i int) int32 { return int32(len(p.changes[i].Rows)) })
		w.int8s(rows, func(i int) int64 { return int64(p.rows[i].change + 1) })
		w.int4s(rows, func(i int) int32 { return int32(len(p.changes[p.rows[i].change].Rows) - 1 - p.rows[i].row) })
		w.int8s(rows, func(i int) int64 { return int64(len(p.row(i).Body)) })
		w.byteas(rows, func(i int) []byte { return column.DigestBytes(p.row(i).Digest) })
	}
	p.askArgs(w)
	return w
}

func (p *puts) row(i int) *warm.Row { return &p.changes[p.rows[i].change].Rows[p.rows[i].row] }
func (p *puts) body(i int) packed   { return p.bodies[p.rows[i].change][p.rows[i].row] }

func (p *puts) oneArgs(w *wire, plain bool) {
	c, row, body := &p.changes[0], &p.changes[0].Rows[0], p.bodies[0][0]
	w.int4(p.nids[0])
	w.text(c.Key.ID)
	w.int8(wanted(c.If))
	w.text(row.User)
	w.int8(ttlOf(row))
	w.int2(modeOf(row))
	w.int8(int64(len(row.Body)))
	w.bytes(column.DigestBytes(row.Digest))
	w.int2(body.coding)
	w.bytes(body.bytes)
	w.bytes(recordTail(c.Key, row))
	w.int4s(len(p.indexed), func(i int) int32 { return p.indexed[i] })
	if p.projected {
		w.bytes(p.docOf(0, plain))
	}
	p.askArgs(w)
}

func (p *puts) askArgs(w *wire) {
	if !p.requests {
		return
	}
	n := len(p.asks)
	w.int8s(n, func(i int) int64 { return int64(p.asks[i].change + 1) })
	w.int8s(n, func(i int) int64 { return int64(p.asks[i].rn) })
	w.texts(n, func(i int) []byte { return []byte(p.asks[i].Tenant) })
	w.byteas(n, func(i int) []byte { return []byte(p.asks[i].Key) })
	w.byteas(n, func(i int) []byte { return p.asks[i].Hash[:] })
	w.byteas(n, func(i int) []byte { return notNil(p.asks[i].Answer) })
}

// size is about how many bytes the parameters take.
func (p *puts) size() int {
	size := 512
	for i := range p.rows {
		row := p.row(i)
		size += len(p.body(i).bytes) + 3*len(p.changes[p.rows[i].change].Key.ID) + 256
		if p.projected {
			size += len(row.Body)
		}
	}
	return size
}

func wanted(c tiering.Condition) int64 {
	switch v, ok := c.Version(); {
	case ok:
		return v
	case c.Absent():
		return wantAbsent
	case c.Exists():
		return wantExists
	}
	return wantAny
}

// commitPuts is sendPuts, once more when a namespace turns out to be indexed.
func (s *Store) commitPuts(ctx context.Context, b *warm.Batch, names map[nsKey]spaceID, bodies [][]packed) (results [][]warm.Result, kept bool, err error) {
	for try := 0; ; try++ {
		results, kept, err = s.sendPuts(ctx, b, names, bodies)
		if sqlState(err) != stateUnprojected || try == tries {
			return results, kept, err
		}
		s.spaces.forget(names)
		names = maps.Clone(names)
		if err := s.number(ctx, names); err != nil {
			return nil, false, s.explain(err)
		}
	}
}

// sendPuts commits a batch of puts in one statement, behind the one that
// locks the namespaces: one implicit transaction, one round trip.
func (s *Store) sendPuts(ctx context.Context, b *warm.Batch, names map[nsKey]spaceID, bodies [][]packed) (results [][]warm.Result, kept bool, err error) {
	shape := encodeShape(b.Changes)
	requests, _ := requestsOf(b.Changes)
	class, number := s.lockArgs(names, requests)
	lock := &wire{}
	lock.int4s(len(class), func(i int) int32 { return class[i] })
	lock.int4s(len(number), func(i int) int32 { return number[i] })
	lock.text(s.life())
	p := newPuts(b.Changes, names, bodies)
	calls := []call{{name: "tierd_lock", sql: lockSpaces, args: lock.values()}, s.puts[p.number()]}
	var changes []byte
	var hotCount int64
	for _, plain := range []bool{false, true} {
		args := p.args(s.buffers.Take(p.size()), s.fixedNow(), b.ID, shape, plain)
		calls[1].args = args.values()
		err = s.transactOn(ctx, s.committers, func(t *txn) error {
			changes = nil
			if err := s.prepare(t.ctx, t.conn.Conn(), calls); err != nil {
				return err
			}
			t.sent = true
			return s.together(t.ctx, t.conn.Conn(), calls, func(row [][]byte) error {
				if len(row) != 2 || len(row[1]) != 8 {
					return column.ErrCorrupt
				}
				changes, hotCount = bytes.Clone(row[0]), int64(binary.BigEndian.Uint64(row[1]))
				return nil
			})
		})
		s.buffers.Give(args.buf)
		if plain || !p.projected || !refusedData(err) {
			break
		}
		s.refused.Add(1)
	}
	if err != nil {
		return nil, false, err
	}
	var done []made
	if changes != nil {
		if done, err = decodeChanges(changes); err != nil {
			return nil, false, unknown(err)
		}
	}
	if results, err = decodeResults(shape, done); err != nil {
		return nil, false, unknown(err)
	}
	kept = changes != nil
	if err := s.say(ctx, b.Changes, results); err != nil {
		if kept {
			return nil, false, unknown(err)
		}
		return nil, false, err
	}
	for i := range b.Changes {
		last := len(results[i]) - 1
		if c := &b.Changes[i]; last >= 0 && results[i][last].Status == warm.Done && c.Rows[last].Query && p.docOf(i, true) == nil {
			s.projector.add(docAt{p.nids[i], c.Key.ID}, results[i][last].Head.Version, bodies[i][last])
		}
	}
	return s.dated(results, hotCount), kept, nil
}

// say fills in the results of changes that left nothing behind, by looking at
// what stands now: that may be later than what refused them. Of such changes
// nothing was committed, so any moment after the commit is as good as another.
func (s *Store) say(ctx context.Context, changes []warm.Change, results [][]warm.Result) error {
	var todo []int
	w := want{}
	for i := range results {
		if len(results[i]) > 0 && results[i][0].Status == unsaid && i < len(changes) {
			todo, w.keys = append(todo, i), append(w.keys, changes[i].Key)
		}
	}
	if todo == nil {
		return nil
	}
	w.requests, _ = requestsOf(changes)
	names, err := s.numbered(ctx, w.keys)
	if err != nil {
		return err
	}
	return s.read(ctx, func(q querier) error {
		st, err := s.gather(ctx, q, w, names)
		if err != nil {
			return err
		}
		for _, i := range todo {
			c := &changes[i]
			stands := st.entry(c.Key).head
			answer, err := st.apply(c, nil)
			if err != nil {
				return err
			}
			if answer[0].Status == warm.Done {
				// What refused the change is gone by now. It was refused all the same.
				r := warm.Result{Status: warm.Conflict, Head: stands}
				switch {
				case !c.If.Unconditional():
				case c.Rows[0].User != "":
					r.Status = warm.UserFixed
				default:
					r = warm.Result{Status: warm.NoNamespace}
				}
				answer = rules.Each(c.Rows, r)
			}
			results[i] = answer
		}
		return nil
	})
}
