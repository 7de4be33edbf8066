package minio_test

import (
	"context"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/cold/minio"
	"github.com/tierd/tierd/cold/s3test"
)

func open(ctx context.Context, url string, s s3test.Settings) (cold.Bucket, error) {
	o := minio.Options(s)
	return minio.Open(ctx, url, &o)
}

func TestBucket(t *testing.T) {
	coldtest.Run(t, coldtest.Harness{New: s3test.Harness(s3test.Server(t), open)})
}

// TestOtherServer: the same on an S3 server of another make.
func TestOtherServer(t *testing.T) {
	coldtest.Run(t, coldtest.Harness{New: s3test.Harness(s3test.OtherServer(t), open)})
}

func TestVersions(t *testing.T) {
	s3test.Versions(t, s3test.Server(t), open, s3test.Peculiar{})
}

func TestVersionsOfOtherServer(t *testing.T) {
	s3test.Versions(t, s3test.OtherServer(t), open, s3test.Peculiar{HiddenIsTaken: true})
}

// TestFaults needs no server.
func TestFaults(t *testing.T) {
	s3test.Faults(t, open)
}

func BenchmarkBucket(b *testing.B) {
	s3test.Benchmarks(b, open)
}
