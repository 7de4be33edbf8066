package cold

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tierd/tierd/tiering"
)

// smallRecords are versions of which every second one is stored as the
// difference from the one before; a segment of smallBlock has two blocks of them.
func smallRecords() []Record {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var out []Record
	for v := range int64(6) {
		out = append(out, put("a", v+1, at.Add(time.Duration(v)*time.Second), bytes.Repeat(fmt.Appendf(nil, `{"a":%d}`, (v+1)/2), 400)))
	}
	return out
}

const smallBlock = 4096

func smallSegment(t testing.TB) []byte {
	t.Helper()
	e, err := Encode("acme", []tiering.Range{{From: 1, To: 6}}, smallRecords(), &EncodeOptions{BlockSize: smallBlock, Epoch: "e"})
	if err != nil {
		t.Fatal(err)
	}
	return e.Data
}

// readAll opens a segment and reads every record.
func readAll(b []byte) error {
	s, err := openBytes(b)
	if err != nil {
		return err
	}
	for _, err := range s.Records() {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestEveryDamageIsSeen: no byte of a segment can change, no end can be lost
// and nothing can be added without an error.
func TestEveryDamageIsSeen(t *testing.T) {
	good := smallSegment(t)
	if err := readAll(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, mask := range []byte{0x01, 0x80, 0xff} {
			b := bytes.Clone(good)
			b[i] ^= mask
			err := readAll(b)
			// A flipped format version is a format of the future.
			if !errors.Is(err, tiering.ErrCorrupt) && !(i/2 == 4 && errors.Is(err, tiering.ErrUnsupported)) {
				t.Fatalf("byte %d with bits %#x flipped: %v, want corrupt", i, mask, err)
			}
		}
	}
	for n := range good {
		if err := readAll(good[:n]); !errors.Is(err, tiering.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want corrupt", n, err)
		}
	}
	for _, more := range [][]byte{{0}, good, good[len(good)-trailerSize:]} {
		if err := readAll(append(bytes.Clone(good), more...)); !errors.Is(err, tiering.ErrCorrupt) {
			t.Fatalf("%d bytes added: %v, want corrupt", len(more), err)
		}
	}
}

// TestShorterReader: an object that is shorter than was said is an error of
// the reader, not a panic.
func TestShorterReader(t *testing.T) {
	good := smallSegment(t)
	if _, err := OpenSegment(bytes.NewReader(good[:len(good)/2]), int64(len(good))); err == nil {
		t.Error("opened half a segment")
	}
	for _, size := range []int64{-1, 0, trailerSize - 1} {
		if _, err := OpenSegment(bytes.NewReader(good), size); !errors.Is(err, tiering.ErrCorrupt) {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

// TestLyingSegments: every checksum holds, because the writer lies.
func TestLyingSegments(t *testing.T) {
	for _, c := range []struct {
		name string
		// record, entry and foot change what is written.
		record func(i int, r *Record)
		entry  func(i int, e *Entry)
		foot   func(f *footer)
	}{
		{"the index gives another version", nil, func(i int, e *Entry) {
			if i == 5 {
				e.Version = 9
			}
		}, nil},
		{"the index gives another digest", nil, func(i int, e *Entry) { e.Digest[i] ^= 1 }, nil},
		{"the index gives another time", nil, func(_ int, e *Entry) { e.At = e.At.Add(time.Nanosecond) }, nil},
		{"the index gives another offset", nil, func(_ int, e *Entry) { e.Offset++ }, nil},
		{"the index gives another length", nil, func(_ int, e *Entry) { e.Length++ }, nil},
		{"the index gives another op", nil, func(_ int, e *Entry) { e.Op = tiering.OpDelete }, nil},
		{"the index points behind the blocks", nil, func(_ int, e *Entry) { e.Block += 100 }, nil},
		{"the index points into the block before", nil, func(_ int, e *Entry) { e.Block = 0 }, nil},
		{"the index has version 0", nil, func(_ int, e *Entry) { e.Version = 0 }, nil},
		{"the index has an unknown op", nil, func(_ int, e *Entry) { e.Op = 200 }, nil},
		{"the index is out of order", nil, func(i int, e *Entry) { e.Version = int64(10 - i) }, nil},
		{"the index has a key twice", nil, func(_ int, e *Entry) { e.Version = 1 }, nil},
		{"a body is not its digest's", func(i int, r *Record) { r.Digest[i] ^= 1 }, nil, nil},
		{"records are out of order", func(i int, r *Record) { r.Version = int64(10 - i) }, nil, nil},
		{"a record is there twice", func(_ int, r *Record) { r.Version = 1 }, nil, nil},
		{"a delete has a body", func(_ int, r *Record) { r.Op = tiering.OpDelete }, nil, nil},
		{"a record has no id", func(_ int, r *Record) { r.Key.ID = "" }, nil, nil},
		{"a record has version 0", func(i int, r *Record) {
			if i == 0 {
				r.Version = 0
			}
		}, nil, nil},
		{"an id is longer than ids are", func(_ int, r *Record) { r.Key.ID = string(make([]byte, 1025)) }, nil, nil},
		{"the footer counts more records", nil, nil, func(f *footer) { f.count++ }},
		{"the footer counts fewer records", nil, nil, func(f *footer) { f.count-- }},
		{"the footer counts other bytes", nil, nil, func(f *footer) { f.rawSize++ }},
		{"the footer begins earlier", nil, nil, func(f *footer) { f.minTime = f.minTime.Add(-1) }},
		{"the footer ends later", nil, nil, func(f *footer) { f.maxTime = f.maxTime.Add(1) }},
		{"the footer has a block fewer", nil, nil, func(f *footer) { f.blocks = f.blocks[1:] }},
		{"the footer has a block more", nil, nil, func(f *footer) { f.blocks = append(f.blocks, f.blocks[0]) }},
		{"the footer has other block lengths", nil, nil, func(f *footer) { f.blocks[0].length--; f.blocks[1].length++ }},
		{"the ranges overlap", nil, nil, func(f *footer) { f.ranges = []tiering.Range{{From: 1, To: 4}, {From: 3, To: 5}} }},
		{"the ranges run backwards", nil, nil, func(f *footer) { f.ranges = []tiering.Range{{From: 4, To: 1}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := lie(t, c.record, c.entry, c.foot)
			if err := readAll(b); !errors.Is(err, tiering.ErrCorrupt) {
				t.Errorf("%v, want corrupt", err)
			}
		})
	}
	t.Run("the truth", func(t *testing.T) {
		if err := readAll(lie(t, nil, nil, nil)); err != nil {
			t.Error(err)
		}
	})
}

// lie writes a segment of smallRecords with changes that Encode would refuse.
func lie(t *testing.T, record func(int, *Record), entry func(int, *Entry), foot func(*footer)) []byte {
	t.Helper()
	e, err := newEncoder("acme", &EncodeOptions{BlockSize: smallBlock, Epoch: "e"})
	if err != nil {
		t.Fatal(err)
	}
	recs := smallRecords()
	var page []byte
	for i := range recs {
		if record != nil {
			record(i, &recs[i])
		}
		e.add(recs[i], recs[i:])
		line := e.pending[len(e.pending)-1]
		if entry != nil {
			entry(i, &line)
		}
		page = appendEntry(page, line)
	}
	e.flushBlock()
	index := len(e.out)
	b := appendFrame(e.out, e.zstd, indexFrame, e.tenant, page, len(recs))
	if foot != nil {
		foot(&e.foot)
	}
	at := len(b)
	return appendTrailer(appendFooter(b, e.foot), int64(index), int64(at))
}

// TestReadChecksDigest: a block whose checksum holds does not vouch for a body.
func TestReadChecksDigest(t *testing.T) {
	b := lie(t, func(i int, r *Record) {
		if i == 1 {
			r.Digest[0] ^= 1
		}
	}, nil, nil)
	s, err := openBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	loc := s.Locations("x")[0]
	for version, code := range map[int64]tiering.Code{1: "", 2: tiering.CodeCorrupt, 3: ""} {
		ref, _ := loc.Block(version)
		_, err := findVersion(&unpackers{}, b[ref.Offset:ref.Offset+ref.Length], loc.Key, ref.FirstVersion, version)
		if tiering.CodeOf(err) != code {
			t.Errorf("version %d: %v, want code %q", version, err, code)
		}
	}
}

// sealed makes a frame whose checksum holds, whatever its header says.
func sealed(kind frameKind, raw, count uint32, packed []byte) []byte {
	b := make([]byte, frameHeader, frameHeader+len(packed))
	le.PutUint32(b[4:], raw)
	le.PutUint32(b[8:], count)
	le.PutUint32(b[12:], uint32(len(packed)))
	b = append(b, packed...)
	le.PutUint32(b, frameSum(kind, "acme", b[4:]))
	return b
}

func packed(t testing.TB, raw []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(raw, nil)
}

// TestLyingBlocks: frames that are sealed and say what is not so are refused,
// and cost no memory to speak of.
func TestLyingBlocks(t *testing.T) {
	one := appendRecord(nil, smallRecords()[0])
	n := uint32(len(one))
	bomb := packed(t, make([]byte, 64<<20))
	for _, c := range []struct {
		name  string
		block []byte
	}{
		{"empty", nil},
		{"header alone", make([]byte, frameHeader)},
		{"not zstd", sealed(blockFrame, n, 1, []byte("not zstd at all, not at all"))},
		{"no packed bytes", sealed(blockFrame, n, 1, nil)},
		{"a page of an index", sealed(indexFrame, n, 1, packed(t, one))},
		{"no records", sealed(blockFrame, n, 0, packed(t, one))},
		{"no bytes", sealed(blockFrame, 0, 0, packed(t, one))},
		{"more records than there are", sealed(blockFrame, n, 2, packed(t, one))},
		{"fewer records than there are", sealed(blockFrame, 2*n, 1, packed(t, append(bytes.Clone(one), one...)))},
		{"one record twice", sealed(blockFrame, 2*n, 2, packed(t, append(bytes.Clone(one), one...)))},
		{"fewer bytes than there are", sealed(blockFrame, n-1, 1, packed(t, one))},
		{"more bytes than there are", sealed(blockFrame, n+1, 1, packed(t, one))},
		{"a second zstd frame behind", sealed(blockFrame, n, 1, append(packed(t, one), packed(t, one)...))},
		{"more bytes than any block has", sealed(blockFrame, 64<<20, 1, bomb)},
		{"a bomb under a small name", sealed(blockFrame, 1000, 1, bomb)},
		{"a head over the limit", sealed(blockFrame, n, 1, packed(t, le.AppendUint32(nil, maxHead+1)))},
		{"a record over the end of the block", sealed(blockFrame, n-8, 1, packed(t, one[:n-8]))},
		{"a cut frame", sealed(blockFrame, n, 1, packed(t, one)[:40])},
		{"unknown flags", func() []byte {
			b := bytes.Clone(one)
			b[prefixSize+1] |= 0x40
			return sealed(blockFrame, n, 1, packed(t, b))
		}()},
		{"a nanosecond too many", func() []byte {
			b := bytes.Clone(one)
			le.PutUint32(b[len(b)-2800-32-4:], 1e9)
			return sealed(blockFrame, n, 1, packed(t, b))
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var last error
			for _, err := range DecodeBlock("acme", c.block) {
				last = err
			}
			runtime.ReadMemStats(&after)
			if !errors.Is(last, tiering.ErrCorrupt) {
				t.Errorf("%v, want corrupt", last)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("took %d bytes of memory", grown)
			}
		})
	}
	t.Run("the truth", func(t *testing.T) {
		for r, err := range DecodeBlock("acme", sealed(blockFrame, n, 1, packed(t, one))) {
			if err != nil || r.checkDigest() != nil {
				t.Error(err)
			}
		}
	})
}

// reseal makes every checksum hold again, as far as the offsets in the trailer
// make sense, so that a fuzzer gets behind them.
func reseal(b []byte) []byte {
	sumAt := len(b) - trailerSize - sha256.Size
	if sumAt < 0 {
		return b
	}
	b = bytes.Clone(b)
	tail := b[len(b)-trailerSize:]
	index, foot := le.Uint64(tail), le.Uint64(tail[8:])
	copy(tail[32:], tailMagic)
	le.PutUint64(tail[16:], uint64(len(b)))
	if index <= foot && foot <= uint64(sumAt) {
		if tenant, _, size, err := parseHeader(b[:index]); err == nil {
			resealFrames(b[size:index], blockFrame, tenant)
			resealFrames(b[index:foot], indexFrame, tenant)
		}
		sum := sha256.Sum256(b[:sumAt])
		copy(b[sumAt:], sum[:])
		le.PutUint32(tail[24:], crc32.Checksum(b[foot:len(b)-trailerSize], castagnoli))
	}
	le.PutUint32(tail[28:], crc32.Checksum(tail[:28], castagnoli))
	return b
}

func resealFrames(b []byte, kind frameKind, tenant string) {
	for len(b) >= frameHeader && uint64(le.Uint32(b[12:])) <= uint64(len(b)-frameHeader) {
		n := frameHeader + int(le.Uint32(b[12:]))
		le.PutUint32(b, frameSum(kind, tenant, b[4:n]))
		b = b[n:]
	}
}

// FuzzOpenSegment: no input makes the decoder panic or hang, and what it opens
// says the same in its footer, index and records.
func FuzzOpenSegment(f *testing.F) {
	good := smallSegment(f)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(headMagic))
	if e, err := Encode("acme", nil, nil, nil); err == nil {
		f.Add(e.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, reseal(b)} {
			s, err := openBytes(b)
			if err != nil {
				continue
			}
			n, failed := int64(0), false
			for _, err := range s.Records() {
				if failed = err != nil; !failed {
					n++
				}
			}
			if !failed && n != s.Count() {
				t.Fatalf("read %d records of %d without an error", n, s.Count())
			}
			_ = s.Locations("x")
		}
	})
}

// FuzzDecodeBlock gets to the records themselves: the input is what a block
// holds once it is decompressed.
func FuzzDecodeBlock(f *testing.F) {
	f.Add(appendRecord(appendRecord(nil, smallRecords()[0]), smallRecords()[1]), uint32(2))
	z, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte, count uint32) {
		var again []byte
		for r, err := range DecodeBlock("acme", sealed(blockFrame, uint32(len(raw)), count, z.EncodeAll(raw, nil))) {
			if err != nil {
				return
			}
			again = appendRecord(again, r)
		}
		// What was read without an error reads the same when written again.
		var third []byte
		for r, err := range DecodeBlock("acme", sealed(blockFrame, uint32(len(again)), count, z.EncodeAll(again, nil))) {
			if err != nil {
				t.Fatalf("written again: %v", err)
			}
			third = appendRecord(third, r)
		}
		if !bytes.Equal(again, third) {
			t.Fatal("a record changed when it was written again")
		}
	})
}
