package dir_test

import (
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/cold/dir"
)

func TestBucket(t *testing.T) {
	coldtest.Run(t, coldtest.Harness{New: func(t *testing.T) func() (cold.Bucket, error) {
		path := t.TempDir()
		return func() (cold.Bucket, error) { return dir.Open(path, nil) }
	}})
}
