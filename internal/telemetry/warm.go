package telemetry

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// warmStore measures a warm.Store: what a request or a move waits for. WaitFeed
// blocks on purpose, and bookkeeping is cheap and rare, so they are left alone.
type warmStore struct {
	warm.Store
	commit, resolve, atomic                            *op
	load, head, version, asOf, versions, list, query   *op
	readVersions, readFeed                             *op
	startSegment, finishSegment, locations             *op
	walk, expired, demote, promote, retire, noteAccess *op
	mend                                               *op
	ping                                               *op
}

// finder is a warmStore over a warm.Finder.
type finder struct {
	*warmStore
	inner warm.Finder
}

// Warm returns s, measured, and a warm.Finder if s is one. Unwrap() on the
// result gives s back.
func (t *Telemetry) Warm(s warm.Store) warm.Store {
	o := func(name string) *op { return t.op(tiering.Warm, "", name) }
	w := &warmStore{
		Store:  s,
		commit: o("commit"), resolve: o("resolve"), atomic: o("atomic"),
		load: o("load"), head: o("head"), version: o("version"), asOf: o("as_of"), versions: o("versions"), list: o("list"), query: o("query"),
		readVersions: o("read_versions"), readFeed: o("read_feed"),
		startSegment: o("start_segment"), finishSegment: o("finish_segment"), locations: o("locations"),
		walk: o("walk"), expired: o("expired"), demote: o("demote"), promote: o("promote"), retire: o("retire"), noteAccess: o("note_access"), mend: o("mend"),
		ping: o("ping"),
	}
	if inner, ok := warm.As[warm.Finder](s); ok {
		return &finder{w, inner}
	}
	return w
}

// Unwrap returns the store within.
func (s *warmStore) Unwrap() warm.Store { return s.Store }

// batchSize is the attribute of commits: the rows carried.
func batchSize(rows int) attribute.KeyValue { return attribute.Int("tierd.batch.size", rows) }

func rowsOf(b *warm.Batch) int {
	n := 0
	for _, c := range b.Changes {
		n += len(c.Rows)
	}
	return n
}

func (s *warmStore) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	ctx, c := s.commit.begin(ctx)
	rs, err := s.Store.Commit(ctx, b)
	c.end(err, batchSize(rowsOf(b)))
	return rs, err
}

func (s *warmStore) Resolve(ctx context.Context, b *warm.Batch) ([][]warm.Result, bool, error) {
	ctx, c := s.resolve.begin(ctx)
	rs, committed, err := s.Store.Resolve(ctx, b)
	c.end(err, batchSize(rowsOf(b)), attribute.Bool("tierd.committed", committed))
	return rs, committed, err
}

func (s *warmStore) Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *warm.Idempotency, decide func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	ctx, c := s.atomic.begin(ctx)
	rs, committed, err := s.Store.Atomic(ctx, id, keys, idem, decide)
	rows := 0
	for _, r := range rs {
		rows += len(r)
	}
	c.end(err, batchSize(rows), attribute.Bool("tierd.committed", committed))
	return rs, committed, err
}

func (s *warmStore) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	ctx, c := s.load.begin(ctx)
	cur, err := s.Store.Load(ctx, key)
	c.end(err)
	return cur, err
}

func (s *warmStore) Head(ctx context.Context, key tiering.Key) (warm.Current, error) {
	ctx, c := s.head.begin(ctx)
	cur, err := s.Store.Head(ctx, key)
	c.end(err)
	return cur, err
}

func (s *warmStore) Version(ctx context.Context, key tiering.Key, version int64) (warm.Version, bool, error) {
	ctx, c := s.version.begin(ctx)
	v, ok, err := s.Store.Version(ctx, key, version)
	c.end(err)
	return v, ok, err
}

// Find implements warm.Finder. It is a version's look-up, and measured as one.
func (s *finder) Find(ctx context.Context, key tiering.Key, version int64) (warm.Version, bool, []tiering.Location, error) {
	ctx, c := s.version.begin(ctx)
	v, ok, locs, err := s.inner.Find(ctx, key, version)
	c.end(err)
	return v, ok, locs, err
}

func (s *warmStore) ReadVersions(ctx context.Context, of []warm.KeyVersion, maxBytes int64) ([]warm.Version, error) {
	ctx, c := s.readVersions.begin(ctx)
	vs, err := s.Store.ReadVersions(ctx, of, maxBytes)
	c.end(err, attribute.Int("tierd.items", len(vs)))
	return vs, err
}

func (s *warmStore) AsOf(ctx context.Context, key tiering.Key, at time.Time) (warm.Version, bool, error) {
	ctx, c := s.asOf.begin(ctx)
	v, ok, err := s.Store.AsOf(ctx, key, at)
	c.end(err)
	return v, ok, err
}

func (s *warmStore) Versions(ctx context.Context, key tiering.Key, before int64, limit int) ([]warm.Version, error) {
	ctx, c := s.versions.begin(ctx)
	vs, err := s.Store.Versions(ctx, key, before, limit)
	c.end(err)
	return vs, err
}

func (s *warmStore) List(ctx context.Context, l warm.List) ([]warm.Current, error) {
	ctx, c := s.list.begin(ctx)
	items, err := s.Store.List(ctx, l)
	c.end(err, attribute.Int("tierd.items", len(items)))
	return items, err
}

func (s *warmStore) Query(ctx context.Context, q warm.Query) ([]warm.Current, string, error) {
	ctx, c := s.query.begin(ctx)
	items, next, err := s.Store.Query(ctx, q)
	c.end(err, attribute.Int("tierd.items", len(items)))
	return items, next, err
}

func (s *warmStore) ReadFeed(ctx context.Context, after int64, limit int) ([]warm.FeedEntry, error) {
	ctx, c := s.readFeed.begin(ctx)
	entries, err := s.Store.ReadFeed(ctx, after, limit)
	c.end(err, attribute.Int("tierd.items", len(entries)))
	return entries, err
}

func (s *warmStore) Ping(ctx context.Context) error {
	ctx, c := s.ping.begin(ctx)
	err := s.Store.Ping(ctx)
	c.end(err)
	return err
}
