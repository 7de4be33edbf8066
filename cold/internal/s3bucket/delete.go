package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Delete removes all versions of an object and all its delete markers, page by
// page, until the server lists none and has no object. Where a server knows no
// versions, one plain delete does.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	key, err := b.check(ctx, name)
	if err != nil {
		return err
	}
	d := deletion{Bucket: b, key: key, deleted: map[string]bool{}}
	for {
		gone := false
		// A round that brings nothing new is a listing that lags behind: the
		// next waits, and there are not many of them.
		err := b.retry(ctx, func(ctx context.Context) (err error) {
			gone, err = d.round(ctx)
			return err
		})
		if err != nil {
			return outside(err)
		}
		if gone {
			return nil
		}
	}
}

// deletion is a Delete on its way.
type deletion struct {
	*Bucket
	key     string
	deleted map[string]bool // versions that were
}

// round deletes a page of versions. gone means that there is nothing left.
func (d *deletion) round(ctx context.Context) (gone bool, err error) {
	versions, err := d.client.Versions(ctx, d.key)
	var f *RequestError
	switch {
	case errors.As(err, &f) && f.unlisted():
		versions = []string{""}
		if d.deleted[""] {
			versions = nil
		}
	case isAbsent(err):
		return false, d.missing(err)
	case err != nil:
		return false, err
	}
	if len(versions) == 0 {
		return d.absent(ctx)
	}
	news := false
	for _, v := range versions {
		news = news || !d.deleted[v]
	}
	if err := d.client.Delete(ctx, d.key, versions); err != nil && !isAbsent(err) {
		return false, err
	}
	for _, v := range versions {
		d.deleted[v] = true
	}
	if !news {
		return false, &RequestError{Status: http.StatusServiceUnavailable, Message: "versions that were deleted are still listed"}
	}
	return false, nil
}

// absent confirms what an empty listing says.
func (d *deletion) absent(ctx context.Context) (bool, error) {
	_, err := d.client.Head(ctx, d.key)
	switch {
	case isAbsent(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("after the delete: %w", err)
	}
	return false, &RequestError{Status: http.StatusServiceUnavailable, Message: "the object is there, and none of its versions is listed"}
}
