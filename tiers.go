package tierd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/cold/minio"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// tiers are the opened drivers of a node.
type tiers struct {
	hot        hot.Store
	warm       warm.Store
	primary    cold.Bucket
	backup     cold.Bucket
	committers int
	drivers    router.Drivers
	shared     bool           // several daemons use the same warm store
	closers    []func() error // in the order they were opened
}

// close closes what was opened, last first.
func (t *tiers) close() error {
	var errs []error
	for i := len(t.closers) - 1; i >= 0; i-- {
		errs = append(errs, t.closers[i]())
	}
	return errors.Join(errs...)
}

// openTiers opens each tier by the scheme of its URL. When one fails those
// before it are closed again.
func openTiers(ctx context.Context, c Config) (tiers, error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return tiers{}, tiering.Invalidf("the data folder %s cannot be made: %v", c.Data, err)
	}
	var t tiers
	for _, open := range []func() error{
		func() error { return t.openWarm(ctx, c) },
		func() error { return t.openHot(c) },
		func() error { return t.openCold(ctx, c) },
		func() error { return t.checkLineage(ctx) },
	} {
		if err := open(); err != nil {
			return tiers{}, errors.Join(err, t.close())
		}
	}
	return t, nil
}

func scheme(url, otherwise string) (name, rest string) {
	if url == "" {
		url = otherwise
	}
	name, rest, _ = strings.Cut(url, ":")
	return name, rest
}

func (t *tiers) openHot(c Config) error {
	switch name, _ := scheme(c.Hot, "memory:"); name {
	case "memory":
		s := memory.Open(&memory.Options{MaxBytes: c.HotBytes})
		t.hot, t.drivers.Hot = s, name
		t.closers = append(t.closers, s.Close)
		return nil
	default:
		return unknownScheme("hot", c.Hot, "memory:")
	}
}

func (t *tiers) openWarm(ctx context.Context, c Config) error {
	switch name, rest := scheme(c.Warm, "sqlite:"); name {
	case "sqlite":
		if rest == "" {
			rest = filepath.Join(c.Data, "warm.db")
		}
		s, err := sqlite.Open(ctx, rest, &sqlite.Options{Clock: c.Clock})
		if err != nil {
			return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
		}
		t.warm, t.committers, t.shared = s, s.Capabilities().Committers, s.Capabilities().Shared
		t.drivers.Warm = name
		t.closers = append(t.closers, s.Close)
		return nil
	default:
		return unknownScheme("warm", c.Warm, "sqlite:")
	}
}

func (t *tiers) openCold(ctx context.Context, c Config) error {
	for _, b := range []struct {
		what, url, otherwise string
		to                   *cold.Bucket
		driver               *string
	}{
		{"cold", c.Cold, "dir:" + filepath.Join(c.Data, "cold"), &t.primary, &t.drivers.Primary},
		{"backup", c.Backup, "dir:" + filepath.Join(c.Data, "backup"), &t.backup, &t.drivers.Backup},
	} {
		url := b.url
		if url == "" {
			url = b.otherwise
		}
		bucket, name, err := openBucket(ctx, url)
		if err != nil {
			return tiering.Wrap(err, "open "+b.what, tiering.Cold, tiering.Key{})
		}
		*b.to, *b.driver = bucket, name
		t.closers = append(t.closers, bucket.Close)
	}
	return nil
}

// openBucket opens a bucket by the scheme of its URL, and says which driver
// keeps it.
func openBucket(ctx context.Context, url string) (cold.Bucket, string, error) {
	switch name, rest := scheme(url, ""); {
	case name == "dir" && rest != "":
		b, err := dir.Open(rest, nil)
		return b, name, err
	case name == "s3":
		place, err := s3url.Parse(url)
		if err != nil {
			return nil, "", err
		}
		if place.Client == s3url.ClientMinIO {
			b, err := minio.Open(ctx, url, nil)
			return b, "s3 (minio)", err
		}
		b, err := s3.Open(ctx, url, nil)
		return b, name, err
	}
	return nil, "", unknownScheme("bucket", url, "dir:FOLDER or s3://BUCKET")
}

// checkLineage refuses a warm store that is new beside buckets that are not:
// its versions would start again below those in cold, and two lives in one
// bucket could not be told apart. A bucket that cannot be asked is let through:
// a node starts while one is down.
func (t *tiers) checkLineage(ctx context.Context) error {
	st, err := t.warm.Stats(ctx)
	if err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	if st.Heads+st.Feed+st.Segments > 0 {
		return nil
	}
	for name, b := range map[string]cold.Bucket{"primary": t.primary, "backup": t.backup} {
		for _, err := range b.List(ctx, cold.SegmentPrefix) {
			if err != nil {
				break
			}
			return &tiering.Error{Code: tiering.CodeWrongKind, Tier: tiering.Cold, Detail: "the warm store is new, but the " + name +
				" bucket holds segments of an earlier one: run tierd rebuild --from " + name + ", or name empty buckets"}
		}
	}
	return nil
}

func unknownScheme(tier, url, use string) error {
	scheme, _, _ := strings.Cut(url, ":")
	return tiering.Invalidf("%s: scheme %q is not one this build of tierd knows: use %s", tier, scheme, use)
}
