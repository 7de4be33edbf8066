package minio

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tierd/tierd/cold/internal/s3bucket"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/tiering"
)

// dial makes a client. No request goes to S3 yet, but credentials are looked
// for, so that their absence is found now.
func dial(ctx context.Context, place s3url.Place, o s3bucket.Options) (s3bucket.Client, error) {
	region := cmp.Or(place.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	endpoint, err := url.Parse(cmp.Or(place.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3."+region+".amazonaws.com"))
	if err != nil {
		return nil, tiering.Invalidf("AWS_ENDPOINT_URL is no URL")
	}
	transport, err := s3bucket.NewTransport(o.Connections)
	if err != nil {
		return nil, err
	}
	creds := sources(place)
	value, err := creds.GetWithContext(&credentials.CredContext{Client: &http.Client{Transport: transport}, Context: ctx})
	if err != nil || value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return nil, s3bucket.NoCredentials(err)
	}
	api, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        creds,
		Secure:       endpoint.Scheme == "https",
		Transport:    transport,
		Region:       region, // known, so that no request asks for it
		BucketLookup: lookup(place),
		MaxRetries:   1, // what may be tried again is decided above
	})
	if err != nil {
		return nil, tiering.Invalidf("s3: the endpoint is not one that minio-go takes: %v", err)
	}
	return &client{api: api, bucket: place.Bucket, region: region, pool: transport}, nil
}

func lookup(place s3url.Place) minio.BucketLookupType {
	switch {
	case place.PathStyle:
		return minio.BucketLookupPath
	case place.Endpoint != "":
		return minio.BucketLookupDNS
	}
	return minio.BucketLookupAuto
}

// sources is where credentials are looked for. A profile that was asked for is
// the only one.
func sources(place s3url.Place) *credentials.Credentials {
	if place.Profile != "" {
		return credentials.NewFileAWSCredentials("", place.Profile)
	}
	chain := []credentials.Provider{&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}}
	if place.Endpoint == "" || roleGiven() {
		chain = append(chain, &credentials.IAM{})
	}
	return credentials.NewChainCredentials(chain)
}

// roleGiven reports whether the environment hands out a role; without one, and
// away from AWS, the metadata service of EC2 is not asked.
func roleGiven() bool {
	for _, name := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}
