package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// MaxObject is the most that one PUT takes. Objects are never uploaded in
// parts, so no unfinished upload can stay behind.
const MaxObject = 5 << 30

// Create writes the object in one PUT with If-None-Match: *, then asks what lies
// there.
//
// A try whose answer is lost may have stored the object, and the next then
// finds the name taken, by itself. Each Create therefore leaves a random mark
// beside its object; ErrExist is said only when the name was taken by another.
func (b *Bucket) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	key, err := b.check(ctx, name)
	if err != nil {
		return err
	}
	if size < 0 {
		return tiering.Invalidf("size %d is negative", size)
	}
	if size > MaxObject {
		return tiering.Errorf(tiering.CodeTooLarge, "the object has %d bytes: one PUT takes %d (5 GiB)", size, int64(MaxObject))
	}
	if err := b.prepared(ctx); err != nil {
		return outside(err)
	}
	s, err := newSource(ctx, body, size)
	if err != nil {
		return err
	}
	w := writing{Bucket: b, key: key, source: s}
	return outside(b.retry(ctx, w.try))
}

// writing is a Create on its way.
type writing struct {
	*Bucket
	key    string
	source *source
	unsure bool // an earlier try may have stored the object
}

func (w *writing) try(ctx context.Context) error {
	if w.options.AllowOverwrite && !w.unsure {
		// The server would overwrite: look first, for what that is worth.
		if _, err := w.client.Head(ctx, w.key); !isAbsent(err) {
			if err == nil {
				return cold.ErrExist
			}
			return err
		}
	}
	up, done := w.source.upload(true)
	_, err := w.client.Put(ctx, w.key, up)
	done()
	if broken := w.source.failed(); broken != nil {
		return broken
	}
	var f *RequestError
	switch {
	case err == nil:
		return w.stored(ctx)
	case !errors.As(err, &f):
		return err
	case f.taken() && !w.unsure:
		return cold.ErrExist
	case f.taken():
		return w.whose(ctx)
	}
	w.unsure = w.unsure || f.unsure()
	return err
}

// stored checks a success: some servers answer 200 and store nothing, or not
// all.
func (w *writing) stored(ctx context.Context) error {
	w.unsure = true
	h, err := w.client.Head(ctx, w.key)
	switch {
	case isAbsent(err):
		return lied("the server said that the object was stored, and it is not there")
	case err != nil:
		return err
	case h.Write != "" && h.Write != w.source.write:
		return errors.New("the object was overwritten by another at once: the server does not honour If-None-Match")
	}
	return w.whole(h)
}

// whose answers a try that found the name taken, after one that may have taken
// it.
func (w *writing) whose(ctx context.Context) error {
	h, err := w.client.Head(ctx, w.key)
	switch {
	case isAbsent(err):
		return lied("the server said that the name is taken, and nothing is there")
	case err != nil:
		return err
	case h.Write == w.source.write:
		return w.whole(h)
	case h.Write != "":
		return cold.ErrExist
	}
	return errors.New("the answer to the write was lost, an object is there, and it does not say who wrote it")
}

func (w *writing) whole(h Head) error {
	if h.Size != w.source.size {
		return fmt.Errorf("the server stored %d bytes of %d", h.Size, w.source.size)
	}
	return nil
}

func isAbsent(err error) bool {
	var f *RequestError
	return errors.As(err, &f) && f.absent()
}
