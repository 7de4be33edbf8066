package sqlite

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Feed entries and stored results are one BLOB each: varints, and strings with
// their length before them. A feed entry is a tenth of a row's cost this way,
// where a row a change would be a third of it. The first byte is the form's
// number.
const codecForm = 1

var errCodec = &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Detail: "a feed entry or a stored result can not be decoded"}

// encoder appends to b.
type encoder struct{ b []byte }

func (e *encoder) int(v int64)      { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) uint(v uint64)    { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) byte(v byte)      { e.b = append(e.b, v) }
func (e *encoder) string(v string)  { e.uint(uint64(len(v))); e.b = append(e.b, v...) }
func (e *encoder) bytes(v []byte)   { e.uint(uint64(len(v))); e.b = append(e.b, v...) }
func (e *encoder) time(v time.Time) { e.int(micros(v)) }
func (e *encoder) key(k tiering.Key) {
	e.string(k.Tenant)
	e.string(k.Namespace)
	e.string(k.ID)
}

// digest leaves out the zero Digest.
func (e *encoder) digest(d tiering.Digest) {
	if d == (tiering.Digest{}) {
		e.byte(0)
		return
	}
	e.byte(1)
	e.b = append(e.b, d[:]...)
}

// decoder consumes b; after the first fault everything is zero and err is set.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() { d.b, d.err = nil, errCodec }

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// count reads a number of things of which each takes a byte at least, so that
// damaged bytes can not ask for more memory than they have.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string  { return string(d.take(d.count())) }
func (d *decoder) time() time.Time { return fromMicros(d.int()) }
func (d *decoder) key() tiering.Key {
	return tiering.Key{Tenant: d.string(), Namespace: d.string(), ID: d.string()}
}

func (d *decoder) bytes() []byte {
	n := d.count()
	if n == 0 {
		return nil
	}
	return append([]byte(nil), d.take(n)...)
}

func (d *decoder) digest() (out tiering.Digest) {
	if d.byte() == 1 {
		copy(out[:], d.take(len(out)))
	}
	return out
}

// end returns the fault, also when bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail()
	}
	return d.err
}

// form reads the first byte.
func (d *decoder) form() {
	if d.byte() != codecForm {
		d.fail()
	}
}

// micros is the stored form of a time: 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
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
	e := encoder{b: make([]byte, 0, 2+len(changes)*112)}
	e.byte(codecForm)
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

// decodeChanges reads what encodeChanges wrote.
func decodeChanges(b []byte) ([]warm.FeedChange, error) {
	d := decoder{b: b}
	d.form()
	out := make([]warm.FeedChange, d.count())
	for i := range out {
		c := &out[i]
		c.Op = tiering.Op(d.byte())
		f := int64(d.byte())
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
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return out, nil
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
	f := int64(d.byte())
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

// encodeResult writes one result for an idempotency row.
func encodeResult(r warm.Result) []byte {
	e := encoder{b: make([]byte, 0, 192)}
	e.byte(codecForm)
	e.result(r, false)
	return e.b
}

func decodeResult(b []byte) (warm.Result, error) {
	d := decoder{b: b}
	d.form()
	r := d.result(func() (warm.FeedChange, bool) { return warm.FeedChange{}, false })
	return r, d.end()
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
func (d *decoder) result(next func() (warm.FeedChange, bool)) (r warm.Result) {
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
		TTL: c.TTL, User: c.User, Size: c.Size, Digest: c.Digest, Pinned: c.Pinned, InWarm: f&flagInWarm != 0,
	}
	r.Head.UpdatedAt = d.time()
	r.Head.AccessedAt = d.time()
	r.Head.Op = tiering.Op(d.byte())
	return r
}

// encodeResults writes all results of a transaction, for its batch id (inFeed)
// or for the idempotency row that covers it.
func encodeResults(all [][]warm.Result, inFeed bool) []byte {
	e := encoder{b: make([]byte, 0, 16+len(all)*24)}
	e.byte(codecForm)
	e.uint(uint64(len(all)))
	for _, rows := range all {
		e.uint(uint64(len(rows)))
		for _, r := range rows {
			e.result(r, inFeed)
		}
	}
	return e.b
}

// decodeResults reads what encodeResults wrote; changes is the feed entry of
// the same transaction.
func decodeResults(b []byte, changes []warm.FeedChange) ([][]warm.Result, error) {
	d := decoder{b: b}
	d.form()
	next := func() (warm.FeedChange, bool) {
		if len(changes) == 0 {
			return warm.FeedChange{}, false
		}
		c := changes[0]
		changes = changes[1:]
		return c, true
	}
	out := make([][]warm.Result, d.count())
	for i := range out {
		out[i] = make([]warm.Result, d.count())
		for j := range out[i] {
			out[i][j] = d.result(next)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return out, nil
}
