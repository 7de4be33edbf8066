// Package column writes and reads what drivers of warm keep in one column:
// changes of the feed, heads and results, made of varints, and of strings with
// their length before them.
package column

import (
	"encoding/binary"
	"time"

	"github.com/tierd/tierd/tiering"
)

// ErrCorrupt says that bytes are not what an Encoder wrote.
var ErrCorrupt = &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Detail: "what is stored in a column can not be decoded"}

// Encoder appends to B. The zero value works.
type Encoder struct{ B []byte }

// Int appends a number of either sign.
func (e *Encoder) Int(v int64) { e.B = binary.AppendVarint(e.B, v) }

// Uint appends a number from 0 up.
func (e *Encoder) Uint(v uint64) { e.B = binary.AppendUvarint(e.B, v) }

// Byte appends a byte.
func (e *Encoder) Byte(v byte) { e.B = append(e.B, v) }

// Text appends a string.
func (e *Encoder) Text(v string) { e.Uint(uint64(len(v))); e.B = append(e.B, v...) }

// Bytes appends bytes; nil reads as none.
func (e *Encoder) Bytes(v []byte) { e.Uint(uint64(len(v))); e.B = append(e.B, v...) }

// Time appends a time, as Micros.
func (e *Encoder) Time(v time.Time) { e.Int(Micros(v)) }

// Key appends a key.
func (e *Encoder) Key(k tiering.Key) {
	e.Text(k.Tenant)
	e.Text(k.Namespace)
	e.Text(k.ID)
}

// Digest appends a digest; the zero one takes a byte.
func (e *Encoder) Digest(d tiering.Digest) {
	if d == (tiering.Digest{}) {
		e.Byte(0)
		return
	}
	e.Byte(1)
	e.B = append(e.B, d[:]...)
}

// Decoder consumes B. After the first fault everything is zero and Err is set.
type Decoder struct {
	B   []byte
	Err error
}

// Fail makes what is left a fault.
func (d *Decoder) Fail() { d.B, d.Err = nil, ErrCorrupt }

// Int reads what Encoder.Int wrote; so do the others.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Uint reads a number from 0 up.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.Fail()
		return 0
	}
	v := d.B[0]
	d.B = d.B[1:]
	return v
}

// Count reads a number of things of which each takes a byte at least, so that
// damaged bytes can not ask for more memory than they have.
func (d *Decoder) Count() int {
	n := d.Uint()
	if n > uint64(len(d.B)) {
		d.Fail()
		return 0
	}
	return int(n)
}

// Take reads n bytes, which are the decoder's; nil when there are fewer.
func (d *Decoder) Take(n int) []byte {
	if n > len(d.B) {
		d.Fail()
		return nil
	}
	v := d.B[:n]
	d.B = d.B[n:]
	return v
}

// Text reads a string.
func (d *Decoder) Text() string { return string(d.Take(d.Count())) }

// Bytes reads bytes of the caller's own, nil for none.
func (d *Decoder) Bytes() []byte {
	n := d.Count()
	if n == 0 {
		return nil
	}
	return append([]byte(nil), d.Take(n)...)
}

// Time reads a time.
func (d *Decoder) Time() time.Time { return Time(d.Int()) }

// Key reads a key.
func (d *Decoder) Key() tiering.Key {
	return tiering.Key{Tenant: d.Text(), Namespace: d.Text(), ID: d.Text()}
}

// KeyLike reads a key, and shares the tenant and namespace of before where they are
// the same.
func (d *Decoder) KeyLike(before tiering.Key) tiering.Key {
	return tiering.Key{Tenant: d.textLike(before.Tenant), Namespace: d.textLike(before.Namespace), ID: d.Text()}
}

func (d *Decoder) textLike(before string) string {
	if b := d.Take(d.Count()); string(b) != before {
		return string(b)
	}
	return before
}

// Digest reads a digest.
func (d *Decoder) Digest() (out tiering.Digest) {
	if d.Byte() == 1 {
		copy(out[:], d.Take(len(out)))
	}
	return out
}

// End returns the fault, also when bytes are left over.
func (d *Decoder) End() error {
	if d.Err == nil && len(d.B) > 0 {
		d.Fail()
	}
	return d.Err
}

// DigestBytes is the stored form of a digest in a column of its own: empty for the zero
// Digest.
func DigestBytes(d tiering.Digest) []byte {
	if d == (tiering.Digest{}) {
		return []byte{}
	}
	return d[:]
}

// Micros is the stored form of a time: 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the time of Micros.
func Time(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}
