package s3bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/tiering"
)

// Options shapes a Bucket. Zero values are replaced by the defaults.
type Options struct {
	EnsureBucket   bool
	AllowOverwrite bool
	Connections    int
	Tries          int
	Wait           time.Duration
	Timeout        time.Duration
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Connections <= 0 {
		o.Connections = 64
	}
	if o.Tries <= 0 {
		o.Tries = 5
	}
	if o.Wait <= 0 {
		o.Wait = 100 * time.Millisecond
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	return o
}

// reserved is where the driver's own objects lie, under the prefix. No name of
// tierd has a tilde, and List passes over what is no name.
const reserved = "~tierd/"

// openPatience is how long Open waits for a server before it leaves the checks
// to the first write.
const openPatience = 10 * time.Second

var errClosed = errors.New("the bucket is closed")

// Bucket is a cold.Bucket over a Client.
type Bucket struct {
	client  Client
	place   s3url.Place
	options Options
	root    string // the prefix with its slash, or ""

	closed  atomic.Bool
	ready   atomic.Bool   // the bucket is there and honours conditions
	prepare chan struct{} // held by who finds that out
}

var _ cold.Bucket = (*Bucket)(nil)

// Open opens the bucket that url names through the client that dial makes; o may be
// nil. It checks that the bucket is there (or makes it, when the options say so) and
// that the server honours If-None-Match. When the server cannot be reached now, or these
// credentials may only read, the bucket opens all the same, and the first
// write checks.
func Open(ctx context.Context, url string, o *Options, dial func(context.Context, s3url.Place, Options) (Client, error)) (*Bucket, error) {
	place, err := s3url.Parse(url)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	options := o.withDefaults()
	client, err := dial(ctx, place, options)
	if err != nil {
		return nil, err
	}
	b := &Bucket{client: client, place: place, options: options, prepare: make(chan struct{}, 1)}
	if place.Prefix != "" {
		b.root = place.Prefix + "/"
	}
	within, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	err = b.prepared(within)
	var f *RequestError
	unreachable := transient(err) || errors.Is(err, context.DeadlineExceeded)
	readOnly := errors.As(err, &f) && f.forbidden()
	if ctx.Err() != nil || err != nil && !unreachable && !readOnly {
		client.Close()
		return nil, outside(errors.Join(ctx.Err(), err))
	}
	return b, nil
}

// prepared makes sure, once, that the bucket can be written to as it must be.
func (b *Bucket) prepared(ctx context.Context) error {
	if b.ready.Load() {
		return nil
	}
	select {
	case b.prepare <- struct{}{}:
		defer func() { <-b.prepare }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.ready.Load() {
		return nil
	}
	if err := b.ensure(ctx); err != nil {
		return err
	}
	if err := b.probeCondition(ctx); err != nil {
		return err
	}
	b.ready.Store(true)
	return nil
}

// ensure finds the bucket, or makes it.
func (b *Bucket) ensure(ctx context.Context) error {
	err := b.bucketThere(ctx)
	if !b.options.EnsureBucket || !errors.Is(err, errNoBucket) {
		return err
	}
	err = b.retry(ctx, b.client.CreateBucket)
	var f *RequestError
	if errors.As(err, &f) && (f.Code == "BucketAlreadyOwnedByYou" || f.Status == http.StatusConflict) {
		return b.bucketThere(ctx) // another made it first; or it is a stranger's, and this says so
	}
	return err
}

var errNoBucket = errors.New("the bucket does not exist")

// bucketThere returns nil when the server has the bucket, errNoBucket when it
// says that it has not, and another error when that is not known.
func (b *Bucket) bucketThere(ctx context.Context) error {
	err := b.retry(ctx, b.client.HeadBucket)
	var f *RequestError
	if errors.As(err, &f) && f.absent() {
		return b.missing(err)
	}
	return err
}

func (b *Bucket) missing(err error) error {
	return fmt.Errorf("%w: %q at %s: make it, or correct the URL: %w", errNoBucket, b.place.Bucket, b.where(), err)
}

func (b *Bucket) where() string {
	if b.place.Endpoint == "" {
		return "AWS"
	}
	return b.place.Endpoint
}

// conditionProbe stays in the bucket once it was written, so that later Opens
// need one request.
const conditionProbe = reserved + "if-none-match"

const probeText = "tierd: this object shows that the server honours If-None-Match; it may be deleted\n"

// probeCondition finds out whether a write to a taken name is refused.
func (b *Bucket) probeCondition(ctx context.Context) error {
	if b.options.AllowOverwrite {
		return nil
	}
	for range 2 {
		_, err := b.put(ctx, b.root+conditionProbe, []byte(probeText), true)
		var f *RequestError
		if errors.As(err, &f) && f.taken() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a write to try conditional writes: %w", err)
		}
	}
	return tiering.Errorf(tiering.CodeUnsupported, "the S3 server at %s ignores If-None-Match: it overwrote an object that it was told not to. "+
		"Two writers could destroy each other's segments; use a server with conditional writes", b.where())
}

// put writes a small object of the driver's own.
func (b *Bucket) put(ctx context.Context, key string, data []byte, ifAbsent bool) (version string, err error) {
	s, err := newSource(ctx, bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	return request(ctx, b, func(ctx context.Context) (string, error) {
		up, done := s.upload(ifAbsent)
		defer done()
		return b.client.Put(ctx, key, up)
	})
}

// Ping writes a small object, reads it back and deletes it, in the version
// that it wrote.
func (b *Bucket) Ping(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	return outside(b.ping(ctx))
}

func (b *Bucket) ping(ctx context.Context) error {
	if err := b.prepared(ctx); err != nil {
		return err
	}
	id := ulid.Make().String()
	key := b.root + reserved + "ping-" + strings.ToLower(id)
	version, err := b.put(ctx, key, []byte(id), false)
	if err != nil {
		return err
	}
	got, err := b.get(ctx, key, 0, -1)
	if err == nil && string(got) != id {
		err = lied("what was written a moment ago comes back different")
	}
	return errors.Join(err, b.retry(ctx, func(ctx context.Context) error {
		return b.client.Delete(ctx, key, []string{version})
	}))
}

// Close frees the connections. Later calls fail.
func (b *Bucket) Close() error {
	if !b.closed.Swap(true) {
		b.client.Close()
	}
	return nil
}

func (b *Bucket) open(ctx context.Context) error {
	if b.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// check refuses bad names, and names that make too long a key.
func (b *Bucket) check(ctx context.Context, name string) (key string, err error) {
	if err := b.open(ctx); err != nil {
		return "", err
	}
	if err := cold.CheckName(name); err != nil {
		return "", err
	}
	key = b.root + name
	if len(key) > 1024 {
		return "", tiering.Invalidf("object key is %d bytes long with its prefix: S3 takes 1024", len(key))
	}
	return key, nil
}
