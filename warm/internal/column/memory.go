package column

import "github.com/tierd/tierd/tiering"

// Terms appends the terms of a memory.
func (e *Encoder) Terms(terms []tiering.MemoryTerm) {
	e.Uint(uint64(len(terms)))
	for _, t := range terms {
		e.Text(t.Text)
		e.Int(int64(t.Freq))
	}
}

// Terms reads terms, nil for none.
func (d *Decoder) Terms() (terms []tiering.MemoryTerm) {
	if n := d.Count(); n > 0 {
		terms = make([]tiering.MemoryTerm, n)
	}
	for i := range terms {
		terms[i] = tiering.MemoryTerm{Text: d.Text(), Freq: int(d.Int())}
	}
	return terms
}

// Links appends the links of a memory.
func (e *Encoder) Links(links []tiering.Link) {
	e.Uint(uint64(len(links)))
	for _, l := range links {
		e.Text(l.Relation)
		e.Text(l.To)
	}
}

// Links reads links, nil for none.
func (d *Decoder) Links() (links []tiering.Link) {
	if n := d.Count(); n > 0 {
		links = make([]tiering.Link, n)
	}
	for i := range links {
		links[i] = tiering.Link{Relation: d.Text(), To: d.Text()}
	}
	return links
}

// The stored numbers of statuses are bits.
const (
	StatusPending = 1
	StatusIndexed = 2
	StatusFailed  = 4
)

// StatusNumber is the number of a status, 0 for none.
func StatusNumber(s tiering.IndexStatus) int64 {
	switch s {
	case tiering.IndexPending:
		return StatusPending
	case tiering.IndexIndexed:
		return StatusIndexed
	case tiering.IndexFailed:
		return StatusFailed
	}
	return 0
}

// Status is the status of a number.
func Status(n int64) tiering.IndexStatus {
	switch n {
	case StatusPending:
		return tiering.IndexPending
	case StatusIndexed:
		return tiering.IndexIndexed
	case StatusFailed:
		return tiering.IndexFailed
	}
	return ""
}
