// Package sqlite is the warm tier in one file: SQLite in WAL mode, for a node
// that runs without servers.
//
// One connection writes, the others read. Commits serialise on the writer, so
// that a feed position is simply the next number, and nothing can be seen out
// of order. Every transaction is flushed to the disk before its answer
// (synchronous=FULL).
//
// A Store holds an exclusive lock on a LOCK file beside the database for as
// long as it is open. The prepared statements, the namespace cache and the
// next feed position rest on that: nobody else writes the file.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/schema"
	"github.com/tierd/tierd/warm/internal/signal"
)

// Options shape a Store. The zero value works.
type Options struct {
	// Clock is warm's clock; nil: time.Now. It is read once a transaction.
	Clock func() time.Time
	// Readers is how many reads run at once; 0: 8.
	Readers int
	// AfterCommit, for tests, is called when a transaction of Commit or Atomic
	// is on the disk. Its error takes the place of the success, as when the
	// answer of a server is lost.
	AfterCommit func() error
	// Restore opens a store that BeginRestore may fill, also one whose restore
	// was cut short; such a store opens for nothing else.
	Restore bool
}

// Store is a warm.Store in one SQLite file. It is safe for concurrent use.
type Store struct {
	path    string
	opts    Options
	lock    *os.File
	epoch   atomic.Pointer[string]
	writer  chan *writer // holds the writer while nobody writes
	readers chan *conn   // holds idle readers, nil for one not opened yet
	closing chan struct{}
	closed  sync.Once
	news    signal.Signal
	last    atomic.Int64 // the last feed position
	// hotCount is the count of the hot epoch; the writer alone changes it.
	hotCount atomic.Int64
	journal  journal
	loose    bool // for a test of what the guard of index entries is for
	enc      *zstd.Encoder
	dec      *zstd.Decoder
}

var (
	_ warm.Store         = (*Store)(nil)
	_ warm.Finder        = (*Store)(nil)
	_ warm.Memories      = (*Store)(nil)
	_ warm.MemoryJournal = (*Store)(nil)
)

// Open opens or makes the store at path, and brings its schema up to date.
// It fails when the file is open elsewhere, or was written by a newer tierd.
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	s := &Store{path: path, closing: make(chan struct{})}
	if o != nil {
		s.opts = *o
	}
	if s.opts.Clock == nil {
		s.opts.Clock = time.Now
	}
	if s.opts.Readers <= 0 {
		s.opts.Readers = 8
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, s.explain(err))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) (err error) {
	var release []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, free := range slices.Backward(release) {
			err = errors.Join(err, free())
		}
	}()
	if s.lock, err = lockFile(lockPath(s.path)); err != nil {
		return err
	}
	release = append(release, s.lock.Close)
	// No checksum: a body has its digest.
	if s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithEncoderCRC(false)); err != nil {
		return err
	}
	if s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0)); err != nil {
		return err
	}
	c, err := dial(ctx, s.path, false)
	if err != nil {
		return err
	}
	release = append(release, c.close)
	steps, err := schema.Steps(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	if err := migrate(c, int64(len(steps))); err != nil {
		return err
	}
	if err := s.identify(c); err != nil {
		return err
	}
	w := &writer{conn: c, namespaces: map[nsKey]*namespace{}, sweeps: map[string]*sweep{}}
	if err := w.restored(s.opts.Restore); err != nil {
		return err
	}
	s.writer = make(chan *writer, 1)
	s.writer <- w
	s.readers = make(chan *conn, s.opts.Readers)
	for range s.opts.Readers {
		s.readers <- nil
	}
	return nil
}

// identify reads the epoch, making it at first, and the last feed position.
func (s *Store) identify(c *conn) error {
	if _, err := c.exec(`INSERT INTO meta (name, value) VALUES ('epoch', ?), ('trimmed', 0) ON CONFLICT DO NOTHING`,
		ulid.Make().String()); err != nil {
		return err
	}
	row, _, err := c.one(`SELECT value FROM meta WHERE name = 'epoch'`)
	if err != nil {
		return err
	}
	epoch := text(row[0])
	s.epoch.Store(&epoch)
	last, err := c.number(`SELECT max(t.value, coalesce((SELECT max(pos) FROM feed), 0)) FROM meta t WHERE t.name = 'trimmed'`)
	if err != nil {
		return err
	}
	s.last.Store(last)
	hot, err := c.number(`SELECT value FROM meta WHERE name = 'hot_epoch'`)
	s.hotCount.Store(hot)
	return err
}

// Capabilities says that one batch is committed at a time and that one daemon
// has the store.
func (s *Store) Capabilities() warm.Capabilities {
	return warm.Capabilities{Committers: 1, Shared: false}
}

// now is warm's clock, in the resolution that is stored.
func (s *Store) now() time.Time {
	return s.opts.Clock().UTC().Truncate(time.Microsecond)
}

// Close waits for what runs, writes the log back into the file and lets go of
// the data lock. Calls that wait, and later ones, fail.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() {
		close(s.closing)
		var errs []error
		for range cap(s.readers) {
			if c := <-s.readers; c != nil {
				errs = append(errs, c.close())
			}
		}
		w := <-s.writer
		_, checkpoint := w.number(`PRAGMA wal_checkpoint(TRUNCATE)`)
		errs = append(errs, checkpoint, w.close(), s.enc.Close())
		s.dec.Close()
		err = s.explain(errors.Join(append(errs, s.lock.Close())...))
	})
	return err
}

// reader runs fn on a connection that can only read.
func (s *Store) reader(ctx context.Context, fn func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var c *conn
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	select {
	case c = <-s.readers:
	case <-s.closing:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- c }()
	if c == nil {
		var err error
		if c, err = dial(ctx, s.path, true); err != nil {
			c = nil
			return s.explain(err)
		}
	}
	return s.explain(fn(c))
}
