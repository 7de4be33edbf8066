package sqlite

import "github.com/tierd/tierd/warm"

// How a body is stored.
const (
	codingRaw  int64 = 0
	codingZstd int64 = 1
)

// zstdAbove is the size, in bytes, above which a body is compressed: a body of
// 1 KB gains too little for what it costs.
const zstdAbove = 2048

// packed is a body as it is stored.
type packed struct {
	bytes  []byte
	coding int64
}

// pack prepares the bodies of changes outside the writer, so that compressing
// one holds nobody up.
func (s *Store) pack(changes []warm.Change) [][]packed {
	out := make([][]packed, len(changes))
	for i := range changes {
		out[i] = make([]packed, len(changes[i].Rows))
		for j := range changes[i].Rows {
			out[i][j] = s.packBody(changes[i].Rows[j].Body)
		}
	}
	return out
}

func (s *Store) packBody(body []byte) packed {
	p, _ := s.packInto(nil, body)
	return p
}

// packInto is packBody with room for what it makes, of which it returns the rest.
func (s *Store) packInto(room, body []byte) (packed, []byte) {
	if len(body) > zstdAbove {
		if room == nil {
			room = make([]byte, 0, len(body))
		}
		start := len(room)
		room = s.enc.EncodeAll(body, room)
		if z := room[start:len(room):len(room)]; len(z) < len(body)-len(body)/8 {
			return packed{z, codingZstd}, room
		}
		room = room[:start]
	}
	return packed{body, codingRaw}, room
}

// unpack returns a body as it was written. One that is damaged so that it can
// not be decompressed is nil, and so fails its digest like any other damage:
// whoever asked for it goes on to the next copy.
func (s *Store) unpack(b []byte, coding int64) []byte {
	if coding == codingRaw || b == nil {
		return b
	}
	out, err := s.dec.DecodeAll(b, nil)
	if err != nil {
		return nil
	}
	return out
}
