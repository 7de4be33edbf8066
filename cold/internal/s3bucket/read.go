package s3bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// Read returns a part of an object with one ranged GET. The length is checked
// against the answer's headers and its body, both ways; an object read whole
// is checked against the digest that lies beside it.
func (b *Bucket) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	key, err := b.check(ctx, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, tiering.Invalidf("offset %d is negative", offset)
	}
	if length == 0 || length > MaxObject || offset > MaxObject {
		return b.readNothing(ctx, name, offset, length)
	}
	data, err := b.get(ctx, key, offset, length)
	var f *RequestError
	switch {
	case err == nil:
		return data, nil
	case errors.As(err, &f) && f.Status == http.StatusRequestedRangeNotSatisfiable:
		// The range starts behind the last byte, or at an object without any.
		return b.readNothing(ctx, name, offset, length)
	case isAbsent(err):
		return nil, b.notThere(ctx, err)
	}
	return nil, outside(err)
}

// readNothing is a Read that gets no byte at all: is that right?
func (b *Bucket) readNothing(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	info, err := b.Stat(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case length > 0, offset > info.Size, length < 0 && offset < info.Size:
		return nil, fmt.Errorf("%d bytes from %d of an object of %d: %w", length, offset, info.Size, io.ErrUnexpectedEOF)
	}
	return []byte{}, nil
}

// get reads a part of an object; a length of 0 is not for it.
func (b *Bucket) get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return request(ctx, b, func(ctx context.Context) ([]byte, error) {
		o, err := b.client.Get(ctx, key, byteRange(offset, length))
		if err != nil {
			return nil, err
		}
		data, err := receive(o, offset, length)
		return data, errors.Join(err, o.Body.Close())
	})
}

func byteRange(offset, length int64) string {
	switch {
	case length >= 0:
		return fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	case offset > 0:
		return fmt.Sprintf("bytes=%d-", offset)
	}
	return ""
}

// receive takes the bytes of an answer.
func receive(o Object, offset, length int64) ([]byte, error) {
	size, whole, err := announced(o, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := readExactly(o.Body, size)
	if err != nil {
		return nil, err
	}
	if !whole || o.SHA256 == "" {
		return data, nil
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != o.SHA256 {
		const what = "the bytes of the object are not those that were written"
		return nil, &RequestError{Status: http.StatusOK, Message: what, Err: tiering.Errorf(tiering.CodeCorrupt, what)}
	}
	return data, nil
}

// announced is how many bytes the answer's headers promise, and whether that
// is the whole object; an error when it is not what was asked for.
func announced(o Object, offset, length int64) (size int64, whole bool, err error) {
	if o.Range == "" {
		return announcedWhole(o, offset, length)
	}
	var first, last, total int64
	if _, err := fmt.Sscanf(o.Range, "bytes %d-%d/%d", &first, &last, &total); err != nil {
		return 0, false, lied("Content-Range %q cannot be read", o.Range)
	}
	size = last - first + 1
	want := length
	if length < 0 {
		want = total - offset
	}
	switch {
	case first != offset || last >= total || size < 1 || size > want:
		return 0, false, lied("asked for %d bytes from %d, got %q", length, offset, o.Range)
	case o.Length >= 0 && o.Length < size:
		return 0, false, cut("Content-Range %q, but a body of %d bytes", o.Range, o.Length)
	case o.Length > size:
		return 0, false, lied("Content-Range %q, but a body of %d bytes", o.Range, o.Length)
	case size < want && last == total-1:
		// Not for another try: the object ends there.
		return 0, false, fmt.Errorf("%d bytes from %d of an object of %d: %w", length, offset, total, io.ErrUnexpectedEOF)
	case size < want:
		return 0, false, cut("asked for %d bytes from %d, got %q", length, offset, o.Range)
	}
	return size, size == total, nil
}

func announcedWhole(o Object, offset, length int64) (int64, bool, error) {
	switch {
	case o.Length < 0:
		return 0, false, lied("the answer does not say how long it is")
	case length < 0 && offset == 0, offset == 0 && length == o.Length:
		return o.Length, true, nil
	case offset > o.Length || length > o.Length-offset:
		return 0, false, fmt.Errorf("%d bytes from %d of an object of %d: %w", length, offset, o.Length, io.ErrUnexpectedEOF)
	}
	return 0, false, lied("asked for %d bytes from %d, got the whole object: the server ignores ranges", length, offset)
}

// firstBuffer bounds what is allocated on the word of a header.
const firstBuffer = 64 << 20

// readExactly reads a body that must have size bytes.
func readExactly(body io.Reader, size int64) ([]byte, error) {
	// MinRead more than fits, or the buffer would grow to find the end.
	buf := bytes.NewBuffer(make([]byte, 0, min(size, firstBuffer)+bytes.MinRead))
	n, err := buf.ReadFrom(io.LimitReader(body, size+1))
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &RequestError{Err: err}
	case n < size:
		return nil, cut("the body ended after %d of %d bytes", n, size)
	case n > size:
		return nil, lied("the body has more than the %d bytes announced", size)
	case err != nil:
		return nil, &RequestError{Err: err}
	}
	return buf.Bytes(), nil
}

// Stat describes an object.
func (b *Bucket) Stat(ctx context.Context, name string) (cold.ObjectInfo, error) {
	key, err := b.check(ctx, name)
	if err != nil {
		return cold.ObjectInfo{}, err
	}
	h, err := request(ctx, b, func(ctx context.Context) (Head, error) { return b.client.Head(ctx, key) })
	if isAbsent(err) {
		err = b.notThere(ctx, err)
	}
	if err != nil {
		return cold.ObjectInfo{}, outside(err)
	}
	return cold.ObjectInfo{Name: name, Size: h.Size, ModTime: h.ModTime.UTC()}, nil
}

// notThere tells a missing object from a missing bucket, and from a server that
// is no S3 at all: a 404 to the object is the same. ErrNotExist is said only
// while the bucket is there.
func (b *Bucket) notThere(ctx context.Context, err error) error {
	var f *RequestError
	if errors.As(err, &f) && f.Code == "NoSuchBucket" {
		return b.missing(err)
	}
	if err := b.bucketThere(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", cold.ErrNotExist, err)
}
