package client

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func frames(r io.Reader) (out []frame, err error) {
	fr := newFrameReader(r)
	for {
		f, err := fr.next()
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 100<<10) // several times the buffer
	for _, c := range []struct {
		name, in string
		want     []frame
	}{
		{"an event", "id: e.1.0\nevent: state.put\ndata: {}\n\n", []frame{{id: "e.1.0", hasID: true, event: "state.put", data: []byte("{}")}}},
		{"carriage returns", "data: 1\r\n\r\ndata: 2\r\n\r\n", []frame{{data: []byte("1")}, {data: []byte("2")}}},
		{"comments are nothing", ": watching\n\n:\n\ndata: 1\n: between\n\n", []frame{{data: []byte("1")}}},
		{"one space after the colon goes", "data:1\n\ndata:  1\n\n", []frame{{data: []byte("1")}, {data: []byte(" 1")}}},
		{"lines of data are joined", "data: a\ndata:\ndata: b\n\n", []frame{{data: []byte("a\n\nb")}}},
		{"an id alone", "id: e.5\n\n", []frame{{id: "e.5", hasID: true}}},
		{"an id with NUL is none", "id: a\x00b\ndata: 1\n\n", []frame{{data: []byte("1")}}},
		{"retry", "retry: 1500\n\nretry: soon\n\n", []frame{{retry: 1500 * time.Millisecond}, {}}},
		{"a byte order mark", "\xef\xbb\xbfdata: 1\n\n", []frame{{data: []byte("1")}}},
		{"an unknown field", "colour: red\ndata: 1\n\n", []frame{{data: []byte("1")}}},
		{"what is cut off is dropped", "data: 1\n\ndata: 2\n", []frame{{data: []byte("1")}}},
		{"a line longer than the buffer", "data: " + long + "\n\n", []frame{{data: []byte(long)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := frames(r)
				if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, c.want) {
					t.Fatalf("%s: got %+v, %v\nwant %+v", how, got, err, c.want)
				}
			}
		})
	}
}

func TestAFrameIsBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("data: "), zeros{})
	if _, err := frames(endless); !errors.Is(err, errFrameTooLarge) {
		t.Fatalf("one line: %v", err)
	}
	if _, err := frames(&repeat{s: "data: " + strings.Repeat("x", 64<<10) + "\n"}); !errors.Is(err, errFrameTooLarge) {
		t.Fatalf("many lines: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

type repeat struct {
	s    string
	rest string
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.rest = r.s
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Whatever arrives, in whatever pieces, the frames are the same, and data holds
// no end of a line that a field could have begun at.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("id: e.1.0\nevent: state.put\ndata: {\"a\":1}\n\n: beat\n\n"))
	f.Add([]byte("data\ndata: a\r\ndata: b\r\n\r\nretry: 5\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, errA := frames(bytes.NewReader(in))
		b, errB := frames(iotest.OneByteReader(bytes.NewReader(in)))
		if !reflect.DeepEqual(a, b) || !errors.Is(errA, errB) {
			t.Fatalf("at once %+v, %v; byte by byte %+v, %v", a, errA, b, errB)
		}
		for _, fr := range a {
			if strings.ContainsAny(fr.id, "\n\x00") || strings.Contains(fr.event, "\n") || fr.retry < 0 {
				t.Fatalf("%+v", fr)
			}
		}
	})
}

func TestSeen(t *testing.T) {
	for _, c := range []struct {
		id, last string
		want     bool
	}{
		{"e.5.1", "", false},
		{"e.5.1", "e.5.1", true},
		{"e.5.0", "e.5.1", true},
		{"e.5.2", "e.5.1", false},
		{"e.4.9", "e.5.1", true},
		{"e.10.0", "e.9.0", false}, // as numbers, not as text
		{"e.5.3", "e.5", true},     // all of position 5
		{"e.6.0", "e.5", false},
		{"f.1.0", "e.5.1", false},
		{"odd", "odd", true},
		{"odd", "e.5.1", false},
		{"", "e.5.1", false},
	} {
		if got := seen(c.id, c.last); got != c.want {
			t.Errorf("%q behind %q: %v", c.id, c.last, got)
		}
	}
}
