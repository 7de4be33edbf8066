package cold

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// frameKind keeps a block from being taken for a page of the index.
type frameKind byte

const (
	blockFrame frameKind = 'B'
	indexFrame frameKind = 'I'
)

// frameHeader is the size of checksum, raw length, count and packed length.
const frameHeader = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameSum covers kind and tenant too: a frame cannot pass for one of another
// tenant, wherever a catalog says that it lies.
func frameSum(kind frameKind, tenant string, rest []byte) uint32 {
	sum := crc32.Update(0, castagnoli, append([]byte{byte(kind)}, tenant...))
	return crc32.Update(sum, castagnoli, rest)
}

// appendFrame compresses raw, which holds count items, and seals it.
func appendFrame(dst []byte, enc *zstd.Encoder, kind frameKind, tenant string, raw []byte, count int) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeader)...)
	dst = enc.EncodeAll(raw, dst)
	f := dst[start:]
	le.PutUint32(f[4:], uint32(len(raw)))
	le.PutUint32(f[8:], uint32(count))
	le.PutUint32(f[12:], uint32(len(f)-frameHeader))
	le.PutUint32(f, frameSum(kind, tenant, f[4:]))
	return dst
}

// frame is a frame whose checksum and lengths hold.
type frame struct {
	raw    int // bytes when decompressed
	count  int // items in it
	packed []byte
}

// cutFrame takes the first frame off b.
func cutFrame(kind frameKind, tenant string, b []byte) (f frame, rest []byte, err error) {
	if len(b) < frameHeader {
		return frame{}, nil, corruptf("frame of %d bytes is shorter than its header", len(b))
	}
	raw, count, packed := le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])
	if uint64(packed) > uint64(len(b)-frameHeader) {
		return frame{}, nil, corruptf("frame says %d packed bytes, %d are there", packed, len(b)-frameHeader)
	}
	whole := b[:frameHeader+int(packed)]
	if frameSum(kind, tenant, whole[4:]) != le.Uint32(b) {
		return frame{}, nil, corruptf("frame fails its checksum")
	}
	if raw == 0 || raw > maxFrameRaw || count == 0 || count > raw {
		return frame{}, nil, corruptf("frame says %d bytes in %d items: out of range", raw, count)
	}
	f = frame{raw: int(raw), count: int(count), packed: whole[frameHeader:]}
	var h zstd.Header
	if err := h.Decode(f.packed); err != nil {
		return frame{}, nil, corruptErr(err, "frame is not zstd")
	}
	if h.Skippable || h.DictionaryID != 0 || !h.HasFCS || h.FrameContentSize != uint64(raw) || h.WindowSize > maxFrameRaw {
		return frame{}, nil, corruptf("frame's zstd header does not say %d bytes", raw)
	}
	return f, b[len(whole):], nil
}

// oneFrame takes b as exactly one frame.
func oneFrame(kind frameKind, tenant string, b []byte) (frame, error) {
	f, rest, err := cutFrame(kind, tenant, b)
	if err == nil && len(rest) > 0 {
		err = corruptf("%d bytes behind the frame", len(rest))
	}
	return f, err
}

// unpacker decompresses a frame only as far as it is asked to.
type unpacker struct {
	dec *zstd.Decoder
	buf []byte // what is decompressed so far
	raw int    // bytes of the whole frame
}

// unpackers keeps unpackers for use again: making a decoder and its buffers
// costs several times what decoding a block does. The zero value is ready.
type unpackers struct{ pool, scratches sync.Pool }

func (p *unpackers) takeScratch() *scratch {
	if s, ok := p.scratches.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

// giveScratch takes one back; nil is none.
func (p *unpackers) giveScratch(s *scratch) {
	if s != nil {
		p.scratches.Put(s)
	}
}

// open starts on a frame. The caller gives the unpacker back.
func (p *unpackers) open(f frame) (*unpacker, error) {
	u, ok := p.pool.Get().(*unpacker)
	if !ok {
		dec, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1), // no goroutines: decoding stops when reading stops
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxFrameRaw),
			zstd.WithDecoderMaxMemory(maxFrameRaw))
		if err != nil {
			return nil, err
		}
		u = &unpacker{dec: dec}
	}
	if err := u.dec.Reset(bytes.NewReader(f.packed)); err != nil {
		return nil, corruptErr(err, "frame is not zstd")
	}
	u.raw = f.raw
	if cap(u.buf) < f.raw {
		u.buf = make([]byte, 0, f.raw)
	}
	u.buf = u.buf[:0]
	return u, nil
}

// give takes an unpacker back. Its buffer is used again too, unless shared
// says that what was in it lives on.
func (p *unpackers) give(u *unpacker, shared bool) {
	if shared {
		u.buf = nil
	}
	if u.dec.Reset(nil) == nil { // lets go of the frame
		p.pool.Put(u)
	}
}

// fill makes the first n bytes of the frame available in buf.
func (u *unpacker) fill(n int) error {
	if n > u.raw {
		return corruptf("frame of %d bytes ends within an item", u.raw)
	}
	for len(u.buf) < n {
		m, err := u.dec.Read(u.buf[len(u.buf):n])
		u.buf = u.buf[:len(u.buf)+m]
		if err != nil && len(u.buf) < n {
			return corruptErr(err, "frame does not decompress")
		}
	}
	return nil
}

// end checks that the frame has no byte more than its raw size says.
func (u *unpacker) end() error {
	if u.dec == nil {
		return nil // it was decompressed to its end before
	}
	var one [1]byte
	if n, err := u.dec.Read(one[:]); n > 0 || !errors.Is(err, io.EOF) {
		return corruptErr(err, "frame does not end at %d bytes", u.raw)
	}
	return nil
}
