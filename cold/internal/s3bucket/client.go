// Package s3bucket is a cold.Bucket over S3-compatible storage, whichever
// library speaks to it. It holds all that S3 makes hard and both drivers must
// do alike: conditional writes whose outcome is unknown, answers that lie,
// versions that survive a delete, and what may be tried again. A driver is a
// Client: one request a method, no retries.
package s3bucket

import (
	"context"
	"crypto/sha256"
	"io"
	"time"
)

// Client sends single requests to one bucket. It neither retries nor follows
// pages. Its errors are *RequestError. Methods are safe for concurrent use.
type Client interface {
	// HeadBucket succeeds when the bucket is there.
	HeadBucket(ctx context.Context) error
	// CreateBucket makes it.
	CreateBucket(ctx context.Context) error
	// Put writes an object in one request and returns the id of the version
	// that this made, "" where the bucket keeps no versions.
	Put(ctx context.Context, key string, up Upload) (version string, err error)
	// Get begins to read an object. bytes is the value of a Range header, such
	// as bytes=0-99; "" is all of it. The caller closes the body.
	Get(ctx context.Context, key, bytes string) (Object, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Head, error)
	// List returns at most a page of the objects whose key starts with prefix
	// and comes behind after, in order, and whether there may be more.
	List(ctx context.Context, prefix, after string) (page []Entry, more bool, err error)
	// Versions returns at most a page of the ids of a key's versions and
	// delete markers, of this key alone.
	Versions(ctx context.Context, key string) ([]string, error)
	// Delete removes versions of a key, at most 1000; the id "" is the object
	// of a bucket without versions.
	Delete(ctx context.Context, key string, versions []string) error
	// Close frees connections.
	Close()
}

// Upload is one try to write an object.
type Upload struct {
	Body   io.ReadSeeker
	Size   int64
	SHA256 [sha256.Size]byte
	// Write tells this Create from every other; it lies beside the object.
	Write string
	// IfAbsent sends If-None-Match: *.
	IfAbsent bool
}

// The names of what lies beside an object, as user metadata.
const (
	MetaWrite  = "tierd-write"
	MetaSHA256 = "tierd-sha256" // of the whole object, in hex
)

// Object is an answer to Get.
type Object struct {
	Body io.ReadCloser
	// Length is that of the body; negative when the server did not say.
	Length int64
	// Range is the Content-Range header; "" when the body is the whole object.
	Range string
	// SHA256 is what lies beside the object; may be "".
	SHA256 string
}

// Head is an answer to Head.
type Head struct {
	Size    int64
	ModTime time.Time
	// Write is what lies beside the object; "" when another program wrote it,
	// or the server keeps no metadata.
	Write string
}

// Entry is one object of a listing.
type Entry struct {
	Key     string
	Size    int64
	ModTime time.Time
}
