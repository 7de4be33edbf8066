// Package postgres is the warm tier in PostgreSQL 15 or later, shared by any
// number of daemons.
//
// A batch of puts is one parameterised statement: heads, version rows,
// requests and the batch's own row with its changes, and projections where
// documents are indexed. Everywhere else projections are made behind the commit,
// and a query reads the bytes of what has none yet. Everything
// else that writes locks its heads in key order, decides in Go, and writes in
// one go. A committed batch waits in the outbox until one sequencer, a
// goroutine of whichever daemon comes first, gives it its place in the feed.
//
// No session state is relied on: locks are those of a transaction, and there
// are no notifications. Behind a pooler that hands out a connection a
// transaction, add default_query_exec_mode=cache_describe to the URL: statements
// are then not prepared, no setting is made per session, and the pooler's
// database has to set search_path and statement_timeout. Directly, statements
// are prepared once a connection.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/klauspost/compress/zstd"

	"github.com/tierd/tierd/internal/buffer"
	"github.com/tierd/tierd/internal/longstatement"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/schema"
	"github.com/tierd/tierd/warm/internal/signal"
)

// Options shape a Store. The zero value works.
type Options struct {
	// Clock, for tests, is warm's clock; nil: the server's. It is read once a
	// transaction.
	Clock func() time.Time
	// Committers is how many batches may be in flight at once; 0: 16.
	Committers int
	// Readers is how many reads run at once; 0: 16.
	Readers int
	// StatementTimeout bounds every statement; 0: 5 s.
	StatementTimeout time.Duration
	// NoMigrate leaves the schema alone: Open fails when it is not the latest.
	NoMigrate bool
	// AfterCommit, for tests, is called when a transaction of Commit or Atomic
	// is durable. Its error takes the place of the success, as when the answer
	// is lost.
	AfterCommit func() error
	// Restore opens a store that BeginRestore may fill, also one whose restore
	// was cut short; such a store opens for nothing else.
	Restore bool

	projectRest time.Duration // 0: the constant
}

// Store is a warm.Store in one schema of a PostgreSQL database. It is safe for
// concurrent use.
type Store struct {
	url  string
	opts Options
	// committers send batches of puts and nothing else, writers all other
	// transactions: what the planner may do differs.
	committers *pgxpool.Pool
	writers    *pgxpool.Pool
	readers    *pgxpool.Pool
	pooled     bool        // by a pooler, which keeps no statements
	puts       []call      // by the number of their variant
	buffers    buffer.Pool // of what is sent
	server     *presence
	looksAfter time.Duration // how often the server is asked about what takes long
	enc        *zstd.Encoder
	dec        *zstd.Decoder
	epoch      atomic.Pointer[string]
	ended      atomic.Bool // the schema lives another life
	restores   atomic.Bool // it has given the schema a life itself
	// lockClass is the first half of the keys of advisory locks, which a
	// database's schemas share.
	lockClass int32
	spaces    spaceCache
	// vectorSchema is where pgvector lies.
	vectorSchema string
	vectorSpaces vectorSpaces
	seams        seams
	looseBump    bool // for a test that needs a bump that waits for nobody
	projector    *projector
	refused      atomic.Int64  // projections that the server did not take
	last         atomic.Int64  // the last feed position that was seen
	news         signal.Signal // a position was given out
	commits      chan struct{}
	closing      chan struct{}
	closed       sync.Once
	working      sync.WaitGroup
}

// seams are where tests of races step in, or put a naive variant in the place
// of what holds. The zero value is tierd.
type seams struct {
	statsBound    int64                                          // 0: the constant
	wholeBatches  bool                                           // a batch of which a row is refused is refused
	looseLeases   bool                                           // an old token is trusted
	looseMemories bool                                           // an index entry needs no live head of its digest
	looseErase    bool                                           // keys are erased without their heads' locks
	project       func(*txn, *projections) error                 // in the place of that of txn
	purge         func(t *txn, raise, remove func() error) error // calls both
}

var _ warm.Store = (*Store)(nil)

