// Package wordvec keeps vectors of words in little memory: a byte a number, one
// table shared by all, and finds which words are near each other.
package wordvec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// magic begins a file and numbers its format: within one zstd frame, the number
// of words and dimensions, the words in order (how many bytes are shared with
// the word before, how many follow, those), a rarity a word, and the numbers, one
// dimension after the other, each a signed byte.
const magic = "tierd words 1\n"

// steps is how many units of a number a component's root mean square takes. The
// more, the larger the file: at 6 a cosine is off by some thousandths.
const steps = 6

// raritySteps is the resolution of a rarity.
const raritySteps = 16

var errDamaged = errors.New("the word vectors are damaged")

// Word is what a file is made of.
type Word struct {
	Text   string // at most 255 bytes
	Rarity float64
	Vector []float32
}

// Write writes words, which are sorted and have vectors of one length.
func Write(out io.Writer, words []Word) error {
	if len(words) == 0 {
		return errors.New("no words to write")
	}
	dims := len(words[0].Vector)
	body := binary.AppendUvarint(nil, uint64(len(words)))
	body = binary.AppendUvarint(body, uint64(dims))
	last := ""
	for i, w := range words {
		if i > 0 && w.Text <= last || len(w.Text) == 0 || len(w.Text) > 255 || len(w.Vector) != dims {
			return fmt.Errorf("the word %q cannot be written behind %q with %d dimensions of %d", w.Text, last, len(w.Vector), dims)
		}
		shared := 0
		for shared < min(len(last), len(w.Text)) && last[shared] == w.Text[shared] {
			shared++
		}
		body = append(body, byte(shared), byte(len(w.Text)-shared))
		body = append(body, w.Text[shared:]...)
		last = w.Text
	}
	for _, w := range words {
		body = append(body, byte(min(255, math.Round(w.Rarity*raritySteps))))
	}
	scale := steps * math.Sqrt(float64(dims))
	for d := range dims {
		for _, w := range words {
			x := math.Round(float64(w.Vector[d]) * scale)
			body = append(body, byte(int8(max(-127, min(127, x)))))
		}
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	_, err = out.Write(z.EncodeAll(body, []byte(magic)))
	return err
}

// Read reads what Write wrote.
func Read(file []byte) (*Table, error) {
	frame, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok {
		return nil, errDamaged
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	body, err := z.DecodeAll(frame, nil)
	if err != nil {
		return nil, errDamaged
	}
	count, n := binary.Uvarint(body)
	dims, m := binary.Uvarint(body[max(n, 0):])
	if n <= 0 || m <= 0 || count > 1<<24 || dims > 1<<12 {
		return nil, errDamaged
	}
	t := &Table{dims: int(dims)}
	if body, err = t.readWords(body[n+m:], int(count)); err != nil {
		return nil, err
	}
	if len(body) != int(count)*(1+int(dims)) {
		return nil, errDamaged
	}
	t.rarity, body = slices.Clone(body[:count]), body[count:]
	t.turn(body)
	t.measure()
	return t, nil
}

// turn puts the numbers of a word side by side. It goes by some words at a time,
// which stay in the processor's cache meanwhile.
func (t *Table) turn(columns []byte) {
	count := t.Len()
	t.numbers = make([]int8, len(columns))
	const some = 64
	for from := 0; from < count; from += some {
		to := min(from+some, count)
		for d := range t.dims {
			for i, c := range columns[d*count+from : d*count+to] {
				t.numbers[(from+i)*t.dims+d] = int8(c) //nolint:gosec // two's complement
			}
		}
	}
}

func (t *Table) readWords(body []byte, count int) ([]byte, error) {
	t.starts = make([]uint32, 1, count+1)
	for range count {
		if len(body) < 2 || len(body) < 2+int(body[1]) {
			return nil, errDamaged
		}
		shared, more := int(body[0]), int(body[1])
		start := int(t.starts[max(0, len(t.starts)-2)])
		if start+shared > len(t.text) {
			return nil, errDamaged
		}
		t.text = append(t.text, t.text[start:start+shared]...)
		t.text = append(t.text, body[2:2+more]...)
		t.starts = append(t.starts, uint32(len(t.text))) //nolint:gosec // below 2^32
		body = body[2+more:]
	}
	t.text = slices.Clip(t.text)
	return body, nil
}
