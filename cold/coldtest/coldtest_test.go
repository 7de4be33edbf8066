package coldtest_test

import (
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
)

func TestMemory(t *testing.T) {
	coldtest.Run(t, coldtest.Harness{New: func(*testing.T) func() (cold.Bucket, error) {
		m := &coldtest.Memory{}
		return func() (cold.Bucket, error) {
			m.Reopen()
			return m, nil
		}
	}})
}

// TestFaultBucketWithoutFaults: the wrapper changes nothing by itself.
func TestFaultBucketWithoutFaults(t *testing.T) {
	coldtest.Run(t, coldtest.Harness{New: func(*testing.T) func() (cold.Bucket, error) {
		m := &coldtest.Memory{}
		return func() (cold.Bucket, error) {
			m.Reopen()
			return coldtest.NewFaultBucket(m), nil
		}
	}})
}