// Open connects to the database at url, brings its schema up to date and
// starts the sequencer. It fails when the server is too old, or does not keep
// what it acknowledges.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	s := &Store{url: url, puts: putsStatements(), server: newPresence(), looksAfter: longstatement.Every, projector: newProjector(), commits: make(chan struct{}, 1), closing: make(chan struct{})}
	if o != nil {
		s.opts = *o
	}
	if s.opts.Committers <= 0 {
		s.opts.Committers = 16
	}
	if s.opts.Readers <= 0 {
		s.opts.Readers = 16
	}
	if s.opts.projectRest <= 0 {
		s.opts.projectRest = projectRest
	}
	if s.opts.StatementTimeout <= 0 {
		s.opts.StatementTimeout = 5 * time.Second
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open the warm tier in PostgreSQL: %w", errors.Join(refusedSettings(err), s.release()))
	}
	s.working.Go(s.runSequencer)
	s.working.Go(s.watchServer)
	s.working.Go(s.runProjector)
	return s, nil
}

func (s *Store) open(ctx context.Context) (err error) {
	if s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(4)); err != nil {
		return err
	}
	if s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0)); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return err
	}
	s.pooled = pooled(config)
	if err := s.prepareSchema(ctx); err != nil {
		return err
	}
	if s.committers, err = s.pool(ctx, s.opts.Committers, committing); err != nil {
		return err
	}
	// The sequencer and the lifecycle's moves come on top of locked commits.
	if s.writers, err = s.pool(ctx, s.opts.Committers/2+4, writing); err != nil {
		return err
	}
	if s.readers, err = s.pool(ctx, s.opts.Readers, reading); err != nil {
		return err
	}
	return s.identify(ctx)
}

// prepareSchema checks the server and migrates, on one connection.
func (s *Store) prepareSchema(ctx context.Context) error {
	steps, err := schema.Steps(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	return onConn(ctx, s.url, func(c *pgx.Conn) error {
		if err := check(ctx, c); err != nil {
			return err
		}
		have, err := schemaVersion(ctx, c)
		switch {
		case err != nil:
			return err
		case have > int64(len(steps)):
			return schema.Newer(have, len(steps))
		case have == int64(len(steps)):
			return nil
		case s.opts.NoMigrate:
			return fmt.Errorf("the schema is version %d, this binary needs %d: run `tierd schema migrate`", have, len(steps))
		}
		return migrate(ctx, c, -1)
	})
}

// identify reads the epoch, making it at first, and whether a restore was cut
// short.
func (s *Store) identify(ctx context.Context) error {
	if _, err := s.writers.Exec(ctx, `INSERT INTO meta (name, word) VALUES ('epoch', $1) ON CONFLICT (name) DO NOTHING`, newEpoch()); err != nil {
		return err
	}
	var epoch string
	var half bool
	var last int64
	err := s.readers.QueryRow(ctx, `SELECT m.word, EXISTS (SELECT 1 FROM meta WHERE name = 'restoring'), hashtext('tierd.' || current_schema()), q.last,
		(SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector')
		FROM meta m, sequencer q WHERE m.name = 'epoch'`).Scan(&epoch, &half, &s.lockClass, &last, &s.vectorSchema)
	if err != nil {
		return err
	}
	s.epoch.Store(&epoch)
	s.last.Store(last)
	if half && !s.opts.Restore {
		return errHalfRestored
	}
	return nil
}

// Capabilities says how many batches may be in flight, and that daemons may
// share the store.
func (s *Store) Capabilities() warm.Capabilities {
	return warm.Capabilities{Committers: s.opts.Committers, Shared: true}
}

// Refused is how many documents PostgreSQL would not keep as JSONB since Open.
// They are stored and found all the same.
func (s *Store) Refused() int64 { return s.refused.Load() }

// Close waits for what runs and lets go of the connections. Calls that wait,
// and later ones, fail. Projections that wait are written first, if that takes no
// longer than a second.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() {
		s.projectLast()
		close(s.closing)
		s.working.Wait()
		err = s.release()
	})
	return err
}

func (s *Store) release() error {
	var errs []error
	for _, p := range []*pgxpool.Pool{s.committers, s.writers, s.readers} {
		if p != nil {
			p.Close()
		}
	}
	if s.enc != nil {
		errs = append(errs, s.enc.Close())
	}
	if s.dec != nil {
		s.dec.Close()
	}
	return errors.Join(errs...)
}

// alive fails once ctx has ended, the store is closed, or its life is over.
func (s *Store) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	if s.ended.Load() {
		return errAnotherLife
	}
	return nil
}
