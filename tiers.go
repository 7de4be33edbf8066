package tierd

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/cold/minio"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
	"github.com/tierd/tierd/warm/sqlite"
	"github.com/tierd/tierd/window"
	"github.com/tierd/tierd/window/chat"
)

// tiers are the opened drivers of a node.
type tiers struct {
	hot        hot.Store
	warm       warm.Store
	primary    cold.Bucket
	backup     cold.Bucket
	committers int
	hotTimeout time.Duration // as router.Config has it
	holder     string        // names this daemon in leases
	drivers    router.Drivers
	shared     bool           // several daemons may use the same warm store
	hotBytes   int64          // bound of the embedded hot tier
	membership *membership    // this daemon's part in its lease; nil unless shared
	gate       *gate          // before hot; nil unless shared
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
	t := tiers{hotBytes: c.HotBytes}
	for _, open := range []func() error{
		func() error { return t.openWarm(ctx, c) },
		func() error { return t.openHot(ctx, c) },
		func() error { return t.openCold(ctx, c) },
		func() error { return t.checkLineage(ctx) },
		func() error { return t.join(ctx, c) },
		func() error { return t.claimBuckets(ctx, c) },
	} {
		if err := open(); err != nil {
			return tiers{}, errors.Join(err, t.leave(ctx), t.close())
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

// makeData makes the folder of the embedded tiers, durably. A node without any
// does not need it.
func (c Config) makeData() error {
	if err := dir.MakeFolder(c.Disk, c.Data, 0o700); err != nil {
		return tiering.Invalidf("the data folder %s cannot be made: %v", c.Data, err)
	}
	return nil
}

// openHot opens hot, once warm is open: warm says which daemons may use it.
func (t *tiers) openHot(ctx context.Context, c Config) error {
	name, _ := scheme(c.Hot, "memory:")
	switch name {
	case "memory":
		t.hot, t.hotTimeout = memory.Open(&memory.Options{MaxBytes: c.HotBytes}), -1
	case "redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		epoch, err := t.warm.HotEpoch(ctx)
		if err != nil {
			return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
		}
		s, err := redis.Open(ctx, c.Hot, &redis.Options{Epoch: epoch})
		if err != nil {
			return tiering.Wrap(err, "open", tiering.Hot, tiering.Key{})
		}
		t.hot = s
	default:
		return unknownScheme("hot", c.Hot, "memory: or redis://HOST")
	}
	t.drivers.Hot = name
	// Whatever hot is by then: the gate's store may have been replaced.
	t.closers = append(t.closers, func() error { return t.hot.Close() })
	return nil
}

// renewHot makes hot begin anew, after writers may have passed it by.
func (t *tiers) renewHot(ctx context.Context) error {
	if t.membership.alone {
		return t.gate.replace(memory.Open(&memory.Options{MaxBytes: t.hotBytes}))
	}
	shared, ok := hot.As[hot.Epochal](t.hot)
	if !ok {
		return nil
	}
	next, err := t.warm.BumpHotEpoch(ctx, shared.HotEpoch())
	if err == nil {
		shared.Advance(next)
	}
	return err
}

// join takes the part of this daemon in a warm store that daemons share.
func (t *tiers) join(ctx context.Context, c Config) error {
	if !t.shared {
		return nil
	}
	asked := time.Now()
	t.membership = newMembership(t.warm, c, t.holder)
	if err := t.membership.take(ctx); err != nil {
		return err
	}
	t.gate = newGate(t.hot)
	t.gate.admit(asked, t.membership)
	t.hot = t.gate
	return nil
}

func (t *tiers) openWarm(ctx context.Context, c Config) error {
	switch name, rest := scheme(c.Warm, "sqlite:"); name {
	case "sqlite":
		if err := c.makeData(); err != nil {
			return err
		}
		s, err := sqlite.Open(ctx, c.warmFile(rest), &sqlite.Options{Clock: c.Clock})
		if err != nil {
			return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
		}
		t.setWarm(name, s, s.Capabilities())
		return nil
	case "postgres", "postgresql":
		s, err := postgres.Open(ctx, c.Warm, &postgres.Options{Clock: c.Clock})
		if err != nil {
			return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
		}
		t.setWarm("postgres", s, s.Capabilities())
		return nil
	default:
		return unknownScheme("warm", c.Warm, "sqlite: or postgres://HOST/DATABASE")
	}
}

func (t *tiers) setWarm(driver string, s warm.Store, can warm.Capabilities) {
	t.warm, t.committers, t.shared = s, can.Committers, can.Shared
	t.drivers.Warm, t.holder = driver, holder(can.Shared)
	t.closers = append(t.closers, s.Close)
}

// warmFile is the file of the embedded warm store; named is what the URL says.
func (c Config) warmFile(named string) string {
	if named == "" {
		return filepath.Join(c.Data, "warm.db")
	}
	return named
}

func (t *tiers) openCold(ctx context.Context, c Config) error {
	primary, backup := c.bucketURLs()
	for _, b := range []struct {
		what, url string
		to        *cold.Bucket
		driver    *string
	}{
		{"cold", primary, &t.primary, &t.drivers.Primary},
		{"backup", backup, &t.backup, &t.drivers.Backup},
	} {
		bucket, name, err := openBucket(ctx, b.url, c.Disk)
		if err != nil {
			return tiering.Wrap(err, "open "+b.what, tiering.Cold, tiering.Key{})
		}
		*b.to, *b.driver = bucket, name
		t.closers = append(t.closers, bucket.Close)
	}
	return nil
}

// bucketURLs names both buckets: those that nobody named lie in the data folder.
func (c Config) bucketURLs() (primary, backup string) {
	in := func(url, folder string) string {
		if url == "" || url == "dir:" {
			return "dir:" + filepath.Join(c.Data, folder)
		}
		return url
	}
	return in(c.Cold, "cold"), in(c.Backup, "backup")
}

// openBucket opens a bucket by the scheme of its URL, and says which driver
// keeps it.
func openBucket(ctx context.Context, url string, disk dir.Disk) (cold.Bucket, string, error) {
	switch name, rest := scheme(url, ""); {
	case name == "dir" && rest != "":
		b, err := dir.Open(rest, &dir.Options{Disk: disk})
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
	began, err := t.begun(ctx)
	if err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	if began {
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

// begun reports whether the warm store has ever held anything: it committed a
// change, or it was rebuilt.
func (t *tiers) begun(ctx context.Context) (bool, error) {
	_, last, err := t.warm.FeedBounds(ctx)
	if err != nil || last > 0 {
		return last > 0, err
	}
	segments, err := t.warm.Segments(ctx, "", "", "", 1)
	return len(segments) > 0, err
}

// openSummariser opens what makes summaries; nil for extractive ones. No server is
// asked yet.
func (t *tiers) openSummariser(c Config) (window.Summariser, error) {
	switch name, rest := scheme(c.Summarise, "extractive:"); {
	case name == "extractive" && rest == "":
		return nil, nil //nolint:nilnil // none is no error
	case name == "openai+https" || name == "openai+http":
		s, err := chat.Open(c.Summarise)
		if err != nil {
			return nil, tiering.Wrap(err, "open", "", tiering.Key{})
		}
		t.closers = append(t.closers, s.Close)
		return s, nil
	}
	return nil, unknownScheme("summarise", c.Summarise, "extractive: or openai+https://HOST/v1?model=NAME")
}

func unknownScheme(tier, url, use string) error {
	scheme, _, _ := strings.Cut(url, ":")
	return tiering.Invalidf("%s: scheme %q is not one this build of tierd knows: use %s", tier, scheme, use)
}

// leave gives up this daemon's part in a shared warm store.
func (t *tiers) leave(ctx context.Context) error {
	if t.membership == nil {
		return nil
	}
	return t.membership.leave(ctx)
}
