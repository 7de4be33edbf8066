// Package s3 is the cold tier in S3-compatible storage, through aws-sdk-go-v2.
// Package minio does the same through minio-go; both keep the same promises,
// because what is above a single request is one code for both.
//
// A bucket is named by a URL:
//
//	s3://BUCKET/PREFIX?endpoint=http://127.0.0.1:9000&path_style=true&region=us-east-1&profile=backup
//
// Credentials and region come from where the AWS command line finds them: the
// environment, the shared files, a profile, a role. A custom endpoint switches
// off the metadata service of EC2. AWS_CA_BUNDLE names certificates to trust.
package s3

import (
	"context"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/internal/s3bucket"
)

// Options shapes a Bucket. The zero value is good.
type Options struct {
	// EnsureBucket makes the bucket when it does not exist.
	EnsureBucket bool
	// AllowOverwrite accepts a server that ignores If-None-Match, which Open
	// refuses otherwise. Create then looks before it writes, and of two
	// writers of one name both may succeed: a late upload can land on a name
	// that was occupied by an erasure.
	AllowOverwrite bool
	// Connections bounds the connections to the server; 0 is 64.
	Connections int
	// Tries is how often a request is made before its error is returned; 0 is
	// 5, 1 is no retry.
	Tries int
	// Wait is the time before the second try; it doubles up to 5 s. 0 is 100
	// ms.
	Wait time.Duration
	// Timeout bounds one try, with its body; 0 is 2 minutes. The context of a
	// call bounds all of it.
	Timeout time.Duration
}

// Bucket is a cold.Bucket over aws-sdk-go-v2. Its methods are safe for
// concurrent use. An object has at most 5 GiB and is written by one PUT, never
// in parts.
type Bucket struct{ *s3bucket.Bucket }

var _ cold.Bucket = (*Bucket)(nil)

// Open opens the bucket that url names; o may be nil. A URL that cannot be
// read, missing credentials, a missing bucket and a server without conditional
// writes (unsupported) are errors. A server that cannot be reached is not: what
// Open could not check the first write does, and Ping tells.
func Open(ctx context.Context, url string, o *Options) (*Bucket, error) {
	b, err := s3bucket.Open(ctx, url, (*s3bucket.Options)(o), dial)
	if err != nil {
		return nil, err
	}
	return &Bucket{b}, nil
}
