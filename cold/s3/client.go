package s3

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tierd/tierd/cold/internal/s3bucket"
)

// client is an s3bucket.Client over the SDK.
type client struct {
	api    *s3.Client
	bucket string
	pool   *s3bucket.Transport
}

var _ s3bucket.Client = (*client)(nil)

func (c *client) HeadBucket(ctx context.Context) error {
	_, err := c.api.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &c.bucket})
	return fault(err)
}

func (c *client) CreateBucket(ctx context.Context) error {
	in := &s3.CreateBucketInput{Bucket: &c.bucket}
	if region := c.api.Options().Region; region != defaultRegion {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err := c.api.CreateBucket(ctx, in)
	return fault(err)
}

func (c *client) Put(ctx context.Context, key string, up s3bucket.Upload) (string, error) {
	sum := hex.EncodeToString(up.SHA256[:])
	in := &s3.PutObjectInput{
		Bucket:         &c.bucket,
		Key:            &key,
		Body:           up.Body,
		ContentLength:  &up.Size,
		ContentType:    aws.String("application/octet-stream"),
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(up.SHA256[:])),
		Metadata:       map[string]string{s3bucket.MetaWrite: up.Write, s3bucket.MetaSHA256: sum},
	}
	if up.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	out, err := c.api.PutObject(ctx, in, signing(sum))
	if err != nil {
		return "", fault(err)
	}
	return aws.ToString(out.VersionId), nil
}

// signing puts the known digest of the body under the signature: the SDK would
// compute it again, or leave it out over TLS.
func signing(sum string) func(*s3.Options) {
	set := middleware.InitializeMiddlewareFunc("TierdPayloadHash", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		return next.HandleInitialize(v4.SetPayloadHash(ctx, sum), in)
	})
	return func(o *s3.Options) {
		o.APIOptions = append(slices.Clip(o.APIOptions), func(stack *middleware.Stack) error {
			return stack.Initialize.Add(set, middleware.Before)
		})
	}
}

func (c *client) Get(ctx context.Context, key, bytes string) (s3bucket.Object, error) {
	in := &s3.GetObjectInput{Bucket: &c.bucket, Key: &key}
	if bytes != "" {
		in.Range = &bytes
	}
	out, err := c.api.GetObject(ctx, in)
	if err != nil {
		return s3bucket.Object{}, fault(err)
	}
	length := int64(-1)
	if out.ContentLength != nil {
		length = *out.ContentLength
	}
	return s3bucket.Object{
		Body:   out.Body,
		Length: length,
		Range:  aws.ToString(out.ContentRange),
		SHA256: out.Metadata[s3bucket.MetaSHA256],
	}, nil
}

func (c *client) Head(ctx context.Context, key string) (s3bucket.Head, error) {
	out, err := c.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &c.bucket, Key: &key})
	if err != nil {
		return s3bucket.Head{}, fault(err)
	}
	return s3bucket.Head{
		Size:    aws.ToInt64(out.ContentLength),
		ModTime: aws.ToTime(out.LastModified),
		Write:   out.Metadata[s3bucket.MetaWrite],
	}, nil
}

func (c *client) List(ctx context.Context, prefix, after string) ([]s3bucket.Entry, bool, error) {
	in := &s3.ListObjectsV2Input{Bucket: &c.bucket, Prefix: &prefix}
	if after != "" {
		in.StartAfter = &after
	}
	out, err := c.api.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, false, fault(err)
	}
	page := make([]s3bucket.Entry, len(out.Contents))
	for i, o := range out.Contents {
		page[i] = s3bucket.Entry{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified)}
	}
	return page, aws.ToBool(out.IsTruncated), nil
}

func (c *client) Versions(ctx context.Context, key string) ([]string, error) {
	out, err := c.api.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &c.bucket, Prefix: &key})
	if err != nil {
		return nil, fault(err)
	}
	// The key itself sorts before all others with this prefix.
	var ids []string
	for _, v := range out.Versions {
		if aws.ToString(v.Key) == key {
			ids = append(ids, aws.ToString(v.VersionId))
		}
	}
	for _, m := range out.DeleteMarkers {
		if aws.ToString(m.Key) == key {
			ids = append(ids, aws.ToString(m.VersionId))
		}
	}
	return ids, nil
}

func (c *client) Delete(ctx context.Context, key string, versions []string) error {
	if len(versions) == 1 {
		in := &s3.DeleteObjectInput{Bucket: &c.bucket, Key: &key}
		if versions[0] != "" {
			in.VersionId = &versions[0]
		}
		_, err := c.api.DeleteObject(ctx, in)
		return fault(err)
	}
	all := make([]types.ObjectIdentifier, len(versions))
	for i := range versions {
		all[i] = types.ObjectIdentifier{Key: &key, VersionId: &versions[i]}
	}
	out, err := c.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &c.bucket, Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}})
	if err != nil {
		return fault(err)
	}
	for _, e := range out.Errors {
		if code := aws.ToString(e.Code); code != "NoSuchVersion" && code != "NoSuchKey" {
			return &s3bucket.RequestError{Code: code, Message: aws.ToString(e.Message)}
		}
	}
	return nil
}

func (c *client) Close() { c.pool.CloseIdleConnections() }

// fault reads an error of the SDK.
func fault(err error) error {
	if err == nil {
		return nil
	}
	f := &s3bucket.RequestError{Err: err}
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		f.Status = answer.HTTPStatusCode()
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		f.Code, f.Message = api.ErrorCode(), api.ErrorMessage()
	}
	return f
}
