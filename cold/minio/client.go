package minio

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/tierd/tierd/cold/internal/s3bucket"
)

// client is an s3bucket.Client over minio-go.
type client struct {
	api    *minio.Core
	bucket string
	region string
	pool   *s3bucket.Transport
}

var _ s3bucket.Client = (*client)(nil)

// pageSize is the most that S3 lists in one request.
const pageSize = 1000

func (c *client) HeadBucket(ctx context.Context) error {
	there, err := c.api.BucketExists(ctx, c.bucket)
	if err == nil && !there {
		err = minio.ErrorResponse{StatusCode: http.StatusNotFound, Code: minio.NoSuchBucket, Message: "the bucket is not there"}
	}
	return fault(err)
}

func (c *client) CreateBucket(ctx context.Context) error {
	return fault(c.api.MakeBucket(ctx, c.bucket, minio.MakeBucketOptions{Region: c.region}))
}

func (c *client) Put(ctx context.Context, key string, up s3bucket.Upload) (string, error) {
	sum := hex.EncodeToString(up.SHA256[:])
	o := minio.PutObjectOptions{
		ContentType: "application/octet-stream",
		UserMetadata: map[string]string{
			"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(up.SHA256[:]),
			s3bucket.MetaWrite:      up.Write,
			s3bucket.MetaSHA256:     sum,
		},
		DisableContentSha256: true, // no chunked signature: the whole body's digest is signed
	}
	if up.IfAbsent {
		o.SetMatchETagExcept("*")
	}
	info, err := c.api.PutObject(ctx, c.bucket, key, up.Body, up.Size, "", sum, o)
	return info.VersionID, fault(err)
}

func (c *client) Get(ctx context.Context, key, bytes string) (s3bucket.Object, error) {
	var o minio.GetObjectOptions
	if bytes != "" {
		o.Set("Range", bytes)
	}
	body, _, header, err := c.api.GetObject(ctx, c.bucket, key, o)
	if err != nil {
		return s3bucket.Object{}, fault(err)
	}
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	return s3bucket.Object{
		Body:   body,
		Length: length,
		Range:  header.Get("Content-Range"),
		SHA256: header.Get("X-Amz-Meta-" + s3bucket.MetaSHA256),
	}, nil
}

func (c *client) Head(ctx context.Context, key string) (s3bucket.Head, error) {
	info, err := c.api.StatObject(ctx, c.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return s3bucket.Head{}, fault(err)
	}
	return s3bucket.Head{
		Size:    info.Size,
		ModTime: info.LastModified,
		Write:   info.Metadata.Get("X-Amz-Meta-" + s3bucket.MetaWrite),
	}, nil
}

func (c *client) List(ctx context.Context, prefix, after string) ([]s3bucket.Entry, bool, error) {
	owner := false
	objects, err := page(ctx, c.api.ListObjectsIter(ctx, c.bucket, minio.ListObjectsOptions{
		Prefix: prefix, StartAfter: after, Recursive: true, MaxKeys: pageSize, FetchOwner: &owner,
	}), func(minio.ObjectInfo) bool { return true })
	if err != nil {
		return nil, false, err
	}
	out := make([]s3bucket.Entry, len(objects))
	for i, o := range objects {
		out[i] = s3bucket.Entry{Key: o.Key, Size: o.Size, ModTime: o.LastModified}
	}
	return out, len(out) == pageSize, nil
}

func (c *client) Versions(ctx context.Context, key string) ([]string, error) {
	// The key itself sorts before all others with this prefix.
	versions, err := page(ctx, c.api.ListObjectsIter(ctx, c.bucket, minio.ListObjectsOptions{
		Prefix: key, Recursive: true, WithVersions: true, MaxKeys: pageSize,
	}), func(o minio.ObjectInfo) bool { return o.Key == key })
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.VersionID
	}
	return ids, nil
}

// page takes at most a page from a listing, and stops at the first object that
// is not wanted. minio-go ends a listing whose context ended without an error.
func page(ctx context.Context, all iter.Seq[minio.ObjectInfo], wanted func(minio.ObjectInfo) bool) ([]minio.ObjectInfo, error) {
	var out []minio.ObjectInfo
	for o := range all {
		if o.Err != nil {
			return nil, fault(o.Err)
		}
		if !wanted(o) {
			return out, nil
		}
		if out = append(out, o); len(out) == pageSize {
			return out, nil
		}
	}
	return out, fault(ctx.Err())
}

func (c *client) Delete(ctx context.Context, key string, versions []string) error {
	if len(versions) == 1 {
		return fault(c.api.RemoveObject(ctx, c.bucket, key, minio.RemoveObjectOptions{VersionID: versions[0]}))
	}
	results, err := c.api.RemoveObjectsWithIter(ctx, c.bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, v := range versions {
			if !yield(minio.ObjectInfo{Key: key, VersionID: v}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return fault(err)
	}
	for r := range results {
		if r.Err != nil {
			return fault(r.Err)
		}
	}
	return fault(ctx.Err())
}

func (c *client) Close() { c.pool.CloseIdleConnections() }

// fault reads an error of minio-go.
func fault(err error) error {
	if err == nil {
		return nil
	}
	f := &s3bucket.RequestError{Err: err}
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		f.Status, f.Code, f.Message = answer.StatusCode, answer.Code, answer.Message
	}
	return f
}
