// Package dir keeps objects as files in a directory: the cold tier of a node
// without object storage, and the second copy on a mounted disk. The file
// system has to support hard links. One process at a time should have a
// directory open: opening it removes what writers that died left half done,
// and a live one would have to write again.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// unfinished is the folder of files being written. No object's name can reach
// it, because names have no tilde. That it is there also tells the bucket from
// an empty folder that took its place.
const unfinished = "~unfinished"

// Options shapes a Bucket. The zero value is good.
type Options struct {
	// FileMode and DirMode are the permissions of what is made, before the
	// umask; 0 is 0600 and 0700.
	FileMode, DirMode fs.FileMode
	// Disk is the file system that the directory is on, for tests that make it
	// fail; nil is the machine's.
	Disk Disk
}

// Bucket is a cold.Bucket over a directory. A crash at any moment leaves an
// object whole under its name, or not there at all.
type Bucket struct {
	root     Root
	fileMode fs.FileMode
	dirMode  fs.FileMode
}

var _ cold.Bucket = (*Bucket)(nil)

// Open opens the directory at path, makes it if it is not there, and removes
// files that were never finished. o may be nil.
func Open(path string, o *Options) (*Bucket, error) {
	b := &Bucket{fileMode: 0o600, dirMode: 0o700}
	if o != nil && o.FileMode != 0 {
		b.fileMode = o.FileMode
	}
	if o != nil && o.DirMode != 0 {
		b.dirMode = o.DirMode
	}
	var disk Disk
	if o != nil {
		disk = o.Disk
	}
	if err := MakeFolder(disk, path, b.dirMode); err != nil {
		return nil, classify(err)
	}
	root, err := diskOr(disk).OpenRoot(path)
	if err != nil {
		return nil, classify(err)
	}
	b.root = root
	if err := b.clean(); err != nil {
		return nil, errors.Join(classify(err), root.Close())
	}
	return b, nil
}

// clean empties the folder of unfinished files.
func (b *Bucket) clean() error {
	if err := b.root.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := b.root.Mkdir(unfinished, b.dirMode); err != nil {
		return err
	}
	return b.syncDir(".")
}

// Create writes the object to an unfinished file, makes it durable, and links
// it to its name, which fails when the name is taken. A full disk is
// out_of_space.
func (b *Bucket) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := check(ctx, name); err != nil {
		return err
	}
	// Asked first to spare the work; the link decides.
	info, err := b.root.Lstat(name)
	if err == nil {
		return b.taken(name, info)
	}
	if !absent(err) {
		return classify(err)
	}
	temp, err := b.write(ctx, body, size)
	if err != nil {
		return classify(err)
	}
	// The name that the file was written under goes in any case: nobody looks
	// at it again, and what a crash leaves of it the next Open removes.
	defer func() { _ = b.root.Remove(temp) }()
	return classify(b.publish(temp, name))
}

// write fills a new unfinished file and makes it durable.
func (b *Bucket) write(ctx context.Context, body io.ReadSeeker, size int64) (temp string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	temp = path.Join(unfinished, ulid.Make().String())
	f, err := b.root.Create(temp, b.fileMode)
	if err != nil {
		return "", err
	}
	n, err := io.Copy(f, contextReader{ctx, body})
	if err == nil && n != size {
		err = fmt.Errorf("body has %d bytes, not the %d announced", n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), ctx.Err()); err != nil {
		_ = b.root.Remove(temp)
		return "", err
	}
	return temp, nil
}

// publish links temp to name and returns once that is durable.
func (b *Bucket) publish(temp, name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := b.root.MkdirAll(dir, b.dirMode); err != nil {
			return err
		}
	}
	err := b.root.Link(temp, name)
	if errors.Is(err, fs.ErrExist) {
		info, err := b.root.Lstat(name)
		if err != nil {
			return err
		}
		return b.taken(name, info)
	}
	if err != nil {
		return err
	}
	if err := b.syncPath(name); err != nil {
		// Seen but not durable is neither of the two that the caller may
		// find, so it must not stay.
		return errors.Join(err, b.root.Remove(name))
	}
	return nil
}

// taken says that name is. Whoever made it may have died, or still be at work,
// between link and sync; the caller may rely on the object, so it is synced.
func (b *Bucket) taken(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q is a folder, not an object", name)
	}
	if err := b.syncPath(name); err != nil {
		return err
	}
	return cold.ErrExist
}

// syncPath makes the entry of name durable, in its folder and in those above,
// any of which may have been made a moment ago.
func (b *Bucket) syncPath(name string) error {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if err := b.syncDir(dir); err != nil {
			return err
		}
		if dir == "." {
			return nil
		}
	}
}

func (b *Bucket) syncDir(dir string) error { return b.root.SyncDir(dir) }

// Delete removes an object, durably.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := check(ctx, name); err != nil {
		return err
	}
	info, err := b.root.Lstat(name)
	if absent(err) || err == nil && !info.Mode().IsRegular() {
		// Nothing to do, unless the bucket itself is away.
		if err := b.here(cold.ErrNotExist); !errors.Is(err, cold.ErrNotExist) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.root.Remove(name); err != nil && !absent(err) {
		return err
	}
	return b.syncDir(path.Dir(name))
}

// Ping writes an unfinished file, makes it durable, links it to another
// unfinished name and removes both, so that a full disk, one that went
// read-only and one without hard links are found before an object needs it.
func (b *Bucket) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	temp, err := b.write(ctx, newProbe(), probeSize)
	if err != nil {
		return classify(err)
	}
	linked := temp + ".linked"
	if err := b.root.Link(temp, linked); err != nil {
		return errors.Join(classify(err), b.root.Remove(temp))
	}
	return classify(errors.Join(b.root.Remove(linked), b.root.Remove(temp)))
}

// Close frees the directory. Later calls fail.
func (b *Bucket) Close() error { return b.root.Close() }

// here turns "no such file" into an error of the bucket when the bucket's
// directory itself was removed or replaced: absence of an object is only known
// while the bucket is there.
func (b *Bucket) here(err error) error {
	if !absent(err) && !errors.Is(err, cold.ErrNotExist) {
		return err
	}
	if _, statErr := b.root.Lstat(unfinished); statErr != nil {
		return fmt.Errorf("the directory of the bucket is gone: %w", statErr)
	}
	if errors.Is(err, cold.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", cold.ErrNotExist, err)
}

func check(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return cold.CheckName(name)
}

// absent reports whether err says that no file is there, also because a part
// of its path is a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// classify makes out_of_space of a full disk or quota.
func classify(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &tiering.Error{Tier: tiering.Cold, Code: tiering.CodeOutOfSpace, Detail: "the disk of the cold tier is full", Err: err}
	}
	return err
}
