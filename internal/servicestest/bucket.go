package servicestest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tierd/tierd/internal/s3url"
)

// Bucket makes a bucket on the server of an S3 URL, such as TIERD_COLD, and returns
// the URL of it. It goes when the test ends, with what it holds. versioned: it keeps
// versions of its objects.
func Bucket(t testing.TB, server string, versioned bool) string {
	t.Helper()
	p, err := s3url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p.Bucket, p.Prefix = "tierd-test-"+strings.ToLower(rand.Text()[:12]), ""
	api := Objects(t, p)
	if err := api.MakeBucket(t.Context(), p.Bucket, minio.MakeBucketOptions{Region: p.Region}); err != nil {
		t.Fatalf("make a bucket: %v", err)
	}
	t.Cleanup(func() {
		if err := api.RemoveBucketWithOptions(context.Background(), p.Bucket, minio.RemoveBucketOptions{ForceDelete: true}); err != nil {
			t.Errorf("remove the bucket: %v", err)
		}
	})
	if versioned {
		if err := api.EnableVersioning(t.Context(), p.Bucket); err != nil {
			t.Fatalf("switch versioning on: %v", err)
		}
	}
	return p.String()
}

// Objects is a plain client of a bucket's server, for what a test does behind
// tierd's back.
func Objects(t testing.TB, p s3url.Place) *minio.Client {
	t.Helper()
	u, err := url.Parse(p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	api, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewEnvAWS(), Secure: u.Scheme == "https", Region: p.Region, BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}
