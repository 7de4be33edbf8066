package postgres

import (
	"time"

	"github.com/tierd/tierd/tiering"
)

// Attributes of a memory are hashed beside its terms, so that one index finds
// by either. The first byte of what is hashed tells them apart: it is in no
// term.
const (
	ofTerm    = 0
	ofUser    = 1
	ofAgent   = 2
	ofApp     = 3
	ofSession = 4
	ofType    = 5
)

// tid is the hash of something that memories of a namespace have: FNV-1a, 64
// bits, with the finalizer of MurmurHash3. package vector/pgvector computes it
// too.
func tid(nid int32, kind byte, text string) int64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range 4 {
		add(byte(nid >> (8 * i)))
	}
	add(kind)
	for i := range len(text) {
		add(text[i])
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64(h ^ h>>33)
}

// tidsOf returns the hashes of an entry, those of its terms first.
func tidsOf(nid int32, owner string, m *tiering.MemoryEntry) []int64 {
	tids := make([]int64, 0, len(m.Terms)+5)
	for _, t := range m.Terms {
		tids = append(tids, tid(nid, ofTerm, t.Text))
	}
	for _, a := range []struct {
		kind byte
		text string
	}{{ofUser, owner}, {ofAgent, m.Agent}, {ofApp, m.App}, {ofSession, m.Session}, {ofType, string(m.Type)}} {
		if a.text != "" {
			tids = append(tids, tid(nid, a.kind, a.text))
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
