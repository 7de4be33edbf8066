package telemetry

import (
	"context"
	"io"
	"iter"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// bucket measures a cold.Bucket.
type bucket struct {
	cold.Bucket
	create, read, stat, list, del, ping *op
	written, fetched                    prometheus.Counter
}

// Bucket returns b, measured as one of the two copies. Unwrap() on the result
// gives b back.
func (t *Telemetry) Bucket(b cold.Bucket, c tiering.Copy) cold.Bucket {
	o := func(name string) *op { return t.op(tiering.Cold, c.String(), name) }
	return &bucket{
		Bucket: b,
		create: o("create"), read: o("read"), stat: o("stat"), list: o("list"), del: o("delete"), ping: o("ping"),
		written: t.m.coldBytes.WithLabelValues(c.String(), "write"),
		fetched: t.m.coldBytes.WithLabelValues(c.String(), "read"),
	}
}

// Unwrap returns the bucket within.
func (b *bucket) Unwrap() cold.Bucket { return b.Bucket }

func (b *bucket) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	ctx, c := b.create.begin(ctx)
	err := b.Bucket.Create(ctx, name, body, size)
	if err == nil {
		b.written.Add(float64(size))
	}
	c.end(err, attribute.String("tierd.object", name), attribute.Int64("tierd.bytes", size))
	return err
}

func (b *bucket) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	ctx, c := b.read.begin(ctx)
	data, err := b.Bucket.Read(ctx, name, offset, length)
	b.fetched.Add(float64(len(data)))
	c.end(err, attribute.String("tierd.object", name), attribute.Int("tierd.bytes", len(data)))
	return data, err
}

func (b *bucket) Stat(ctx context.Context, name string) (cold.ObjectInfo, error) {
	ctx, c := b.stat.begin(ctx)
	info, err := b.Bucket.Stat(ctx, name)
	c.end(err, attribute.String("tierd.object", name))
	return info, err
}

// List counts from the first object to the last, the caller's own work
// included.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[cold.ObjectInfo, error] {
	return func(yield func(cold.ObjectInfo, error) bool) {
		ctx, c := b.list.begin(ctx)
		objects := 0
		var failed error
		defer func() { c.end(failed, attribute.Int("tierd.objects", objects)) }()
		for info, err := range b.Bucket.List(ctx, prefix) {
			if err != nil {
				failed = err
			} else {
				objects++
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (b *bucket) Delete(ctx context.Context, name string) error {
	ctx, c := b.del.begin(ctx)
	err := b.Bucket.Delete(ctx, name)
	c.end(err, attribute.String("tierd.object", name))
	return err
}

func (b *bucket) Ping(ctx context.Context) error {
	ctx, c := b.ping.begin(ctx)
	err := b.Bucket.Ping(ctx)
	c.end(err)
	return err
}
