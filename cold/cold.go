// Package cold is the contract of the cold tier: immutable objects in two
// buckets. Bucket is what a driver does; Segment is what lies in it, and
// format.md says how, byte by byte; Archive writes to both buckets and reads
// from either. cold/coldtest proves a driver.
package cold

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// ErrExist says that an object of that name is there already.
var ErrExist = errors.New("object exists")

// ErrNotExist says that no object of that name is there. A bucket that cannot
// be reached returns another error, never this one.
var ErrNotExist = errors.New("object does not exist")

// ObjectInfo describes one object.
type ObjectInfo struct {
	Name    string
	Size    int64
	ModTime time.Time
}

// Bucket holds objects by name. Names are made by tierd alone (segments,
// markers) from [a-z0-9./_-], without empty or dot segments, at most 255 bytes
// a segment; a driver refuses others with CheckName. No name is another's
// followed by a slash. Methods are safe for concurrent use and honour the
// context. Errors are raw but for ErrExist and ErrNotExist, and a full disk,
// which a driver may say is out_of_space.
type Bucket interface {
	// Create writes an object that is not there yet, whole and durable or not
	// at all: ErrExist when the name is taken. After any other error the
	// object may be there: Stat and compare. body is read from its start on
	// every try.
	Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	// Read returns length bytes from offset; a negative length reads to the
	// end. Fewer bytes than asked for is io.ErrUnexpectedEOF, never a short
	// slice.
	Read(ctx context.Context, name string, offset, length int64) ([]byte, error)
	// Stat describes one object.
	Stat(ctx context.Context, name string) (ObjectInfo, error)
	// List yields the objects whose name starts with prefix, in name order. An
	// error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[ObjectInfo, error]
	// Delete removes every version of an object. Deleting what is not there
	// succeeds.
	Delete(ctx context.Context, name string) error
	// Ping reports whether the bucket can be read and written.
	Ping(ctx context.Context) error
	// Close frees what the driver holds.
	Close() error
}
