package torture

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// segmentsFolder is where a bucket has its segments.
const segmentsFolder = "seg"

// world is a store, and the daemon that is killed over it.
type world struct {
	daemon *daemontest.Daemon
	// orders lists the erase orders in the primary bucket.
	orders func(context.Context) ([]string, error)
	// lapse ends what a dead daemon holds. Without it each life would wait the 30 s of
	// its predecessor's leases, most of them for nothing: that a live one keeps them, and
	// that nobody commits under an old token, is what the races of leases show.
	lapse func()
	// bereave takes all segments out of the primary bucket.
	bereave func(context.Context) error
}

func embeddedWorld(t *testing.T, binary string, env ...string) world {
	d := daemontest.New(t, binary, &daemontest.Options{Env: env})
	return world{
		daemon: d,
		lapse:  func() {},
		orders: func(context.Context) ([]string, error) {
			entries, err := os.ReadDir(filepath.Join(d.Data(), "cold", lifecycle.OrdersPrefix))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names, err
		},
		bereave: func(context.Context) error {
			segments := filepath.Join(d.Data(), "cold", segmentsFolder)
			entries, err := os.ReadDir(segments)
			for _, e := range entries {
				err = errors.Join(err, os.Remove(filepath.Join(segments, e.Name())))
			}
			return err
		},
	}
}

func realWorld(t *testing.T, binary string) world {
	schema, _ := servicestest.Schema(t)
	bucket := servicestest.Bucket(t, servicestest.Variable(t, "TIERD_COLD"), false)
	backup := servicestest.Bucket(t, servicestest.Variable(t, "TIERD_BACKUP"), false)
	place, err := s3url.Parse(bucket)
	if err != nil {
		t.Fatal(err)
	}
	objects := servicestest.Objects(t, place)
	return world{
		daemon: daemontest.New(t, binary, &daemontest.Options{Env: []string{
			"TIERD_HOT=" + servicestest.Variable(t, "TIERD_HOT"), "TIERD_WARM=" + schema, "TIERD_COLD=" + bucket, "TIERD_BACKUP=" + backup}}),
		orders: func(ctx context.Context) (names []string, err error) {
			for o := range objects.ListObjects(ctx, place.Bucket, minio.ListObjectsOptions{Prefix: lifecycle.OrdersPrefix, Recursive: true}) {
				names, err = append(names, strings.TrimPrefix(o.Key, lifecycle.OrdersPrefix)), errors.Join(err, o.Err)
			}
			return names, err
		},
		// The two others are no worker's: they say which tiers belong to the store.
		lapse: func() {
			servicestest.SQL(t, schema, `UPDATE lease SET expires = 0 WHERE name NOT IN ('daemons', 'buckets')`)
		},
		bereave: func(ctx context.Context) (err error) {
			for o := range objects.ListObjects(ctx, place.Bucket, minio.ListObjectsOptions{Prefix: segmentsFolder + "/", Recursive: true}) {
				err = errors.Join(err, o.Err, objects.RemoveObject(ctx, place.Bucket, o.Key, minio.RemoveObjectOptions{}))
			}
			return err
		},
	}
}
