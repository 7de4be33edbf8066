package sqlite

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/column"
)

// encodeEntry writes what a memory's row does not have in columns. Times carry
// a byte before them that says whether there is one: the beginning of 1970 is a
// time like any other.
func encodeEntry(m *tiering.MemoryEntry) []byte {
	e := encode(96 + 8*len(m.Terms))
	e.Byte(codecForm)
	e.Terms(m.Terms)
	e.Int(int64(m.Length))
	for _, s := range []string{string(m.Type), m.Agent, m.App, m.Session, m.Speaker} {
		e.Text(s)
	}
	for _, t := range []time.Time{m.At, m.Until, m.UsedAt, m.Ends} {
		if t.IsZero() {
			e.Byte(0)
			continue
		}
		e.Byte(1)
		e.Int(t.UnixMicro())
	}
	e.Uint(math.Float64bits(m.Importance))
	e.Int(m.Uses)
	e.Links(m.Links)
	return e.B
}

// decodeEntry reads what encodeEntry wrote.
func decodeEntry(b []byte) (m tiering.MemoryEntry, err error) {
	d := decode(b)
	d.form()
	m.Terms = d.Terms()
	m.Length = int(d.Int())
	m.Type = tiering.MemoryType(d.Text())
	for _, s := range []*string{&m.Agent, &m.App, &m.Session, &m.Speaker} {
		*s = d.Text()
	}
	for _, t := range []*time.Time{&m.At, &m.Until, &m.UsedAt, &m.Ends} {
		if d.Byte() == 1 {
			*t = time.UnixMicro(d.Int()).UTC()
		}
	}
	m.Importance = math.Float64frombits(d.Uint())
	m.Uses = d.Int()
	m.Links = d.Links()
	return m, d.End()
}

func encodeVector(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func decodeVector(b []byte) ([]float32, error) {
	if len(b)%4 != 0 {
		return nil, column.ErrCorrupt
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}
