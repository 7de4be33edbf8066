package postgres

import (
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
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
	e := encode(2 + len(changes)*112)
	e.Byte(formChanges)
	e.Uint(uint64(len(changes)))
	for i := range changes {
		c := &changes[i]
		e.Byte(byte(c.Op))
		e.Byte(byte(flags(c.Pinned, false, c.Query)))
		e.Key(c.Key)
		e.Int(c.Version)
		e.Int(c.Revision)
		e.Int(c.Prev)
		e.Time(c.At)
		e.Time(c.CreatedAt)
		e.Time(c.ExpiresAt)
		e.Int(c.TTL.Microseconds())
		e.Text(c.User)
		e.Int(c.Size)
		e.Digest(c.Digest)
	}
	return e.B
}

// decodeChanges reads both forms of a batch's changes.
func decodeChanges(b []byte) (out []made, err error) {
	d := decode(b)
	switch d.Byte() {
	case formChanges:
		out = make([]made, d.Count())
		for i := range out {
			out[i].FeedChange = d.change()
		}
	case formRecords:
		return d.records()
	default:
		d.Fail()
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return out, nil
}

// records reads records, each behind the index of its change.
func (d *decoder) records() (out []made, err error) {
	for len(d.B) > 0 {
		at := d.int16()
		m := d.record()
		m.change = at
		out = append(out, m)
	}
	return out, d.Err
}

func (d *decoder) change() (c warm.FeedChange) {
	c.Op = tiering.Op(d.Byte())
	f := int16(d.Byte())
	c.Pinned, c.Query = f&flagPinned != 0, f&flagQuery != 0
	c.Key = d.Key()
	c.Version = d.Int()
	c.Revision = d.Int()
	c.Prev = d.Int()
	c.At = d.Time()
	c.CreatedAt = d.Time()
	c.ExpiresAt = d.Time()
	c.TTL = time.Duration(d.Int()) * time.Microsecond
	c.User = d.Text()
	c.Size = d.Int()
	c.Digest = d.Digest()
	return c
}

// recordTail encodes what is known of a put before it is sent: the end of its
// record. Its beginning is made by the statement.
func recordTail(key tiering.Key, row *warm.Row) []byte {
	e := encode(48 + len(key.Tenant) + len(key.Namespace) + len(key.ID))
	e.Key(key)
	e.Int(int64(len(row.Body)))
	e.Digest(row.Digest)
	return e.B
}

// record reads a record: of a put that was done.
func (d *decoder) record() (m made) {
	m.Op = tiering.OpPut
	m.Version = d.int64()
	m.Prev = d.int64()
	m.At = column.Time(d.int64())
	m.CreatedAt = column.Time(d.int64())
	m.ExpiresAt = column.Time(d.int64())
	m.TTL = time.Duration(d.int64()) * time.Microsecond
	f := int16(d.int16())
	m.Pinned, m.Query, m.created = f&flagPinned != 0, f&flagQuery != 0, f&flagCreated != 0
	m.User = string(d.Take(d.int16()))
	m.Key = d.Key()
	m.Size = d.Int()
	m.Digest = d.Digest()
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
	e.Byte(byte(h.Op))
	e.Byte(byte(flags(h.Pinned, h.InWarm, false)))
	e.Key(h.Key)
	e.Int(h.Version)
	e.Int(h.Revision)
	e.Time(h.CreatedAt)
	e.Time(h.UpdatedAt)
	e.Time(h.ExpiresAt)
	e.Int(h.TTL.Microseconds())
	e.Time(h.AccessedAt)
	e.Text(h.User)
	e.Int(h.Size)
	e.Digest(h.Digest)
}

func (d *decoder) head() (h warm.Head) {
	h.Op = tiering.Op(d.Byte())
	f := int16(d.Byte())
	h.Pinned, h.InWarm = f&flagPinned != 0, f&flagInWarm != 0
	h.Key = d.Key()
	h.Version = d.Int()
	h.Revision = d.Int()
	h.CreatedAt = d.Time()
	h.UpdatedAt = d.Time()
	h.ExpiresAt = d.Time()
	h.TTL = time.Duration(d.Int()) * time.Microsecond
	h.AccessedAt = d.Time()
	h.User = d.Text()
	h.Size = d.Int()
	h.Digest = d.Digest()
	return h
}

// encodeResult writes one result for a request.
func encodeResult(r warm.Result) []byte {
	e := encode(192)
	e.Byte(formResult)
	e.result(r, false)
	return e.B
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
	e.Byte(lead)
	created := byte(0)
	if r.Created {
		created = 1
	}
	if inFeed {
		e.Byte(created<<7 | byte(flags(false, r.Head.InWarm, false)))
		e.Time(r.Head.UpdatedAt)
		e.Time(r.Head.AccessedAt)
		e.Byte(byte(r.Head.Op))
		return
	}
	e.Byte(created)
	e.head(r.Head)
	e.Int(r.Prev)
	e.Bytes(r.Answer)
	msg := ""
	if r.Err != nil {
		msg = r.Err.Error()
	}
	e.Text(msg)
}

// result reads what encoder.result wrote; next yields the feed's changes.
func (d *decoder) result(next func() (made, bool)) (r warm.Result) {
	lead := d.Byte()
	r.Status = warm.Status(lead &^ resultInFeed)
	if lead&resultInFeed == 0 {
		r.Created = d.Byte() == 1
		r.Head = d.head()
		r.Prev = d.Int()
		r.Answer = d.Bytes()
		if msg := d.Text(); msg != "" {
			r.Err = errors.New(msg)
		}
		return r
	}
	f := d.Byte()
	c, ok := next()
	if !ok {
		d.Fail()
		return warm.Result{}
	}
	r.Created = f>>7 == 1
	r.Prev = c.Prev
	r.Head = warm.Head{
		Key: c.Key, Version: c.Version, Revision: c.Revision, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt,
		TTL: c.TTL, User: c.User, Size: c.Size, Digest: c.Digest, Pinned: c.Pinned, InWarm: int16(f)&flagInWarm != 0,
	}
	r.Head.UpdatedAt = d.Time()
	r.Head.AccessedAt = d.Time()
	r.Head.Op = tiering.Op(d.Byte())
	return r
}

// encodeResults writes all results of a transaction, for its batch id (inFeed)
// or for the request that covers it.
func encodeResults(all [][]warm.Result, inFeed bool) []byte {
	e := encode(16 + len(all)*24)
	e.Byte(formResults)
	e.Uint(uint64(len(all)))
	for _, rows := range all {
		e.Uint(uint64(len(rows)))
		for _, r := range rows {
			e.result(r, inFeed)
		}
	}
	return e.B
}

// encodeShape writes how many rows each change has.
func encodeShape(changes []warm.Change) []byte {
	e := encode(3 + len(changes))
	e.Byte(formShape)
	e.Uint(uint64(len(changes)))
	for i := range changes {
		e.Uint(uint64(len(changes[i].Rows)))
	}
	return e.B
}

// decodeResults reads a batch's results; changes are those of the same batch.
// Of a shape, rows without a record are unsaid.
func decodeResults(b []byte, changes []made) ([][]warm.Result, error) {
	d := decode(b)
	form := d.Byte()
	if form != formResults && form != formShape {
		d.Fail()
	}
	next := func() (made, bool) {
		if len(changes) == 0 {
			return made{}, false
		}
		c := changes[0]
		changes = changes[1:]
		return c, true
	}
	out := make([][]warm.Result, d.Count())
	total := uint64(0)
	for i := range out {
		n := d.Uint()
		if total += n; form == formResults && n > uint64(len(d.B)) || n > maxRows || total > maxRows {
			d.Fail()
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
	if err := d.End(); err != nil {
		return nil, err
	}
	return out, nil
}

// decodeStored reads a request's result: of one row, or of a transaction.
func decodeStored(b []byte) ([][]warm.Result, error) {
	d := decode(b)
	switch d.Byte() {
	case formResults:
		return decodeResults(b, nil)
	case formResult:
		r := d.result(func() (made, bool) { return made{}, false })
		return [][]warm.Result{{r}}, d.End()
	case formRecord:
		m := d.record()
		r := m.result()
		if len(d.B) > 0 {
			r.Answer = append([]byte(nil), d.B...)
		}
		return [][]warm.Result{{r}}, d.Err
	}
	return nil, column.ErrCorrupt
}
