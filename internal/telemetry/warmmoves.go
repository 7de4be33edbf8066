package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The half of warm that the lifecycle calls.

func (s *warmStore) StartSegment(ctx context.Context, seg tiering.SegmentInfo) error {
	ctx, c := s.startSegment.begin(ctx)
	err := s.Store.StartSegment(ctx, seg)
	c.end(err)
	return err
}

func (s *warmStore) FinishSegment(ctx context.Context, seg tiering.SegmentInfo, locations []tiering.Location, reader string, pos int64) error {
	ctx, c := s.finishSegment.begin(ctx)
	err := s.Store.FinishSegment(ctx, seg, locations, reader, pos)
	c.end(err, batchSize(len(locations)))
	return err
}

func (s *warmStore) Locations(ctx context.Context, key tiering.Key) ([]tiering.Location, error) {
	ctx, c := s.locations.begin(ctx)
	ls, err := s.Store.Locations(ctx, key)
	c.end(err)
	return ls, err
}

func (s *warmStore) LocationsOf(ctx context.Context, keys []tiering.Key) (map[tiering.Key][]tiering.Location, error) {
	ctx, c := s.locations.begin(ctx)
	ls, err := s.Store.LocationsOf(ctx, keys)
	c.end(err)
	return ls, err
}

func (s *warmStore) Walk(ctx context.Context, after tiering.Key, limit int) ([]warm.Current, error) {
	ctx, c := s.walk.begin(ctx)
	items, err := s.Store.Walk(ctx, after, limit)
	c.end(err, attribute.Int("tierd.items", len(items)))
	return items, err
}

func (s *warmStore) Expired(ctx context.Context, limit int) ([]tiering.Key, error) {
	ctx, c := s.expired.begin(ctx)
	keys, err := s.Store.Expired(ctx, limit)
	c.end(err, attribute.Int("tierd.items", len(keys)))
	return keys, err
}

func (s *warmStore) Demote(ctx context.Context, key tiering.Key, version int64, idle time.Time) (bool, error) {
	ctx, c := s.demote.begin(ctx)
	done, err := s.Store.Demote(ctx, key, version, idle)
	c.end(err, attribute.Bool("tierd.moved", done))
	return done, err
}

func (s *warmStore) DemoteAll(ctx context.Context, of []warm.Demotion) ([]bool, error) {
	ctx, c := s.demote.begin(ctx)
	done, err := s.Store.DemoteAll(ctx, of)
	c.end(err, attribute.Bool("tierd.moved", slices.Contains(done, true)))
	return done, err
}

func (s *warmStore) Promote(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	ctx, c := s.promote.begin(ctx)
	done, err := s.Store.Promote(ctx, key, version, body)
	c.end(err, attribute.Bool("tierd.moved", done))
	return done, err
}

func (s *warmStore) Retire(ctx context.Context, key tiering.Key, versions []int64) (int, error) {
	ctx, c := s.retire.begin(ctx)
	n, err := s.Store.Retire(ctx, key, versions)
	c.end(err, attribute.Int("tierd.items", n))
	return n, err
}

func (s *warmStore) NoteAccess(ctx context.Context, reads []warm.Access) error {
	ctx, c := s.noteAccess.begin(ctx)
	err := s.Store.NoteAccess(ctx, reads)
	c.end(err, batchSize(len(reads)))
	return err
}

func (s *warmStore) Mend(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	ctx, c := s.mend.begin(ctx)
	done, err := s.Store.Mend(ctx, key, version, body)
	c.end(err, attribute.Bool("tierd.moved", done))
	return done, err
}
