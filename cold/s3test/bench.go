package s3test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tierd/tierd/cold"
)

// Benchmarks measures a driver on a real server: a segment's Create, alone and
// by four, and ranged reads of a block, alone and by sixteen.
func Benchmarks(b *testing.B, open Opener) {
	p := Within(Server(b))
	bucket, err := open(b.Context(), p.String(), Settings{EnsureBucket: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		empty(b, p)
		if err := bucket.Close(); err != nil {
			b.Error(err)
		}
	})
	segment := make([]byte, 8<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(segment) // never fails
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprintf("call=create/size=8MiB/writers=%d", writers), func(b *testing.B) {
			// The name says which run it is, because one is measured several times.
			run := source.Uint64()
			b.SetBytes(int64(len(segment)))
			each(b, writers, func(ctx context.Context, i int) error {
				return bucket.Create(ctx, fmt.Sprintf("create/%x-%d-%d", run, writers, i), bytes.NewReader(segment), int64(len(segment)))
			})
		})
	}
	const block = 64 << 10
	if err := bucket.Create(b.Context(), "read/segment", bytes.NewReader(segment), int64(len(segment))); err != nil {
		b.Fatal(err)
	}
	for _, readers := range []int{1, 16} {
		b.Run(fmt.Sprintf("call=read/size=64KiB/readers=%d", readers), func(b *testing.B) {
			b.SetBytes(block)
			each(b, readers, func(ctx context.Context, i int) error { return readBlock(ctx, bucket, i, block, len(segment)) })
		})
	}
}

func readBlock(ctx context.Context, bucket cold.Bucket, i, block, size int) error {
	_, err := bucket.Read(ctx, "read/segment", int64(i*block%(size-block)), int64(block))
	return err
}

// each does something b.N times, so many at once.
func each(b *testing.B, workers int, do func(ctx context.Context, i int) error) {
	b.ReportAllocs()
	jobs := make(chan int)
	done := make(chan error, workers)
	for range workers {
		go func() {
			var failed error
			for i := range jobs {
				if err := do(b.Context(), i); err != nil && failed == nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	b.ResetTimer()
	for i := range b.N {
		jobs <- i
	}
	close(jobs)
	for range workers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
