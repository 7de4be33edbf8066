package tierd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
	"github.com/tierd/tierd/warm/sqlite"
)

// RebuildOptions say what a rebuild brings back.
type RebuildOptions struct {
	// From is the bucket that everything comes from: primary or backup.
	From string
	// AsOf leaves out what happened later; zero takes everything.
	AsOf time.Time
	// WithoutOther goes on when the other bucket cannot be reached.
	WithoutOther bool
	// Progress is told how many bytes of how many were read. It may be called
	// from many goroutines.
	Progress func(done, total int64)
}

// Rebuild makes the warm tier of c again from one bucket alone: see
// lifecycle.Rebuild. The warm store must be empty, or hold a rebuild that was
// cut short. It is ErrInUse while a daemon uses the data folder.
func Rebuild(ctx context.Context, c Config, o RebuildOptions) (r *lifecycle.RebuildReport, err error) {
	from, err := copyNamed(o.From)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	now := time.Now
	if c.Clock != nil {
		now = c.Clock
	}
	var t tiers
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.openCold(ctx, c); err != nil {
		return nil, err
	}
	store, leave, err := openEmpty(ctx, c)
	if err != nil {
		return nil, err
	}
	t.closers = append(t.closers, store.Close, leave)
	return lifecycle.Rebuild(ctx, lifecycle.RebuildOptions{
		Archive: cold.NewArchive(t.primary, t.backup, nil), From: from, Warm: store,
		AsOf: o.AsOf, Now: now(), WithoutOther: o.WithoutOther, Progress: o.Progress,
	})
}

func copyNamed(name string) (tiering.Copy, error) {
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if name == c.String() {
			return c, nil
		}
	}
	return 0, tiering.Invalidf("bucket %q: use primary or backup", name)
}

// openEmpty opens the warm store for a rebuild. One that holds anything is
// refused before the bucket is read, which may take long. leave is called
// before the store is closed.
func openEmpty(ctx context.Context, c Config) (_ warm.Store, leave func() error, err error) {
	switch name, file := scheme(c.Warm, "sqlite:"); name {
	case "sqlite":
		if err := c.makeData(); err != nil {
			return nil, nil, err
		}
		s, err := openEmptyFile(ctx, c.warmFile(file), c.Clock)
		return s, func() error { return nil }, err
	case "postgres", "postgresql":
		return openEmptyDatabase(ctx, c)
	default:
		return nil, nil, unknownScheme("warm", c.Warm, "sqlite: or postgres://HOST/DATABASE")
	}
}

func openEmptyFile(ctx context.Context, file string, clock func() time.Time) (*sqlite.Store, error) {
	if _, err := os.Stat(file); err == nil {
		if err := checkEmpty(ctx, file); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for the store: %w", err)
	}
	s, err := sqlite.Open(ctx, file, &sqlite.Options{Clock: clock, Restore: true})
	return s, tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
}

// openEmptyDatabase opens an empty schema, and keeps daemons out of it.
func openEmptyDatabase(ctx context.Context, c Config) (_ warm.Store, leave func() error, err error) {
	if err := checkEmptyDatabase(ctx, c.Warm); err != nil {
		return nil, nil, err
	}
	s, err := postgres.Open(ctx, c.Warm, &postgres.Options{Clock: c.Clock, Restore: true})
	if err != nil {
		return nil, nil, tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	alone := &membership{leases: s, holder: rebuildHolder + holder(true), alone: true}
	if err := alone.take(ctx); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		alone.keep(keep)
	}()
	return s, func() error {
		stop()
		<-kept
		return alone.leave(context.WithoutCancel(ctx))
	}, nil
}

// checkEmpty refuses a store that holds something, unless that is what a
// rebuild left that was cut short.
func checkEmpty(ctx context.Context, file string) error {
	s, err := sqlite.Open(ctx, file, nil)
	if errors.Is(err, tiering.ErrUnavailable) && !errors.Is(err, ErrInUse) {
		return nil // half filled: it is begun again
	}
	if errors.Is(err, tiering.ErrCorrupt) {
		return tiering.Wrap(fmt.Errorf("the store %s is damaged; %s: %w", file, moveAside(file), err), "open", tiering.Warm, tiering.Key{})
	}
	if err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	st, err := s.Stats(ctx)
	if err = errors.Join(err, s.Close()); err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	if st.Heads+st.Versions+st.Feed+st.Segments > 0 {
		return &tiering.Error{Code: tiering.CodeWrongKind, Tier: tiering.Warm, Detail: fmt.Sprintf(
			"the store %s is not empty: it holds %d documents; %s", file, st.Heads-st.Tombstones, moveAside(file))}
	}
	return nil
}

