package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tierd/tierd/cold"
)

// Read returns a part of an object.
func (b *Bucket) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := check(ctx, name); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fmt.Errorf("offset %d is negative", offset)
	}
	f, info, err := b.openObject(name)
	if err != nil {
		return nil, err
	}
	out, err := readRange(f, info.Size(), offset, length)
	return out, errors.Join(err, f.Close())
}

func readRange(f *os.File, size, offset, length int64) ([]byte, error) {
	if offset > size || length > size-offset {
		return nil, io.ErrUnexpectedEOF
	}
	if length < 0 {
		length = size - offset
	}
	out := make([]byte, length)
	if n, err := f.ReadAt(out, offset); n < len(out) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return out, nil
}

// Stat describes an object.
func (b *Bucket) Stat(ctx context.Context, name string) (cold.ObjectInfo, error) {
	if err := check(ctx, name); err != nil {
		return cold.ObjectInfo{}, err
	}
	info, err := b.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = cold.ErrNotExist
	}
	if err != nil {
		return cold.ObjectInfo{}, b.here(err)
	}
	return describe(name, info), nil
}

func (b *Bucket) openObject(name string) (*os.File, fs.FileInfo, error) {
	f, err := b.root.Open(name)
	if err != nil {
		return nil, nil, b.here(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = cold.ErrNotExist
	}
	if err != nil {
		return nil, nil, errors.Join(b.here(err), f.Close())
	}
	return f, info, nil
}

func describe(name string, info fs.FileInfo) cold.ObjectInfo {
	return cold.ObjectInfo{Name: name, Size: info.Size(), ModTime: info.ModTime().UTC()}
}

// List walks the directory. Files that are not objects are passed over.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[cold.ObjectInfo, error] {
	return func(yield func(cold.ObjectInfo, error) bool) {
		if _, err := b.root.Lstat(unfinished); err != nil {
			yield(cold.ObjectInfo{}, fmt.Errorf("the directory of the bucket is gone: %w", err))
			return
		}
		w := walker{ctx: ctx, root: b.root, prefix: prefix, yield: yield}
		if err := w.walk("."); err != nil {
			yield(cold.ObjectInfo{}, err)
		}
	}
}

type walker struct {
	ctx    context.Context
	root   Root
	prefix string
	yield  func(cold.ObjectInfo, error) bool
	done   bool // yield said stop
}

// walk yields what lies in dir and below.
func (w *walker) walk(dir string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := w.entries(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.done {
			return nil
		}
		name := path.Join(dir, e.Name())
		if cold.CheckName(name) != nil {
			continue // not ours, such as lost+found, or unfinished
		}
		if e.IsDir() {
			// Only a folder that the prefix leads into or through.
			if strings.HasPrefix(name+"/", w.prefix) || strings.HasPrefix(w.prefix, name+"/") {
				if err := w.walk(name); err != nil {
					return err
				}
			}
			continue
		}
		if !e.Type().IsRegular() || !strings.HasPrefix(name, w.prefix) {
			continue
		}
		if err := w.emit(name, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) emit(name string, e fs.DirEntry) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	info, err := e.Info()
	if absent(err) {
		return nil // deleted since the folder was read
	}
	if err != nil {
		return err
	}
	w.done = !w.yield(describe(name, info), nil)
	return nil
}

// entries returns what is in a folder, so ordered that a walk meets names in
// byte order: a folder counts as its name and a slash, because "a-b" comes
// before "a/b" although "a" comes before "a-b".
func (w *walker) entries(dir string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return entries, nil
}

func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// contextReader ends a copy when the context does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// probeSize is what Ping writes: more than one block of any file system, so
// that the disk has to find room.
const probeSize = 16 << 10

func newProbe() *bytes.Reader { return bytes.NewReader(make([]byte, probeSize)) }
