package cold

import (
	"context"
	"io"
	"iter"
	"strings"
)

// Prefixed is the part of b whose names start with prefix and a slash; names
// are given and listed without it. Closing it closes b. An empty prefix is b.
func Prefixed(b Bucket, prefix string) Bucket {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return b
	}
	return prefixed{b, prefix + "/"}
}

type prefixed struct {
	Bucket
	prefix string
}

func (p prefixed) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return p.Bucket.Create(ctx, p.prefix+name, body, size)
}

func (p prefixed) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return p.Bucket.Read(ctx, p.prefix+name, offset, length)
}

func (p prefixed) Stat(ctx context.Context, name string) (ObjectInfo, error) {
	if err := CheckName(name); err != nil {
		return ObjectInfo{}, err
	}
	info, err := p.Bucket.Stat(ctx, p.prefix+name)
	info.Name = name
	return info, err
}

func (p prefixed) List(ctx context.Context, prefix string) iter.Seq2[ObjectInfo, error] {
	return func(yield func(ObjectInfo, error) bool) {
		for info, err := range p.Bucket.List(ctx, p.prefix+prefix) {
			info.Name = strings.TrimPrefix(info.Name, p.prefix)
			if !yield(info, err) {
				return
			}
		}
	}
}

func (p prefixed) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return p.Bucket.Delete(ctx, p.prefix+name)
}
