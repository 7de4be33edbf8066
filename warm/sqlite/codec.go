package sqlite

import (
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Feed entries and stored results are one BLOB each: varints, and strings with
// their length before them. A feed entry is a tenth of a row's cost this way,
// where a row a change would be a third of it. The first byte is the form's
// number.
const codecForm = 1

type (
	encoder struct{ column.Encoder }
	decoder struct{ column.Decoder }
)

func encode(room int) encoder { return encoder{column.Encoder{B: make([]byte, 0, room)}} }
func decode(b []byte) decoder { return decoder{column.Decoder{B: b}} }

// form reads the first byte.
func (d *decoder) form() {
	if d.Byte() != codecForm {
		d.Fail()
	}
}

const (
	flagPinned = 1 << iota
	flagInWarm
	flagQuery
)

func flags(pinned, inWarm, query bool) (f int64) {
	if pinned {
		f |= flagPinned
	}
	if inWarm {
		f |= flagInWarm
	}
	if query {
		f |= flagQuery
	}
	return f
}

// encodeChanges writes a feed entry's changes.
func encodeChanges(changes []warm.FeedChange) []byte {
	e := encode(2 + len(changes)*112)
	e.Byte(codecForm)
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

// decodeChanges reads what encodeChanges wrote.
func decodeChanges(b []byte) ([]warm.FeedChange, error) {
	d := decode(b)
	d.form()
	out := make([]warm.FeedChange, d.Count())
	for i := range out {
		c := &out[i]
		c.Op = tiering.Op(d.Byte())
		f := int64(d.Byte())
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
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return out, nil
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
	f := int64(d.Byte())
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

// encodeResult writes one result for an idempotency row.
func encodeResult(r warm.Result) []byte {
	e := encode(192)
	e.Byte(codecForm)
	e.result(r, false)
	return e.B
}

func decodeResult(b []byte) (warm.Result, error) {
	d := decode(b)
	d.form()
	r := d.result(func() (warm.FeedChange, bool) { return warm.FeedChange{}, false })
	return r, d.End()
}

// The leading byte of a result: its status, and whether its head is left out.
const resultInFeed = 0x80

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
func (d *decoder) result(next func() (warm.FeedChange, bool)) (r warm.Result) {
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
		TTL: c.TTL, User: c.User, Size: c.Size, Digest: c.Digest, Pinned: c.Pinned, InWarm: f&flagInWarm != 0,
	}
	r.Head.UpdatedAt = d.Time()
	r.Head.AccessedAt = d.Time()
	r.Head.Op = tiering.Op(d.Byte())
	return r
}

// encodeResults writes all results of a transaction, for its batch id (inFeed)
// or for the idempotency row that covers it.
func encodeResults(all [][]warm.Result, inFeed bool) []byte {
	e := encode(16 + len(all)*24)
	e.Byte(codecForm)
	e.Uint(uint64(len(all)))
	for _, rows := range all {
		e.Uint(uint64(len(rows)))
		for _, r := range rows {
			e.result(r, inFeed)
		}
	}
	return e.B
}

// decodeResults reads what encodeResults wrote; changes is the feed entry of
// the same transaction.
func decodeResults(b []byte, changes []warm.FeedChange) ([][]warm.Result, error) {
	d := decode(b)
	d.form()
	next := func() (warm.FeedChange, bool) {
		if len(changes) == 0 {
			return warm.FeedChange{}, false
		}
		c := changes[0]
		changes = changes[1:]
		return c, true
	}
	out := make([][]warm.Result, d.Count())
	for i := range out {
		out[i] = make([]warm.Result, d.Count())
		for j := range out[i] {
			out[i][j] = d.result(next)
		}
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return out, nil
}
