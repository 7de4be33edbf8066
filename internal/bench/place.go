package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/s3url"
)

// schema makes a schema for a contestant, and returns the URL that leads to it,
// with settings that hold for its connections.
func (b *bench) schema(ctx context.Context, name string, settings map[string]string) (string, error) {
	name = b.id + "_" + name
	if err := b.onWarm(ctx, `CREATE SCHEMA `+name); err != nil {
		return "", err
	}
	b.later(func(ctx context.Context) error { return b.onWarm(ctx, `DROP SCHEMA `+name+` CASCADE`) })
	u, err := url.Parse(b.Warm)
	if err != nil {
		return "", errors.New("bench: the warm URL cannot be parsed")
	}
	q := u.Query()
	q.Set("search_path", name)
	for k, v := range settings {
		q.Set(k, v)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// onWarm runs one statement on a connection of its own.
func (b *bench) onWarm(ctx context.Context, sql string) error {
	c, err := pgx.Connect(ctx, b.Warm)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql)
	return errors.Join(err, c.Close(ctx))
}

// redis opens the pool that one would use by hand.
func (b *bench) redis() (*goredis.Client, error) {
	o, err := goredis.ParseURL(b.Hot)
	if err != nil {
		return nil, errors.New("bench: straight needs a redis:// or rediss:// URL of one server")
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.PoolSize = -1, true, 66
	return goredis.NewClient(o), nil
}

// removeKeys removes what straight wrote.
func removeKeys(ctx context.Context, c *goredis.Client, prefix string, keys int) error {
	p := c.Pipeline()
	for i := range keys {
		p.Unlink(ctx, prefix+keyName(i))
	}
	_, err := p.Exec(ctx)
	return err
}

// under is a bucket's URL with a further prefix.
func under(bucket, prefix string) (string, error) {
	u, err := url.Parse(bucket)
	if err != nil || u.Scheme != "s3" {
		return "", errors.New("bench: the buckets are s3:// URLs")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + prefix
	return u.String(), nil
}

// emptied removes all objects of a bucket that is a prefix of this run's.
func emptied(ctx context.Context, b cold.Bucket) error {
	for o, err := range b.List(ctx, "") {
		if err != nil {
			return err
		}
		if err := b.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// objects is a prefix of a bucket, written to as one would by hand: one PUT an
// object, no condition, no digest but the client's own.
type objects struct {
	client         *minio.Client
	bucket, prefix string
}

func openObjects(place string) (*objects, error) {
	p, err := s3url.Parse(place)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(p.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("bench: the cold URL names no endpoint")
	}
	lookup := minio.BucketLookupAuto
	if p.PathStyle {
		lookup = minio.BucketLookupPath
	}
	c, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewEnvAWS(), Secure: u.Scheme == "https", Region: p.Region, BucketLookup: lookup,
	})
	if err != nil {
		return nil, err
	}
	return &objects{client: c, bucket: p.Bucket, prefix: p.Prefix + "/"}, nil
}

func (o *objects) put(ctx context.Context, name string, doc []byte) error {
	_, err := o.client.PutObject(ctx, o.bucket, o.prefix+name, strings.NewReader(string(doc)), int64(len(doc)), minio.PutObjectOptions{DisableMultipart: true})
	return err
}

func (o *objects) removeAll(ctx context.Context) error {
	listed := o.client.ListObjects(ctx, o.bucket, minio.ListObjectsOptions{Prefix: o.prefix, Recursive: true})
	for failed := range o.client.RemoveObjects(ctx, o.bucket, listed, minio.RemoveObjectsOptions{}) {
		return fmt.Errorf("remove objects: %w", failed.Err)
	}
	return nil
}
