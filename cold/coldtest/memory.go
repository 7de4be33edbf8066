package coldtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierd/tierd/cold"
)

// Memory is a bucket in memory for tests: fast, and as strict as a real one.
// The zero Memory is empty and ready.
type Memory struct {
	mu      sync.RWMutex
	objects map[string]object
	closed  bool
}

type object struct {
	data []byte
	at   time.Time
}

var _ cold.Bucket = (*Memory)(nil)

var errClosed = errors.New("bucket is closed")

func (m *Memory) check(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.closed {
		return errClosed
	}
	return cold.CheckName(name)
}

// Create keeps a copy of body.
func (m *Memory) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if int64(len(data)) != size {
		return errors.New("body has not the size announced")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx, name); err != nil {
		return err
	}
	if _, ok := m.objects[name]; ok {
		return cold.ErrExist
	}
	if m.objects == nil {
		m.objects = map[string]object{}
	}
	m.objects[name] = object{data, time.Now().UTC()}
	return nil
}

// Read returns a copy of a part.
func (m *Memory) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.check(ctx, name); err != nil {
		return nil, err
	}
	o, ok := m.objects[name]
	size := int64(len(o.data))
	switch {
	case offset < 0:
		return nil, errors.New("negative offset")
	case !ok:
		return nil, cold.ErrNotExist
	case offset > size || length > size-offset:
		return nil, io.ErrUnexpectedEOF
	case length < 0:
		length = size - offset
	}
	return bytes.Clone(o.data[offset : offset+length]), nil
}

// Stat describes an object.
func (m *Memory) Stat(ctx context.Context, name string) (cold.ObjectInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.check(ctx, name); err != nil {
		return cold.ObjectInfo{}, err
	}
	o, ok := m.objects[name]
	if !ok {
		return cold.ObjectInfo{}, cold.ErrNotExist
	}
	return cold.ObjectInfo{Name: name, Size: int64(len(o.data)), ModTime: o.at}, nil
}

// List yields what was there when it began, less what was deleted since.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[cold.ObjectInfo, error] {
	return func(yield func(cold.ObjectInfo, error) bool) {
		m.mu.RLock()
		names, err := slices.Sorted(maps.Keys(m.objects)), m.check(ctx, "list")
		m.mu.RUnlock()
		if err != nil {
			yield(cold.ObjectInfo{}, err)
			return
		}
		for _, name := range names {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			info, err := m.Stat(ctx, name)
			if errors.Is(err, cold.ErrNotExist) {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Delete removes an object.
func (m *Memory) Delete(ctx context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx, name); err != nil {
		return err
	}
	delete(m.objects, name)
	return nil
}

// Ping fails once the bucket is closed.
func (m *Memory) Ping(ctx context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.check(ctx, "ping")
}

// Close makes later calls fail. Reopen undoes it.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Reopen makes a closed bucket usable again, with what it holds.
func (m *Memory) Reopen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = false
}

// Replace puts other bytes under a name, as no Bucket can: a disk that rots, an
// operator who meddles.
func (m *Memory) Replace(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[string]object{}
	}
	m.objects[name] = object{bytes.Clone(data), time.Now().UTC()}
}
