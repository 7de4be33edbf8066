package tierd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
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
		func() error { return t.openCold(c) },
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

func (t *tiers) openCold(c Config) error {
	for _, b := range []struct {
		what, url, otherwise string
		to                   *cold.Bucket
		driver               *string
	}{
		{"cold", c.Cold, "dir:" + filepath.Join(c.Data, "cold"), &t.primary, &t.drivers.Primary},
		{"backup", c.Backup, "dir:" + filepath.Join(c.Data, "backup"), &t.backup, &t.drivers.Backup},
	} {
		name, rest := scheme(b.url, b.otherwise)
		if name != "dir" || rest == "" {
			return unknownScheme(b.what, b.url, "dir:FOLDER")
		}
		d, err := dir.Open(rest, nil)
		if err != nil {
			return tiering.Wrap(err, "open "+b.what, tiering.Cold, tiering.Key{})
		}
		*b.to, *b.driver = d, name
		t.closers = append(t.closers, d.Close)
	}
	return nil
}

func unknownScheme(tier, url, use string) error {
	scheme, _, _ := strings.Cut(url, ":")
	return tiering.Invalidf("%s: scheme %q is not one this build of tierd knows: use %s", tier, scheme, use)
}
