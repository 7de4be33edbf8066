package sqlite

import (
	"errors"
	"fmt"

	driverpkg "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tierd/tierd/tiering"
)

// ErrInUse says that another process, or another Store of this one, has the
// file open.
var ErrInUse = errors.New("another process, or another Store of this one, has it open")

// errClosed is returned by every method after Close.
var errClosed = errors.New("the store is closed")

// The primary result codes that are told apart.
const (
	codeConstraint = sqlite3.SQLITE_CONSTRAINT
	codeIO         = sqlite3.SQLITE_IOERR
)

// resultCode returns SQLite's primary result code, 0 when err is not SQLite's.
func resultCode(err error) int {
	if e, ok := errors.AsType[*driverpkg.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// explain gives a code to the faults that a caller can act on: a full disk,
// and a file that is damaged. Everything else stays raw.
func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*tiering.Error](err); ok {
		return err
	}
	switch resultCode(err) {
	case sqlite3.SQLITE_FULL:
		return &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeOutOfSpace,
			Detail: "the disk that holds the warm store is full: free some space, nothing has to be restarted", Err: s.in(err)}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt,
			Detail: "the warm store's file is damaged: stop the daemon and rebuild it from cold", Err: s.in(err)}
	}
	return err
}

// in names the file in a cause: details travel to remote callers, causes stay.
func (s *Store) in(err error) error { return fmt.Errorf("%s: %w", s.path, err) }
