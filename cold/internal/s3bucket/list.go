package s3bucket

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/tierd/tierd/cold"
)

// List asks for a page at a time, each by the last name of the one before, so
// that a page that failed is asked for again alone. Objects that are not
// tierd's are passed over. A server that lists out of order is an error.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[cold.ObjectInfo, error] {
	return func(yield func(cold.ObjectInfo, error) bool) {
		if err := b.open(ctx); err != nil {
			yield(cold.ObjectInfo{}, err)
			return
		}
		if !startsName(prefix) {
			return
		}
		after := ""
		for more := true; more; {
			var page []Entry
			err := b.retry(ctx, func(ctx context.Context) (err error) {
				page, more, err = b.client.List(ctx, b.root+asked(prefix), after)
				return err
			})
			if isAbsent(err) {
				err = b.missing(err)
			}
			if err != nil {
				yield(cold.ObjectInfo{}, outside(err))
				return
			}
			more = more && len(page) > 0
			for _, e := range page {
				if e.Key <= after || !strings.HasPrefix(e.Key, b.root) {
					yield(cold.ObjectInfo{}, fmt.Errorf("the server lists %q behind %q", e.Key, after))
					return
				}
				after = e.Key
				name := e.Key[len(b.root):]
				if !strings.HasPrefix(name, prefix) || cold.CheckName(name) != nil {
					continue
				}
				if !yield(cold.ObjectInfo{Name: name, Size: e.Size, ModTime: e.ModTime.UTC()}, nil) {
					return
				}
			}
		}
	}
}

// startsName reports whether any name can start with prefix.
func startsName(prefix string) bool {
	return prefix == "" || cold.CheckName(prefix) == nil || cold.CheckName(prefix+"x") == nil
}

// asked is what the server is asked for: some refuse a prefix that ends in a
// dot segment.
func asked(prefix string) string {
	if i := strings.LastIndexByte(prefix, '/') + 1; strings.Trim(prefix[i:], ".") == "" {
		return prefix[:i]
	}
	return prefix
}
