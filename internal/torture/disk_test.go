package torture

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/internal/fault"
)

// recordedDisk is a file system of which a journal records what happens in one
// folder. Nothing is flushed: the journal alone says what would be durable.
type recordedDisk struct {
	folder  string
	journal *fault.Journal
}

// rel is a path from the journal's folder, with slashes.
func (d *recordedDisk) rel(at string) (string, error) {
	rel, err := filepath.Rel(d.folder, at)
	return filepath.ToSlash(rel), err
}

func (d *recordedDisk) Mkdir(at string, mode fs.FileMode) error {
	rel, err := d.rel(at)
	if err == nil {
		err = os.Mkdir(at, mode)
	}
	if err != nil {
		return err
	}
	if err := d.journal.Mkdir(rel); err != nil {
		return errors.Join(err, os.Remove(at))
	}
	return nil
}

func (d *recordedDisk) SyncDir(at string) error {
	rel, err := d.rel(at)
	if err == nil {
		d.journal.SyncDir(rel)
	}
	return err
}

// OpenRoot implements dir.Disk.
func (d *recordedDisk) OpenRoot(at string) (dir.Root, error) {
	rel, err := d.rel(at)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	return &recordedRoot{Root: root, at: rel, journal: d.journal}, nil
}

// recordedRoot is a folder of a recordedDisk. A name that the journal has no room
// for is taken back.
type recordedRoot struct {
	*os.Root
	at      string // from the journal's folder
	journal *fault.Journal
}

func (r *recordedRoot) name(name string) string { return path.Join(r.at, name) }

func (r *recordedRoot) Create(name string, mode fs.FileMode) (dir.File, error) {
	f, err := r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	number, err := r.journal.Create(r.name(name))
	if err != nil {
		return nil, errors.Join(err, f.Close(), r.Root.Remove(name))
	}
	return &recordedFile{file: f, number: number, name: r.name(name), journal: r.journal}, nil
}

func (r *recordedRoot) Link(oldname, newname string) error {
	if err := r.Root.Link(oldname, newname); err != nil {
		return err
	}
	if err := r.journal.Link(r.name(oldname), r.name(newname)); err != nil {
		return errors.Join(err, r.Root.Remove(newname))
	}
	return nil
}

func (r *recordedRoot) Remove(name string) error {
	err := r.Root.Remove(name)
	if err == nil {
		r.journal.Remove(r.name(name))
	}
	return err
}

func (r *recordedRoot) RemoveAll(name string) error {
	err := r.Root.RemoveAll(name)
	if err == nil {
		r.journal.Remove(r.name(name))
	}
	return err
}

func (r *recordedRoot) Mkdir(name string, mode fs.FileMode) error {
	if err := r.Root.Mkdir(name, mode); err != nil {
		return err
	}
	if err := r.journal.Mkdir(r.name(name)); err != nil {
		return errors.Join(err, r.Root.Remove(name))
	}
	return nil
}

func (r *recordedRoot) MkdirAll(name string, mode fs.FileMode) error {
	made := "."
	for part := range strings.SplitSeq(name, "/") {
		made = path.Join(made, part)
		if err := r.Mkdir(made, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (r *recordedRoot) SyncDir(name string) error {
	r.journal.SyncDir(r.name(name))
	return nil
}

// recordedFile is a file that is being written. It is no *os.File, whose ReadFrom
// would write past the journal.
type recordedFile struct {
	file    *os.File
	number  int
	name    string
	off     int64
	journal *fault.Journal
}

func (f *recordedFile) Write(p []byte) (int, error) {
	if err := f.journal.Write(f.number, f.off, p); err != nil {
		return 0, err
	}
	n, err := f.file.Write(p)
	f.off += int64(n)
	return n, err
}

func (f *recordedFile) Sync() error {
	f.journal.Sync(f.number, f.name)
	return nil
}

func (f *recordedFile) Close() error { return f.file.Close() }
