package fault

import (
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Journal records what a program does to the files of one folder, so that the
// disk can be made as a loss of power at any moment would have left it (Image).
// Names are relative to the folder, with slashes. A Journal begins with an empty
// folder. It is safe for concurrent use.
//
// The rules are POSIX's, which are harsher than any one file system: bytes are
// durable once their file was synced, a name once its folder was; anything else
// may be on the disk or not, each write and each name by itself.
type Journal struct {
	mu    sync.Mutex
	ops   []op
	names map[string]int // files that are there now
	files int
	room  int // writes until the disk is full; below 0: no bound
	deaf  func(name string) bool
}

// What an op does.
type opKind int

const (
	opWrite opKind = iota
	opTruncate
	opSync
	opName   // a name comes to be: a file, or a folder (file 0)
	opUnname // a name goes
	opSyncDir
)

type op struct {
	kind opKind
	file int
	name string
	off  int64
	data []byte
}

// NewJournal returns a journal of a folder that is empty.
func NewJournal() *Journal { return &Journal{names: map[string]int{}, room: -1} }

// Len is how much was recorded: what happens later is at or above it.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ops)
}

// Room has every write, new file and new name after the next n fail with ENOSPC;
// below 0 there is room again.
func (j *Journal) Room(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room = n
}

// Forget has syncs of files and folders, those that deaf names, be forgotten, as
// by a program that leaves them out.
func (j *Journal) Forget(deaf func(name string) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deaf = deaf
}

// take counts a write against the room there is.
func (j *Journal) take() error {
	if j.room == 0 {
		return syscall.ENOSPC
	}
	if j.room > 0 {
		j.room--
	}
	return nil
}

// Create records a new file, or finds the one of that name, and returns its
// number.
func (j *Journal) Create(name string) (file int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if file, ok := j.names[name]; ok {
		return file, nil
	}
	if err := j.take(); err != nil {
		return 0, err
	}
	j.files++
	j.name(name, j.files)
	return j.files, nil
}

func (j *Journal) name(name string, file int) {
	j.names[name] = file
	j.ops = append(j.ops, op{kind: opName, file: file, name: name})
}

// Write records bytes of a file before they are written; on an error they are
// not to be.
func (j *Journal) Write(file int, off int64, data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.take(); err != nil {
		return err
	}
	j.ops = append(j.ops, op{kind: opWrite, file: file, off: off, data: slices.Clone(data)})
	return nil
}

// Truncate records a file's new length.
func (j *Journal) Truncate(file int, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ops = append(j.ops, op{kind: opTruncate, file: file, off: size})
}

// Sync records that a file's bytes are durable.
func (j *Journal) Sync(file int, name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.deaf == nil || !j.deaf(name) {
		j.ops = append(j.ops, op{kind: opSync, file: file})
	}
}

// SyncDir records that the names in a folder are durable; "." is the folder
// itself.
func (j *Journal) SyncDir(dir string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.deaf == nil || !j.deaf(dir) {
		j.ops = append(j.ops, op{kind: opSyncDir, name: path.Clean(dir)})
	}
}

// Mkdir records a folder, unless it is there.
func (j *Journal) Mkdir(name string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.names[name]; ok || name == "." {
		return nil
	}
	if err := j.take(); err != nil {
		return err
	}
	j.name(name, 0)
	return nil
}

// Link records a second name of a file.
func (j *Journal) Link(oldname, newname string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.take(); err != nil {
		return err
	}
	j.name(newname, j.names[oldname])
	return nil
}

// Remove records that a name went, with all below it.
func (j *Journal) Remove(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for n := range j.names {
		if n == name || strings.HasPrefix(n, name+"/") {
			delete(j.names, n)
			j.ops = append(j.ops, op{kind: opUnname, name: n})
		}
	}
}