// checkEmptyDatabase is checkEmpty for a schema of PostgreSQL.
func checkEmptyDatabase(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, nil)
	if errors.Is(err, tiering.ErrUnavailable) {
		return nil // half filled: it is begun again
	}
	if err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	begun, err := (&tiers{warm: s}).begun(ctx)
	if err = errors.Join(err, s.Close()); err != nil {
		return tiering.Wrap(err, "open", tiering.Warm, tiering.Key{})
	}
	if begun {
		return &tiering.Error{Code: tiering.CodeWrongKind, Tier: tiering.Warm,
			Detail: "the database is not empty: rebuild into a new one, or into a schema of its own, which search_path in the URL names"}
	}
	return nil
}

func moveAside(file string) string {
	return fmt.Sprintf("move it aside, together with %s-wal and %s-shm where they are, and run the rebuild again", file, file)
}

// Verify looks at both copies of everything in cold: see
// lifecycle.Engine.Verify.
func (n *Node) Verify(ctx context.Context, o lifecycle.VerifyOptions) (*lifecycle.VerifyReport, error) {
	return n.engine.Verify(ctx, o)
}

// Verify does what Node.Verify does without a node: it opens the warm and cold
// tiers that c names, and starts no background work. It is ErrInUse while a
// daemon uses the data folder, and not_found when there is no store yet.
func Verify(ctx context.Context, c Config, o lifecycle.VerifyOptions) (r *lifecycle.VerifyReport, err error) {
	err = withEngine(ctx, c, func(e *lifecycle.Engine) error {
		r, err = e.Verify(ctx, o)
		return err
	})
	return r, err
}

// DrillOptions say how a drill is done.
type DrillOptions struct {
	// From is the bucket that is put to the test: primary or backup.
	From string
	// Scratch is the folder in which a store is made for as long as it takes;
	// "" is the system's for temporary files. It takes about as much room as
	// the warm store. What a drill that was killed has left there is removed.
	Scratch string
	// Progress is told how many bytes of how many were read. It may be called
	// from many goroutines.
	Progress func(done, total int64)
}

// Drill rebuilds a scratch store from one bucket and compares it with what
// stands: see lifecycle.Engine.Drill.
func (n *Node) Drill(ctx context.Context, o DrillOptions) (*lifecycle.DrillReport, error) {
	return drill(ctx, n.engine, o)
}

// Drill does what Node.Drill does without a node, as Verify does.
func Drill(ctx context.Context, c Config, o DrillOptions) (r *lifecycle.DrillReport, err error) {
	err = withEngine(ctx, c, func(e *lifecycle.Engine) error {
		r, err = drill(ctx, e, o)
		return err
	})
	return r, err
}

// The scratch store of a drill, in a folder of its own.
const (
	scratchFolder = "tierd-drill-"
	scratchFile   = "scratch.db"
)

func drill(ctx context.Context, e *lifecycle.Engine, o DrillOptions) (r *lifecycle.DrillReport, err error) {
	from, err := copyNamed(o.From)
	if err != nil {
		return nil, err
	}
	if err := removeAbandoned(o.Scratch); err != nil {
		return nil, fmt.Errorf("remove what a drill that was killed has left: %w", err)
	}
	folder, err := os.MkdirTemp(o.Scratch, scratchFolder)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the scratch store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	return e.Drill(ctx, lifecycle.DrillOptions{From: from, Progress: o.Progress, Open: func(ctx context.Context) (warm.Store, error) {
		return sqlite.Open(ctx, filepath.Join(folder, scratchFile), &sqlite.Options{Restore: true})
	}})
}

// removeAbandoned removes the scratch stores of drills that were killed. Those of
// drills that run, and of other users, stay.
func removeAbandoned(scratch string) error {
	if scratch == "" {
		scratch = os.TempDir()
	}
	entries, err := os.ReadDir(scratch)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		folder := filepath.Join(scratch, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), scratchFolder) && sqlite.Abandoned(filepath.Join(folder, scratchFile)) {
			errs = append(errs, os.RemoveAll(folder))
		}
	}
	return errors.Join(errs...)
}

// withEngine opens the warm and cold tiers that c names for fn.
func withEngine(ctx context.Context, c Config, fn func(*lifecycle.Engine) error) (err error) {
	c = c.withDefaults()
	if err := storeExists(c); err != nil {
		return err
	}
	var t tiers
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.openWarm(ctx, c); err != nil {
		return err
	}
	if err := t.openCold(ctx, c); err != nil {
		return err
	}
	return fn(lifecycle.New(lifecycle.Config{
		Warm: t.warm, Archive: cold.NewArchive(t.primary, t.backup, nil), Holder: t.holder, Logger: c.Logger,
	}))
}
