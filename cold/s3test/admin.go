package s3test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/tierd/tierd/internal/s3url"
)

// admin is a plain client, for what a test does behind the driver's back.
func admin(t testing.TB, p s3url.Place) *s3.Client {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(context.Background(), config.WithRegion("us-east-1"), config.WithSharedConfigProfile(p.Profile))
	if err != nil {
		t.Fatal(err)
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String(p.Endpoint), p.PathStyle
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
}

// versionOf is one version, or delete marker, that a bucket holds.
type versionOf struct{ Key, Version string }

// everything returns the versions and delete markers under the prefix of p, at
// most a page of each.
func everything(t testing.TB, api *s3.Client, p s3url.Place) []versionOf {
	t.Helper()
	out, err := api.ListObjectVersions(context.Background(), &s3.ListObjectVersionsInput{Bucket: &p.Bucket, Prefix: &p.Prefix})
	if err != nil {
		t.Fatalf("list versions: %v", err)
	}
	var all []versionOf
	for _, v := range out.Versions {
		all = append(all, versionOf{*v.Key, aws.ToString(v.VersionId)})
	}
	for _, m := range out.DeleteMarkers {
		all = append(all, versionOf{*m.Key, aws.ToString(m.VersionId)})
	}
	return all
}

// empty deletes what is under the prefix of p.
func empty(t testing.TB, p s3url.Place) {
	t.Helper()
	api := admin(t, p)
	for range 100 {
		all := everything(t, api, p)
		if len(all) == 0 {
			return
		}
		doomed := make([]types.ObjectIdentifier, min(len(all), 1000))
		for i := range doomed {
			doomed[i] = types.ObjectIdentifier{Key: &all[i].Key, VersionId: &all[i].Version}
		}
		if _, err := api.DeleteObjects(context.Background(), &s3.DeleteObjectsInput{Bucket: &p.Bucket, Delete: &types.Delete{Objects: doomed}}); err != nil {
			t.Fatalf("clean up: %v", err)
		}
	}
	t.Errorf("clean up: %s does not get empty", p.Prefix)
}

// versionedBucket makes a bucket that keeps versions beside that of p, and
// removes it when the test ends.
func versionedBucket(t *testing.T, p s3url.Place) s3url.Place {
	t.Helper()
	p.Bucket, p.Prefix = "tierd-versions-"+strings.ToLower(rand.Text()[:12]), ""
	api := admin(t, p)
	if _, err := api.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &p.Bucket}); err != nil {
		t.Fatalf("make a bucket: %v", err)
	}
	t.Cleanup(func() {
		empty(t, p)
		if _, err := api.DeleteBucket(context.Background(), &s3.DeleteBucketInput{Bucket: &p.Bucket}); err != nil {
			t.Errorf("remove the bucket: %v", err)
		}
	})
	_, err := api.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket:                  &p.Bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	var refusal smithy.APIError
	if errors.As(err, &refusal) && (refusal.ErrorCode() == "NotImplemented" || refusal.ErrorCode() == "VersioningNotConfigured") {
		t.Skipf("the server keeps no versions: %v", err)
	}
	if err != nil {
		t.Fatalf("switch versioning on: %v", err)
	}
	return p
}
