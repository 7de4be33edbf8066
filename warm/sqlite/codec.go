package sqlite

import (
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Feed entries and stored results are one BLOB each: varints, and strings with
// their length before them. A feed entry is a tenth of a row's cost this way,
// where a row a change would be a third of it. The first byte is the form's
// number.
const codecForm = 1

// decoder adds the form.
type decoder struct{ column.Decoder }

func encode(room int) column.Encoder { return column.Encoder{B: make([]byte, 0, room)} }
func decode(b []byte) decoder        { return decoder{column.Decoder{B: b}} }

// form reads the first byte.
func (d *decoder) form() {
	if d.Byte() != codecForm {
		d.Fail()
	}
}

// encodeChanges writes a feed entry's changes.
func encodeChanges(changes []warm.FeedChange) []byte {
	e := encode(2 + len(changes)*112)
	e.Byte(codecForm)
	e.Uint(uint64(len(changes)))
	for i := range changes {
		e.Change(&changes[i])
	}
	return e.B
}

// decodeChanges reads what encodeChanges wrote.
func decodeChanges(b []byte) ([]warm.FeedChange, error) {
	d := decode(b)
	d.form()
	out := make([]warm.FeedChange, d.Count())
	for i := range out {
		out[i] = d.Change()
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return out, nil
}

// encodeResult writes one result for an idempotency row.
func encodeResult(r warm.Result) []byte {
	e := encode(192)
	e.Byte(codecForm)
	e.Result(&r, false)
	return e.B
}

func decodeResult(b []byte) (warm.Result, error) {
	d := decode(b)
	d.form()
	r := d.Result(nil)
	return r, d.End()
}

// encodeResults writes all results of a transaction, for its batch id (inFeed)
// or for the idempotency row that covers it.
func encodeResults(all [][]warm.Result, inFeed bool) []byte {
	e := encode(16 + len(all)*24)
	e.Byte(codecForm)
	e.Results(all, inFeed)
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
			out[i][j] = d.Result(next)
		}
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return out, nil
}
