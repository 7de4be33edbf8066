package postgres

import (
	"encoding/binary"

	"github.com/tierd/tierd/warm/internal/column"
)

// encoder and decoder add what is PostgreSQL's alone.
type (
	encoder struct{ column.Encoder }
	decoder struct{ column.Decoder }
)

func encode(room int) encoder { return encoder{column.Encoder{B: make([]byte, 0, room)}} }
func decode(b []byte) decoder { return decoder{column.Decoder{B: b}} }

// int64 and int16 read what PostgreSQL's int8send and int2send write.
func (d *decoder) int64() int64 {
	b := d.Take(8)
	if len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (d *decoder) int16() int {
	b := d.Take(2)
	if len(b) < 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(b))
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
