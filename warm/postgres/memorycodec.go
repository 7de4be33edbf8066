package postgres

import (
	"time"

	"github.com/tierd/tierd/internal/memoryhash"
	"github.com/tierd/tierd/tiering"
)

// tidsOf returns the hashes of an entry, those of its terms first.
func tidsOf(nid int32, owner string, m *tiering.MemoryEntry) []int64 {
	tids := make([]int64, 0, len(m.Terms)+5)
	for _, t := range m.Terms {
		tids = append(tids, memoryhash.Of(nid, memoryhash.Term, t.Text))
	}
	for _, a := range []struct {
		kind memoryhash.Kind
		text string
	}{{memoryhash.User, owner}, {memoryhash.Agent, m.Agent}, {memoryhash.App, m.App}, {memoryhash.Session, m.Session}, {memoryhash.Type, string(m.Type)}} {
		if a.text != "" {
			tids = append(tids, memoryhash.Of(nid, a.kind, a.text))
		}
	}
	return tids
}

// entryForm is the first byte of an encoded entry.
const entryForm = 1

// encodeEntry writes what a row has no columns for.
func encodeEntry(m *tiering.MemoryEntry) []byte {
	e := encode(16 + 10*len(m.Terms))
	e.Byte(entryForm)
	e.Terms(m.Terms)
	e.Links(m.Links)
	return e.B
}

// decodeEntry adds what encodeEntry wrote to m.
func decodeEntry(b []byte, m *tiering.MemoryEntry) error {
	d := decode(b)
	if d.Byte() != entryForm {
		d.Fail()
	}
	m.Terms = d.Terms()
	m.Links = d.Links()
	return d.End()
}

// optional is a time in a column that is NULL for none: the beginning of 1970
// is a time like any other.
func optional(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMicro()
	return &n
}

func fromOptional(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return time.UnixMicro(*n).UTC()
}
