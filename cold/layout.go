package cold

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
)

// span is a run of bytes of an object.
type span struct{ offset, length int64 }

// footer is what a segment says about itself as a whole.
type footer struct {
	minTime, maxTime time.Time // zero when there are no records
	count, rawSize   int64
	blocks           []span
	ranges           []tiering.Range
	sum              tiering.Digest // SHA-256 of everything before it
}

// note counts one more record.
func (f *footer) note(e Entry) {
	if f.count == 0 || e.At.Before(f.minTime) {
		f.minTime = e.At
	}
	if f.count == 0 || e.At.After(f.maxTime) {
		f.maxTime = e.At
	}
	f.count++
	f.rawSize += e.Size
}

func appendHeader(b []byte, tenant, epoch string) []byte {
	b = append(b, headMagic...)
	b = le.AppendUint16(b, formatVersion)
	b = appendString(b, tenant)
	return appendString(b, epoch)
}

// parseHeader returns the header's size too: the first block follows it.
func parseHeader(b []byte) (tenant, epoch string, size int64, err error) {
	c := cursor{b: b}
	magic, version := c.take(len(headMagic)), c.take(2)
	if c.bad || string(magic) != headMagic {
		return "", "", 0, corruptf("not a segment")
	}
	if v := le.Uint16(version); v < oldestVersion || v > formatVersion {
		return "", "", 0, tiering.Errorf(tiering.CodeUnsupported, "segment has format version %d, this program reads %d to %d", v, oldestVersion, formatVersion)
	}
	tenant, epoch = c.string(maxName), c.string(maxName)
	if c.bad || tenant == "" {
		return "", "", 0, corruptf("segment header is cut short or out of range")
	}
	return tenant, epoch, int64(len(b) - len(c.b)), nil
}

// appendFooter writes f behind everything else in b, and fills in its sum.
func appendFooter(b []byte, f footer) []byte {
	b = appendTime(b, f.minTime)
	b = appendTime(b, f.maxTime)
	b = le.AppendUint64(b, uint64(f.count))
	b = le.AppendUint64(b, uint64(f.rawSize))
	b = binary.AppendUvarint(b, uint64(len(f.blocks)))
	for _, s := range f.blocks {
		b = binary.AppendUvarint(b, uint64(s.length))
	}
	b = binary.AppendUvarint(b, uint64(len(f.ranges)))
	for _, r := range f.ranges {
		b = le.AppendUint64(b, uint64(r.From))
		b = le.AppendUint64(b, uint64(r.To))
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// parseFooter reads a footer; the blocks have to fill what lies between the
// header and the index.
func parseFooter(b []byte, headerSize, index int64) (footer, error) {
	c := cursor{b: b}
	f := footer{minTime: c.time(), maxTime: c.time(), count: c.int64(), rawSize: c.int64()}
	blocks := c.int63()
	if blocks > int64(len(c.b)) { // at least one byte each
		c.bad = true
	}
	at := headerSize
	for i := int64(0); i < blocks && !c.bad; i++ {
		n := c.int63()
		if n < frameHeader || n > index-at {
			return footer{}, corruptf("footer gives block %d a length of %d", i, n)
		}
		f.blocks = append(f.blocks, span{at, n})
		at += n
	}
	ranges := c.int63()
	if ranges > int64(len(c.b)/16) {
		c.bad = true
	}
	for i := int64(0); i < ranges && !c.bad; i++ {
		f.ranges = append(f.ranges, tiering.Range{From: c.int64(), To: c.int64()})
	}
	f.sum = c.digest()
	if err := c.end("segment footer"); err != nil {
		return footer{}, err
	}
	if at != index {
		return footer{}, corruptf("the blocks end at %d, the index begins at %d", at, index)
	}
	if u, err := unionRanges(f.ranges); err != nil || !slices.Equal(u, f.ranges) {
		return footer{}, corruptf("feed ranges are not in order")
	}
	return f, nil
}

// trailer is the last bytes of a segment: where the rest is.
type trailer struct {
	index, footer, size int64
	footerSum           uint32
}

func appendTrailer(b []byte, index, foot int64) []byte {
	sum := crc32.Checksum(b[foot:], castagnoli)
	start := len(b)
	b = le.AppendUint64(b, uint64(index))
	b = le.AppendUint64(b, uint64(foot))
	b = le.AppendUint64(b, uint64(start+trailerSize))
	b = le.AppendUint32(b, sum)
	b = le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, tailMagic...)
}

// parseTrailer checks b, the last trailerSize bytes of an object of size bytes.
func parseTrailer(b []byte, size int64) (trailer, error) {
	if len(b) != trailerSize || string(b[32:]) != tailMagic {
		return trailer{}, corruptf("segment is cut short, or not a segment")
	}
	if crc32.Checksum(b[:28], castagnoli) != le.Uint32(b[28:]) {
		return trailer{}, corruptf("segment trailer fails its checksum")
	}
	c := cursor{b: b[:28]}
	t := trailer{index: c.int64(), footer: c.int64(), size: c.int64(), footerSum: c.uint32()}
	if c.bad || t.size != size || t.index > t.footer || t.footer > size-trailerSize {
		return trailer{}, corruptf("segment trailer gives offsets %d and %d in %d bytes, the object has %d", t.index, t.footer, t.size, size)
	}
	return t, nil
}

// unionRanges sorts ranges and joins those that touch or overlap.
func unionRanges(in []tiering.Range) ([]tiering.Range, error) {
	sorted := slices.SortedFunc(slices.Values(in), func(a, b tiering.Range) int {
		if a.From < b.From {
			return -1
		}
		if a.From > b.From {
			return 1
		}
		return 0
	})
	var out []tiering.Range
	for _, r := range sorted {
		if r.From < 0 || r.To < r.From {
			return nil, tiering.Invalidf("feed range %d to %d is not one", r.From, r.To)
		}
		// r.From > 0 behind the first, so r.From-1 cannot overflow as To+1 could.
		if n := len(out); n > 0 && out[n-1].To >= r.From-1 {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out, nil
}
