package s3bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
)

// mostHeld is the largest body that is held in memory: twice a segment.
const mostHeld = 16 << 20

// source is the body of a Create: read once to know its digest, then once a
// try. A body of ordinary size is held in memory from the first reading on,
// because a slow one would keep the name locked on the server: MinIO lets
// nobody look at a name while a conditional write of it is on its way.
type source struct {
	body  io.ReadSeeker
	size  int64
	sum   [sha256.Size]byte
	write string

	mu  sync.Mutex
	err error // the body's own, which no retry helps
}

// newSource reads body through.
func newSource(ctx context.Context, body io.ReadSeeker, size int64) (*source, error) {
	s := &source{body: body, size: size, write: rand.Text()}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	h := sha256.New()
	var to io.Writer = h
	var held *bytes.Buffer
	if _, inMemory := body.(*bytes.Reader); !inMemory && size <= mostHeld {
		held = bytes.NewBuffer(make([]byte, 0, size))
		to = io.MultiWriter(h, held)
	}
	n, err := io.Copy(to, io.LimitReader(until{ctx, body}, size+1))
	if err != nil {
		return nil, err
	}
	if n != size {
		return nil, fmt.Errorf("body has not the %d bytes announced", size)
	}
	h.Sum(s.sum[:0])
	if held != nil {
		s.body = bytes.NewReader(held.Bytes())
	}
	return s, nil
}

// upload is one try. A transport may read on after its request has failed; done
// takes the body away from it, so that the next try has it for itself.
func (s *source) upload(ifAbsent bool) (up Upload, done func()) {
	v := &view{source: s}
	return Upload{Body: v, Size: s.size, SHA256: s.sum, Write: s.write, IfAbsent: ifAbsent}, v.end
}

// failed returns the error of the body, if it was that.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// view is the body for one try. It is read from its start, and only as far as
// it was announced.
type view struct {
	source *source
	at     int64
	placed bool // the body stands at at
	ended  bool
}

var errEnded = errors.New("the try that this body was for has ended")

func (v *view) Read(p []byte) (int, error) {
	s := v.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.ended {
		return 0, errEnded
	}
	if v.at >= s.size {
		return 0, io.EOF
	}
	if !v.placed {
		if _, err := s.body.Seek(v.at, io.SeekStart); err != nil {
			s.err = err
			return 0, err
		}
		v.placed = true
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.size-v.at)])
	v.at += int64(n)
	ended := errors.Is(err, io.EOF)
	if ended && v.at < s.size {
		err = fmt.Errorf("body ended after %d of %d bytes: %w", v.at, s.size, io.ErrUnexpectedEOF)
	}
	if err != nil && (!ended || v.at < s.size) {
		s.err = err
	}
	return n, err
}

func (v *view) Seek(offset int64, whence int) (int64, error) {
	v.source.mu.Lock()
	defer v.source.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += v.at
	case io.SeekEnd:
		offset += v.source.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	v.at, v.placed = offset, false
	return offset, nil
}

func (v *view) end() {
	v.source.mu.Lock()
	defer v.source.mu.Unlock()
	v.ended = true
}

// until ends a copy when the context does.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
