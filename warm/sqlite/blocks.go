package sqlite

import (
	"database/sql/driver"
	"encoding/json"

	"github.com/tierd/tierd/tiering"
)

// The blocks of a location are a BLOB: a number, then for each its first
// version, offset and length, versions and offsets as what they are above the
// block before. Rows from before schema 4 have JSON in its place, as TEXT.

var errBlocks = &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Detail: "the blocks of a location can not be decoded"}

// encodeBlocks writes blocks for a location.
func encodeBlocks(blocks []tiering.BlockRef) []byte {
	e := encode(2 + len(blocks)*10)
	e.Byte(codecForm)
	e.Uint(uint64(len(blocks)))
	var last tiering.BlockRef
	for _, b := range blocks {
		e.Int(b.FirstVersion - last.FirstVersion)
		e.Int(b.Offset - last.Offset)
		e.Int(b.Length)
		last = b
	}
	return e.B
}

// decodeBlocks reads what encodeBlocks wrote, or JSON.
func decodeBlocks(v driver.Value) (blocks []tiering.BlockRef, err error) {
	if t, ok := v.(string); ok {
		if err := json.Unmarshal([]byte(t), &blocks); err != nil {
			return nil, errBlocks
		}
		return blocks, nil
	}
	d := decode(blob(v))
	d.form()
	if n := d.Count(); n > 0 {
		blocks = make([]tiering.BlockRef, n)
	}
	var last tiering.BlockRef
	for i := range blocks {
		last = tiering.BlockRef{FirstVersion: last.FirstVersion + d.Int(), Offset: last.Offset + d.Int(), Length: d.Int()}
		blocks[i] = last
	}
	if d.End() != nil {
		return nil, errBlocks
	}
	return blocks, nil
}
