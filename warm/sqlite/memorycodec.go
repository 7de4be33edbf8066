package sqlite

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tierd/tierd/tiering"
)

// encodeEntry writes what a memory's row does not have in columns. Times carry
// a byte before them that says whether there is one: the beginning of 1970 is a
// time like any other.
func encodeEntry(m *tiering.MemoryEntry) []byte {
	e := encoder{b: make([]byte, 0, 96+8*len(m.Terms))}
	e.byte(codecForm)
	e.uint(uint64(len(m.Terms)))
	for _, t := range m.Terms {
		e.string(t.Text)
		e.int(int64(t.Freq))
	}
	e.int(int64(m.Length))
	for _, s := range []string{string(m.Type), m.Agent, m.App, m.Session, m.Speaker} {
		e.string(s)
	}
	for _, t := range []time.Time{m.At, m.Until, m.UsedAt, m.Ends} {
		if t.IsZero() {
			e.byte(0)
			continue
		}
		e.byte(1)
		e.int(t.UnixMicro())
	}
	e.uint(math.Float64bits(m.Importance))
	e.int(m.Uses)
	e.uint(uint64(len(m.Links)))
	for _, l := range m.Links {
		e.string(l.Relation)
		e.string(l.To)
	}
	return e.b
}

// decodeEntry reads what encodeEntry wrote.
func decodeEntry(b []byte) (m tiering.MemoryEntry, err error) {
	d := decoder{b: b}
	d.form()
	if n := d.count(); n > 0 {
		m.Terms = make([]tiering.MemoryTerm, n)
	}
	for i := range m.Terms {
		m.Terms[i] = tiering.MemoryTerm{Text: d.string(), Freq: int(d.int())}
	}
	m.Length = int(d.int())
	m.Type = tiering.MemoryType(d.string())
	for _, s := range []*string{&m.Agent, &m.App, &m.Session, &m.Speaker} {
		*s = d.string()
	}
	for _, t := range []*time.Time{&m.At, &m.Until, &m.UsedAt, &m.Ends} {
		if d.byte() == 1 {
			*t = time.UnixMicro(d.int()).UTC()
		}
	}
	m.Importance = math.Float64frombits(d.uint())
	m.Uses = d.int()
	if n := d.count(); n > 0 {
		m.Links = make([]tiering.Link, n)
	}
	for i := range m.Links {
		m.Links[i] = tiering.Link{Relation: d.string(), To: d.string()}
	}
	return m, d.end()
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
		return nil, errCodec
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}

// The stored numbers of statuses are bits.
const (
	statusPending = 1
	statusIndexed = 2
	statusFailed  = 4
)

func statusNumber(s tiering.IndexStatus) int64 {
	switch s {
	case tiering.IndexPending:
		return statusPending
	case tiering.IndexIndexed:
		return statusIndexed
	case tiering.IndexFailed:
		return statusFailed
	}
	return 0
}

func statusOf(n int64) tiering.IndexStatus {
	switch n {
	case statusPending:
		return tiering.IndexPending
	case statusIndexed:
		return tiering.IndexIndexed
	case statusFailed:
		return tiering.IndexFailed
	}
	return ""
}
