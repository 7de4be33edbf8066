package sqlite

import (
	"os"
	"path/filepath"
)

// lockPath is the lock of the database file at path.
func lockPath(path string) string {
	return filepath.Join(filepath.Dir(path), filepath.Base(path)+".LOCK")
}

// Abandoned reports whether a Store was opened on the file at path and no process
// has it open any more. It is false where none ever was, and where nobody can tell.
func Abandoned(path string) bool {
	if _, err := os.Stat(lockPath(path)); err != nil {
		return false
	}
	lock, err := lockFile(lockPath(path))
	if err != nil {
		return false
	}
	return lock.Close() == nil
}
