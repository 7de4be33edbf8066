package cold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
)

// TestDifferenceSize: what changed is about what a difference costs, wherever in
// the body it changed, and a body that is not like the one before is kept whole.
func TestDifferenceSize(t *testing.T) {
	var long strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, `{"id":"%x","n":%d},`, i*i*7919, i)
	}
	text := long.String()
	other := strings.ToUpper(strings.Map(func(r rune) rune { return r ^ 1 }, text))
	for _, c := range []struct {
		name, old, body string
		most            int // bytes of the difference; 0: none is worth it
	}{
		{"the same", text, text, 12},
		{"a longer end", text, text + "one more turn", 30},
		{"a longer start", text, "one more turn" + text, 30},
		{"a middle that grows", "[" + text + "]", "[" + text + "one more turn]", 30},
		{"a place in the middle", text, text[:3000] + "#" + text[3001:], 20},
		{"three places", text, "at 1" + text[:2000] + "#" + text[2000:4000] + "##" + text[4001:], 40},
		{"parts change places", text, text[3000:] + text[:3000], 20},
		{"a cut", text, text[:1000] + text[3000:], 20},
		{"nothing in common", text, other, 0},
		{"short bodies", `{"a":1}`, `{"a":1}`, 0},
		{"nothing before", "", text, 0},
		{"nothing after", text, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d differ
			diff, ok := d.difference([]byte(c.old), []byte(c.body))
			if ok != (c.most > 0) || ok && len(diff) > c.most {
				t.Fatalf("%d bytes, worth it %t: want at most %d", len(diff), ok, c.most)
			}
			if got, err := applyDifference(nil, []byte(c.old), diff); ok && (err != nil || string(got) != c.body) {
				t.Fatalf("it makes %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestDifferenceComesBack: whatever two bodies are, the difference makes the
// second of the first, also with a differ that was used before.
func TestDifferenceComesBack(t *testing.T) {
	var d differ
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.StringN(0, 12, -1).Draw(t, "text"), rapid.SampledFrom([]int{1, 3, 40}).Draw(t, "times"))
		})
		parts := rapid.SliceOfN(part, 1, 6).Draw(t, "parts")
		old := []byte(strings.Join(parts, ""))
		body := []byte(strings.Join(append(rapid.Permutation(parts).Draw(t, "order"), rapid.SliceOfN(part, 0, 2).Draw(t, "more")...), ""))
		diff, ok := d.difference(old, body)
		if !ok {
			return
		}
		n, err := differenceLength(diff)
		if err != nil || n != len(body) {
			t.Fatalf("it says %d bytes, %v: want %d", n, err, len(body))
		}
		got, err := applyDifference(make([]byte, 0, n), old, diff)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%q and %q: it makes %q, %v", old, body, got, err)
		}
	})
}

// numbers writes uvarints, and text behind them.
func numbers(text string, n ...uint64) []byte {
	var b []byte
	for _, v := range n {
		b = binary.AppendUvarint(b, v)
	}
	return append(b, text...)
}

// TestLyingDifferences: a difference that says what is not so is corrupt, and
// takes no memory that the block does not answer for.
func TestLyingDifferences(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	old := put("a", 1, at, bytes.Repeat([]byte("0123456789"), 10))
	want := slices.Concat(old.Body, []byte("and more"))
	next := put("a", 2, at.Add(time.Second), want)
	next.Body = nil
	block := func(recs ...[]byte) []byte {
		raw := slices.Concat(recs...)
		return sealed(blockFrame, uint32(len(raw)), uint32(len(recs)), packed(t, raw))
	}
	differ := func(r Record, diff []byte) []byte { return appendStored(nil, r, diff, flagDifference) }
	whole := appendRecord(nil, old)
	elsewhere, deletion := next, next
	elsewhere.Key.ID, deletion.Op = "b", tiering.OpDelete
	var many [][]byte
	many = append(many, appendRecord(nil, put("a", 1, at, make([]byte, 8<<20))))
	for v := int64(2); v < 8; v++ {
		r := put("a", v, at, nil)
		many = append(many, differ(r, numbers("", 8<<20, 0, 8<<20, 0)))
	}
	for _, c := range []struct {
		name  string
		block []byte
	}{
		{"nothing before it", block(differ(next, numbers("and more", 108, 0, 100, 8)))},
		{"another key before it", block(whole, differ(elsewhere, numbers("and more", 108, 0, 100, 8)))},
		{"a deletion", block(whole, differ(deletion, nil))},
		{"no length", block(whole, differ(next, nil))},
		{"a length that is cut", block(whole, differ(next, []byte{0x80}))},
		{"longer than bodies are", block(whole, differ(next, numbers("", MaxBody+1, 0, 100, 0)))},
		{"longer than it makes", block(whole, differ(next, numbers("and more", 109, 0, 100, 8)))},
		{"shorter than it makes", block(whole, differ(next, numbers("and more", 107, 0, 100, 8)))},
		{"a copy behind the end", block(whole, differ(next, numbers("and more", 108, 1, 100, 8)))},
		{"a copy from behind the end", block(whole, differ(next, numbers("and more", 108, 101, 0, 108)))},
		{"a copy that is larger than numbers are", block(whole, differ(next, numbers("and more", 108, 0, 1<<63-1, 8)))},
		{"more bytes than are there", block(whole, differ(next, numbers("and more", 108, 0, 99, 9)))},
		{"bytes behind it", block(whole, differ(next, numbers("and more!", 108, 0, 100, 8)))},
		{"the bytes of another body", block(whole, differ(next, numbers("and less", 108, 0, 100, 8)))},
		{"more bodies than a block may make", block(many...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last error
			for r, err := range DecodeBlock("acme", c.block) {
				if last = err; err == nil && r.Version > 1 && len(r.Body) < 1<<20 {
					last = r.checkDigest()
				}
			}
			if !errors.Is(last, tiering.ErrCorrupt) {
				t.Errorf("%v, want corrupt", last)
			}
		})
	}
	t.Run("the truth", func(t *testing.T) {
		r, err := findVersion(&unpackers{}, block(whole, differ(next, numbers("and more", 108, 0, 100, 8))), next.Key, 1, 2)
		if err != nil || !bytes.Equal(r.Body, want) {
			t.Errorf("%q, %v", r.Body, err)
		}
	})
}

// TestStreamSaysWhatRecordsSays: bodies that hold for one turn of the loop are
// those that live on.
func TestStreamSaysWhatRecordsSays(t *testing.T) {
	e, err := Encode("acme", nil, chatRecords(4, 12, 6<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openBytes(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	var kept []Record
	for r, err := range s.Records() {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r)
	}
	i := 0
	for r, err := range s.Stream() {
		if err != nil {
			t.Fatal(err)
		}
		if r.Compare(kept[i]) != 0 || !bytes.Equal(r.Body, kept[i].Body) || kept[i].checkDigest() != nil {
			t.Fatalf("record %d is %s version %d", i, r.Key, r.Version)
		}
		i++
	}
	if i != len(kept) {
		t.Errorf("%d records, want %d", i, len(kept))
	}
}
