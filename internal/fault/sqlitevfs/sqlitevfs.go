// Package sqlitevfs records what SQLite does to its files in a fault.Journal, and
// lets the journal refuse it. It is a layer over SQLite's own file system: reads,
// locks and shared memory pass.
package sqlitevfs

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tierd/tierd/internal/fault"
)

// The functions of SQLite's file systems that are looked at, as the translation
// of SQLite to Go has them.
type (
	openFunc     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteFunc   = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	writeFunc    = func(tls *libc.TLS, file, data uintptr, n int32, off int64) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc     = func(tls *libc.TLS, file uintptr, flags int32) int32
	closeFunc    = func(tls *libc.TLS, file uintptr) int32
)

// Recorder is a layer over SQLite's file system, and the one that every database
// of this process is opened on until Close. It records the files of one folder
// and leaves others alone.
type Recorder struct {
	journal *fault.Journal
	folder  string
	tls     *libc.TLS
	vfs     uintptr
	base    sqlite3.Tsqlite3_vfs
	keep    []any // what C memory points to

	mu      sync.Mutex
	files   map[uintptr]*file                        // those that are open, by SQLite's address of them
	methods map[uintptr]*sqlite3.Tsqlite3_io_methods // ours, by those they stand for
}

// file is one open file that is recorded.
type file struct {
	number  int
	name    string
	newName bool // the first sync makes the name durable too: SQLite does that for logs
}

// Record has what SQLite does in folder be recorded. Nothing is flushed to the
// disk meanwhile: the journal alone says what would be there.
func Record(folder string, j *fault.Journal) (*Recorder, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	r := &Recorder{journal: j, folder: folder, tls: libc.NewTLS(), files: map[uintptr]*file{},
		methods: map[uintptr]*sqlite3.Tsqlite3_io_methods{}}
	base := sqlite3.Xsqlite3_vfs_find(r.tls, 0)
	if base == 0 {
		return nil, errors.New("SQLite has no file system")
	}
	r.base = *(*sqlite3.Tsqlite3_vfs)(at(base))
	name, err := libc.CString("recorded")
	if err != nil {
		return nil, err
	}
	r.vfs = libc.Xmalloc(r.tls, libc.Tsize_t(unsafe.Sizeof(r.base)))
	mine := r.base
	mine.FpNext, mine.FzName = 0, name
	mine.FxOpen, mine.FxDelete = pointer(r, openFunc(r.open)), pointer(r, deleteFunc(r.remove))
	*(*sqlite3.Tsqlite3_vfs)(at(r.vfs)) = mine
	if rc := sqlite3.Xsqlite3_vfs_register(r.tls, r.vfs, 1); rc != sqlite3.SQLITE_OK {
		return nil, errors.New("SQLite does not take the file system")
	}
	return r, nil
}

// Close ends the recording; the databases have to be closed.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) > 0 {
		return errors.New("files are open")
	}
	if rc := sqlite3.Xsqlite3_vfs_unregister(r.tls, r.vfs); rc != sqlite3.SQLITE_OK {
		return errors.New("SQLite does not let go of the file system")
	}
	libc.Xfree(r.tls, (*sqlite3.Tsqlite3_vfs)(at(r.vfs)).FzName)
	libc.Xfree(r.tls, r.vfs)
	r.tls.Close()
	return nil
}

// at is the memory at an address of C's.
func at(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// pointer makes a C function pointer of fn, which lives as long as r.
func pointer[F any](r *Recorder, fn F) uintptr {
	held := &fn
	r.keep = append(r.keep, held)
	return *(*uintptr)(unsafe.Pointer(held))
}

// function makes a function of a C function pointer.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// known is the name of a file that is recorded.
func (r *Recorder) known(name uintptr) (string, bool) {
	if name == 0 {
		return "", false // a temporary file
	}
	rel, err := filepath.Rel(r.folder, libc.GoString(name))
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

func (r *Recorder) open(tls *libc.TLS, vfs, name, handle uintptr, flags int32, out uintptr) int32 {
	rel, known := r.known(name)
	known = known && flags&(sqlite3.SQLITE_OPEN_READONLY|sqlite3.SQLITE_OPEN_DELETEONCLOSE) == 0
	var number int
	if known {
		var err error
		if number, err = r.journal.Create(rel); err != nil {
			return sqlite3.SQLITE_CANTOPEN
		}
	}
	rc := function[openFunc](r.base.FxOpen)(tls, vfs, name, handle, flags, out)
	if rc != sqlite3.SQLITE_OK || !known {
		return rc
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const logs = sqlite3.SQLITE_OPEN_WAL | sqlite3.SQLITE_OPEN_MAIN_JOURNAL | sqlite3.SQLITE_OPEN_SUPER_JOURNAL
	r.files[handle] = &file{number: number, name: rel, newName: flags&logs != 0}
	r.wrap((*sqlite3.Tsqlite3_file)(at(handle)))
	return rc
}

// wrap puts our methods in place of those of an open file.
func (r *Recorder) wrap(f *sqlite3.Tsqlite3_file) {
	theirs := f.FpMethods
	mine, ok := r.methods[theirs]
	if !ok {
		mine = new(sqlite3.Tsqlite3_io_methods)
		base := (*sqlite3.Tsqlite3_io_methods)(at(theirs))
		*mine = *base
		mine.FiVersion = 2 // without memory maps, which would be written past us
		write, truncate, end := function[writeFunc](base.FxWrite), function[truncateFunc](base.FxTruncate), function[closeFunc](base.FxClose)
		mine.FxWrite = pointer(r, writeFunc(func(tls *libc.TLS, handle, data uintptr, n int32, off int64) int32 {
			if err := r.journal.Write(r.file(handle).number, off, unsafe.Slice((*byte)(at(data)), n)); err != nil {
				return sqlite3.SQLITE_FULL
			}
			return write(tls, handle, data, n, off)
		}))
		mine.FxTruncate = pointer(r, truncateFunc(func(tls *libc.TLS, handle uintptr, size int64) int32 {
			r.journal.Truncate(r.file(handle).number, size)
			return truncate(tls, handle, size)
		}))
		mine.FxSync = pointer(r, syncFunc(func(tls *libc.TLS, handle uintptr, flags int32) int32 {
			r.sync(handle) // and no more: the journal says what would be durable
			return sqlite3.SQLITE_OK
		}))
		mine.FxClose = pointer(r, closeFunc(func(tls *libc.TLS, handle uintptr) int32 {
			r.mu.Lock()
			delete(r.files, handle)
			(*sqlite3.Tsqlite3_file)(at(handle)).FpMethods = theirs
			r.mu.Unlock()
			return end(tls, handle)
		}))
		r.methods[theirs] = mine
	}
	f.FpMethods = uintptr(unsafe.Pointer(mine))
}

func (r *Recorder) file(handle uintptr) *file {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[handle]
}

func (r *Recorder) sync(handle uintptr) {
	f := r.file(handle)
	r.journal.Sync(f.number, f.name)
	if f.newName {
		f.newName = false
		r.journal.SyncDir(folderOf(f.name))
	}
}

func (r *Recorder) remove(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32 {
	rc := function[deleteFunc](r.base.FxDelete)(tls, vfs, name, syncDir)
	if rel, known := r.known(name); known && rc == sqlite3.SQLITE_OK {
		r.journal.Remove(rel)
		if syncDir != 0 {
			r.journal.SyncDir(folderOf(rel))
		}
	}
	return rc
}

// folderOf is the folder of a name with slashes.
func folderOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return "."
}
