package postgres

// How a body is stored.
const (
	codingRaw  int16 = 0
	codingZstd int16 = 1
)

// zstdAbove is the size, in bytes, above which a body is compressed: a body of
// 1 KB gains too little for what it costs.
const zstdAbove = 2048

// packed is a body as it is stored.
type packed struct {
	bytes  []byte
	coding int16
}

// pack prepares a body outside of any transaction, so that compressing one
// holds no lock.
func (s *Store) pack(body []byte) packed {
	if len(body) > zstdAbove {
		if z := s.enc.EncodeAll(body, nil); len(z) < len(body)-len(body)/8 {
			return packed{z, codingZstd}
		}
	}
	return packed{body, codingRaw}
}

// unpack returns a body as it was written. One that is damaged so that it can
// not be decompressed is nil, and so fails its digest like any other damage:
// whoever asked for it goes on to the next copy.
func (s *Store) unpack(b []byte, coding int16) []byte {
	if coding == codingRaw || b == nil {
		return b
	}
	out, err := s.dec.DecodeAll(b, nil)
	if err != nil {
		return nil
	}
	return out
}
