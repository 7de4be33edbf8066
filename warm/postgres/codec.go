package postgres

import (
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A batch keeps its changes and its results as one bytea each, a request its
// result. The first byte is the form: two of them are put together by the
// statement that commits puts, from what only the server knows (a version, a
// time) and what was encoded before it was sent.
const (
	formChanges byte = 1 // a batch's changes: a count, and each change
	formRecords byte = 2 // a batch's changes: records, each behind the index of its change (int2)
	formShape   byte = 3 // a batch's results: how many rows each change has; those that were done have a record
	formResults byte = 4 // results: counts, and each result
	formResult  byte = 5 // a request's result
	formRecord  byte = 6 // a request's result: a record, and the answer behind it
)

// made is a change of the feed, with what only the batch's results need.
type made struct {
	warm.FeedChange
	change  int // index in the batch; formRecords alone
	created bool
}

// encodeChanges writes a feed entry's changes.
func encodeChanges(changes []warm.FeedChange) []byte {
	e := encoder{b: make([]byte, 0, 2+len(changes)*112)}
	e.byte(formChanges)
	e.uint(uint64(len(changes)))
	for i := range changes {
		c := &changes[i]
		e.byte(byte(c.Op))
		e.byte(byte(flags(c.Pinned, false, c.Query)))
		e.key(c.Key)
		e.int(c.Version)
		e.int(c.Revision)
		e.int(c.Prev)
		e.time(c.At)
		e.time(c.CreatedAt)
		e.time(c.ExpiresAt)
		e.int(c.TTL.Microseconds())
		e.string(c.User)
		e.int(c.Size)
		e.digest(c.Digest)
	}
	return e.b
}

// decodeChanges reads both forms of a batch's changes.
func decodeChanges(b []byte) (out []made, err error) {
	d := decoder{b: b}
	switch d.byte() {
	case formChanges:
		out = make([]made, d.count())
		for i := range out {
			out[i].FeedChange = d.change()
		}
	case formRecords:
		return d.records()
	default:
		d.fail()
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return out, nil
}

// records reads records, each behind the index of its change.
func (d *decoder) records() (out []made, err error) {
	for len(d.b) > 0 {
		at := d.int16()
		m := d.record()
		m.change = at
		out = append(out, m)
	}
	return out, d.err
}

func (d *decoder) change() (c warm.FeedChange) {
	c.Op = tiering.Op(d.byte())
	f := int16(d.byte())
	c.Pinned, c.Query = f&flagPinned != 0, f&flagQuery != 0
	c.Key = d.key()
	c.Version = d.int()
	c.Revision = d.int()
	c.Prev = d.int()
	c.At = d.time()
	c.CreatedAt = d.time()
	c.ExpiresAt = d.time()
	c.TTL = time.Duration(d.int()) * time.Microsecond
	c.User = d.string()
	c.Size = d.int()
	c.Digest = d.digest()
	return c
}

// recordTail encodes what is known of a put before it is sent: the end of its
// record. Its beginning is made by the statement.
func recordTail(key tiering.Key, row *warm.Row) []byte {
	e := encoder{b: make([]byte, 0, 48+len(key.Tenant)+len(key.Namespace)+len(key.ID))}
	e.key(key)
	e.int(int64(len(row.Body)))
	e.digest(row.Digest)
	return e.b
}

// record reads a record: of a put that was done.
func (d *decoder) record() (m made) {
	m.Op = tiering.OpPut
	m.Version = d.int64()
	m.Prev = d.int64()
	m.At = fromMicros(d.int64())
	m.CreatedAt = fromMicros(d.int64())
	m.ExpiresAt = fromMicros(d.int64())
	m.TTL = time.Duration(d.int64()) * time.Microsecond
	f := int16(d.int16())
	m.Pinned, m.Query, m.created = f&flagPinned != 0, f&flagQuery != 0, f&flagCreated != 0
	m.User = string(d.take(d.int16()))
	m.Key = d.key()
	m.Size = d.int()
	m.Digest = d.digest()
	return m
}

// result is what the row of a record was answered.
func (m *made) result() warm.Result {
	return warm.Result{Status: warm.Done, Created: m.created, Prev: m.Prev, Head: warm.Head{
		Key: m.Key, Op: tiering.OpPut, Version: m.Version, CreatedAt: m.CreatedAt, UpdatedAt: m.At, AccessedAt: m.At,
		ExpiresAt: m.ExpiresAt, TTL: m.TTL, User: m.User, Size: m.Size, Digest: m.Digest, Pinned: m.Pinned, InWarm: true,
	}}
}

func (e *encoder) head(h warm.Head) {
	e.byte(byte(h.Op))
	e.byte(byte(flags(h.Pinned, h.InWarm, false)))
	e.key(h.Key)
	e.int(h.Version)
	e.int(h.Revision)
	e.time(h.CreatedAt)
	e.time(h.UpdatedAt)
	e.time(h.ExpiresAt)
	e.int(h.TTL.Microseconds())
	e.time(h.AccessedAt)
	e.string(h.User)
	e.int(h.Size)
	e.digest(h.Digest)
}

func (d *decoder) head() (h warm.Head) {
	h.Op = tiering.Op(d.byte())
	f := int16(d.byte())
	h.Pinned, h.InWarm = f&flagPinned != 0, f&flagInWarm != 0
	h.Key = d.key()
	h.Version = d.int()
	h.Revision = d.int()
	h.CreatedAt = d.time()
	h.UpdatedAt = d.time()
	h.ExpiresAt = d.time()
	h.TTL = time.Duration(d.int()) * time.Microsecond
	h.AccessedAt = d.time()
	h.User = d.string()
	h.Size = d.int()
	h.Digest = d.digest()
	return h
}

// encodeResult writes one result for a request.
func encodeResult(r warm.Result) []byte {
	e := encoder{b: make([]byte, 0, 192)}
	e.byte(formResult)
	e.result(r, false)
	return e.b
}

// The leading byte of a result: its status, and whether its head is left out.
const resultInFeed = 0x80

// unsaid is the status of a row that left nothing behind, in results of which
// only those are kept that were done.
const unsaid warm.Status = 0x7f

// result writes r. With inFeed, a Done result leaves out what the feed entry
// of the same transaction tells.
func (e *encoder) result(r warm.Result, inFeed bool) {
	inFeed = inFeed && r.Status == warm.Done
	lead := byte(r.Status)
	if inFeed {
		lead |= resultInFeed
	}
	e.byte(lead)
	created := byte(0)
	if r.Created {
		created = 1
	}
	if inFeed {
		e.byte(created<<7 | byte(flags(false, r.Head.InWarm, false)))
		e.time(r.Head.UpdatedAt)
		e.time(r.Head.AccessedAt)
		e.byte(byte(r.Head.Op))
		return
	}
	e.byte(created)
	e.head(r.Head)
	e.int(r.Prev)
	e.bytes(r.Answer)
	msg := ""
	if r.Err != nil {
		msg = r.Err.Error()
	}
	e.string(msg)
}

// result reads what encoder.result wrote; next yields the feed's changes.
func (d *decoder) result(next func() (made, bool)) (r warm.Result) {
	lead := d.byte()
	r.Status = warm.Status(lead &^ resultInFeed)
	if lead&resultInFeed == 0 {
		r.Created = d.byte() == 1
		r.Head = d.head()
		r.Prev = d.int()
		r.Answer = d.bytes()
		if msg := d.string(); msg != "" {
			r.Err = errors.New(msg)
		}
		return r
	}
	f := d.byte()
	c, ok := next()
	if !ok {
		d.fail()
		return warm.Result{}
	}
	r.Created = f>>7 == 1
	r.Prev = c.Prev
	r.Head = warm.Head{
		Key: c.Key, Version: c.Version, Revision: c.Revision, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt,
		TTL: c.TTL, User: c.User, Size: c.Size, Digest: c.Digest, Pinned: c.Pinned, InWarm: int16(f)&flagInWarm != 0,
	}
	r.Head.UpdatedAt = d.time()
	r.Head.AccessedAt = d.time()
	r.Head.Op = tiering.Op(d.byte())
	return r
}

// encodeResults writes all results of a transaction, for its batch id (inFeed)
// or for the request that covers it.
func encodeResults(all [][]warm.Result, inFeed bool) []byte {
	e := encoder{b: make([]byte, 0, 16+len(all)*24)}
	e.byte(formResults)
	e.uint(uint64(len(all)))
	for _, rows := range all {
		e.uint(uint64(len(rows)))
		for _, r := range rows {
			e.result(r, inFeed)
		}
	}
	return e.b
}

// encodeShape writes how many rows each change has.
func encodeShape(changes []warm.Change) []byte {
	e := encoder{b: make([]byte, 0, 3+len(changes))}
	e.byte(formShape)
	e.uint(uint64(len(changes)))
	for i := range changes {
		e.uint(uint64(len(changes[i].Rows)))
	}
	return e.b
}

// decodeResults reads a batch's results; changes are those of the same batch.
// Of a shape, rows without a record are unsaid.
func decodeResults(b []byte, changes []made) ([][]warm.Result, error) {
	d := decoder{b: b}
	form := d.byte()
	if form != formResults && form != formShape {
		d.fail()
	}
	next := func() (made, bool) {
		if len(changes) == 0 {
			return made{}, false
		}
		c := changes[0]
		changes = changes[1:]
		return c, true
	}
	out := make([][]warm.Result, d.count())
	total := uint64(0)
	for i := range out {
		n := d.uint()
		if total += n; form == formResults && n > uint64(len(d.b)) || n > maxRows || total > maxRows {
			d.fail()
			break
		}
		out[i] = make([]warm.Result, n)
		for j := range out[i] {
			switch {
			case form == formResults:
				out[i][j] = d.result(next)
			case len(changes) > 0 && changes[0].change == i:
				out[i][j] = changes[0].result()
				changes = changes[1:]
			default:
				out[i][j] = warm.Result{Status: unsaid}
			}
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return out, nil
}

// decodeStored reads a request's result: of one row, or of a transaction.
func decodeStored(b []byte) ([][]warm.Result, error) {
	d := decoder{b: b}
	switch d.byte() {
	case formResults:
		return decodeResults(b, nil)
	case formResult:
		r := d.result(func() (made, bool) { return made{}, false })
		return [][]warm.Result{{r}}, d.end()
	case formRecord:
		m := d.record()
		r := m.result()
		if len(d.b) > 0 {
			r.Answer = append([]byte(nil), d.b...)
		}
		return [][]warm.Result{{r}}, d.err
	}
	return nil, errCodec
}
