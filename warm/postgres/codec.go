package postgres

import (
	"encoding/binary"
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

// flagCreated is a bit beside column's, in records alone.
const flagCreated = 8

// decoder adds what PostgreSQL writes itself.
type decoder struct{ column.Decoder }

func encode(room int) column.Encoder { return column.Encoder{B: make([]byte, 0, room)} }
func decode(b []byte) decoder        { return decoder{column.Decoder{B: b}} }

// int64 and int16 read what PostgreSQL's int8send and int2send write.
func (d *decoder) int64() int64 {
	b := d.Take(8)
	if len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (d *decoder) int16() int {
	b := d.Take(2)
	if len(b) < 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(b))
}

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
		e.Change(&changes[i])
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
			out[i].FeedChange = d.Change()
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
	out = make([]made, 0, len(d.B)/leastRecord)
	var key tiering.Key
	for len(d.B) > 0 {
		at := d.int16()
		m := d.record(key)
		m.change, key = at, m.Key
		out = append(out, m)
	}
	return out, d.Err
}

// leastRecord is less than any record takes behind its index.
const leastRecord = 2 + 6*8 + 2 + 2 + 3 + 1 + 1

// recordTail encodes what is known of a put before it is sent: the end of its
// record. Its beginning is made by the statement.
func recordTail(key tiering.Key, row *warm.Row) []byte {
	e := encode(48 + len(key.Tenant) + len(key.Namespace) + len(key.ID))
	e.Key(key)
	e.Int(int64(len(row.Body)))
	e.Digest(row.Digest)
	return e.B
}

// record reads a record: of a put that was done. before is the key of the one before.
func (d *decoder) record(before tiering.Key) (m made) {
	m.Op = tiering.OpPut
	m.Version = d.int64()
	m.Prev = d.int64()
	m.At = column.Time(d.int64())
	m.CreatedAt = column.Time(d.int64())
	m.ExpiresAt = column.Time(d.int64())
	m.TTL = time.Duration(d.int64()) * time.Microsecond
	f := d.int16()
	m.Pinned, m.Query, m.created = f&column.FlagPinned != 0, f&column.FlagQuery != 0, f&flagCreated != 0
	m.User = string(d.Take(d.int16()))
	m.Key = d.KeyLike(before)
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

// encodeResult writes one result for a request.
func encodeResult(r warm.Result) []byte {
	e := encode(192)
	e.Byte(formResult)
	e.Result(&r, false)
	return e.B
}

// unsaid is the status of a row that left nothing behind, in results of which
// only those are kept that were done.
const unsaid warm.Status = 0x7f

// encodeResults writes all results of a transaction, for its batch id (inFeed)
// or for the request that covers it.
func encodeResults(all [][]warm.Result, inFeed bool) []byte {
	e := encode(16 + len(all)*24)
	e.Byte(formResults)
	e.Results(all, inFeed)
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
	next := func() (warm.FeedChange, bool) {
		if len(changes) == 0 {
			return warm.FeedChange{}, false
		}
		c := changes[0].FeedChange
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
				out[i][j] = d.Result(next)
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
		r := d.Result(nil)
		return [][]warm.Result{{r}}, d.End()
	case formRecord:
		m := d.record(tiering.Key{})
		r := m.result()
		if len(d.B) > 0 {
			r.Answer = append([]byte(nil), d.B...)
		}
		return [][]warm.Result{{r}}, d.Err
	}
	return nil, column.ErrCorrupt
}
