package postgres

import (
	"encoding/binary"
	"time"

	"github.com/tierd/tierd/tiering"
)

var errCodec = &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Detail: "a feed entry or a stored result can not be decoded"}

// encoder appends varints, and strings with their length before them, to b.
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

// int64 and int16 read what PostgreSQL's int8send and int2send write.
func (d *decoder) int64() int64 {
	b := d.take(8)
	if len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (d *decoder) int16() int {
	b := d.take(2)
	if len(b) < 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(b))
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
	flagPinned int16 = 1 << iota
	flagInWarm
	flagQuery
	flagCreated // in records alone
)

func flags(pinned, inWarm, query bool) (f int16) {
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
