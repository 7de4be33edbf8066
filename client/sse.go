package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
)

// maxFrame bounds one event: the bodies before and after a change, and what
// stands around them.
const maxFrame = 2*tiering.MaxBody + 64<<10

var errFrameTooLarge = errors.New("an event is larger than an event can be")

// frame is one block of an event stream. A block without data moves the id
// alone.
type frame struct {
	id    string
	hasID bool
	event string
	data  []byte
	retry time.Duration
}

// frameReader reads server-sent events as the HTML standard has them (9.2.6),
// without lone carriage returns, which tierd does not write. What a stream cuts
// off in the middle is dropped.
type frameReader struct {
	r       *bufio.Reader
	started bool
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 32<<10)}
}

// next returns the next block that says anything.
func (f *frameReader) next() (frame, error) {
	var (
		fr   frame
		size int
		says bool // a field was seen
		data bool
	)
	for {
		line, err := f.line(maxFrame - size)
		if err != nil {
			return frame{}, err
		}
		if !f.started {
			f.started = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			if says {
				return fr, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		size += len(line)
		switch string(name) {
		case "": // a comment: the heartbeat
			size -= len(line)
			continue
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				fr.id, fr.hasID = string(value), true
			}
		case "event":
			fr.event = string(value)
		case "data":
			if data {
				fr.data = append(fr.data, '\n')
			}
			fr.data, data = append(fr.data, value...), true
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				fr.retry = time.Duration(ms) * time.Millisecond
			}
		}
		says = true
	}
}

// line returns the next line without its end. It is valid until the next call.
func (f *frameReader) line(most int) ([]byte, error) {
	part, err := f.r.ReadSlice('\n')
	if err == nil && len(part) <= most {
		return trimEnd(part), nil
	}
	var whole []byte
	for {
		whole = append(whole, part...)
		switch {
		case len(whole) > most:
			return nil, errFrameTooLarge
		case err == nil:
			return trimEnd(whole), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		part, err = f.r.ReadSlice('\n')
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
