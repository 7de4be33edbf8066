package dir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Disk is a file system.
type Disk interface {
	// Mkdir makes the directory at path in one that is there.
	Mkdir(path string, mode fs.FileMode) error
	// SyncDir makes the entries of the directory at path durable.
	SyncDir(path string) error
	// OpenRoot opens the directory at path.
	OpenRoot(path string) (Root, error)
}

// Root is an open directory. Names lead nowhere outside it, and mean what they
// mean to os.Root.
type Root interface {
	// Create makes a file that was not there.
	Create(name string, mode fs.FileMode) (File, error)
	// SyncDir makes the entries of a folder durable.
	SyncDir(name string) error
	Open(name string) (*os.File, error)
	Lstat(name string) (fs.FileInfo, error)
	Link(oldname, newname string) error
	Remove(name string) error
	RemoveAll(name string) error
	Mkdir(name string, mode fs.FileMode) error
	MkdirAll(name string, mode fs.FileMode) error
	Close() error
}

// File is a file that is being written.
type File interface {
	io.WriteCloser
	// Sync makes what was written durable.
	Sync() error
}

// MakeFolder makes the folder at path as Open makes a bucket's: with those above
// it, and durably. d may be nil.
func MakeFolder(d Disk, path string, mode fs.FileMode) error {
	return makeDurable(diskOr(d), filepath.Clean(path), mode)
}

func diskOr(d Disk) Disk {
	if d == nil {
		return machine{}
	}
	return d
}

// machine is the file system of the machine.
type machine struct{}

func (machine) Mkdir(path string, mode fs.FileMode) error { return os.Mkdir(path, mode) }

func (machine) SyncDir(path string) error { return syncFolder(os.Open(path)) }

// OpenRoot implements Disk.
func (machine) OpenRoot(path string) (Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return machineRoot{root}, nil
}

// makeDurable makes a folder and those above it, and has each that was made, and
// the last in any case, entered durably in the folder it lies in.
func makeDurable(d Disk, path string, mode fs.FileMode) error {
	parent := filepath.Dir(path)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := makeDurable(d, parent, mode); err != nil {
			return err
		}
	}
	if err := d.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return errors.Join(err, &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist})
	}
	return d.SyncDir(parent)
}

type machineRoot struct{ *os.Root }

func (r machineRoot) Create(name string, mode fs.FileMode) (File, error) {
	return r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

func (r machineRoot) SyncDir(name string) error { return syncFolder(r.Open(name)) }

// syncFolder makes the entries of a folder durable, and closes it.
func syncFolder(f *os.File, err error) error {
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return f.Close() // a folder cannot be synced there
	}
	return errors.Join(f.Sync(), f.Close())
}
