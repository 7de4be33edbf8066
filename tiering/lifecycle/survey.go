package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// object is a segment in a bucket: what its index says, and what a rebuild
// learns from its records.
type object struct {
	name          string
	size          int64
	tenant, epoch string
	ranges        []tiering.Range
	count, raw    int64
	minTime       time.Time
	maxTime       time.Time
	maxVersion    int64
	revoked       []revocation // of API keys

	damaged bool
	sha     tiering.Digest // of the whole object
	lastAt  time.Time      // of the records that count
	// limits holds, for keys with records beyond the cut, the last version
	// that counts; 0 when none does.
	limits map[tiering.Key]int64
	// erased holds, for keys with records that count and that an erase order
	// takes, the last version that it takes.
	erased map[tiering.Key]int64
	taken  bool // an erase order takes some of it
}

// revocation is the deletion of an API key.
type revocation struct {
	id      string
	version int64
	at      time.Time
}

// Damage is a segment that cannot be read.
type Damage struct {
	Segment string `json:"segment"`
	Error   string `json:"error"`
}

// surveyed is what one bucket holds.
type surveyed struct {
	objects    []*object // in name order
	damaged    []Damage
	maxVersion int64
}

// surveyors is how many indexes are read at once: a bucket over a network
// answers slowly, and each index takes a few requests.
const surveyors = 8

// survey reads the index of every segment in a bucket. Segments that are
// damaged are told, not fatal; a bucket that cannot be read is.
func survey(ctx context.Context, b cold.Bucket) (*surveyed, error) {
	var list []cold.ObjectInfo
	for info, err := range b.List(ctx, cold.SegmentPrefix) {
		if err != nil {
			return nil, tiering.Wrap(err, "list segments", tiering.Cold, tiering.Key{})
		}
		list = append(list, info)
	}
	var mu sync.Mutex
	out := &surveyed{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(surveyors)
	for _, info := range list {
		g.Go(func() error {
			o, err := surveyOne(gctx, b, info)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, cold.ErrNotExist):
				return nil // a live store collected it since the list
			case tiering.CodeOf(err) == tiering.CodeCorrupt || tiering.CodeOf(err) == tiering.CodeUnsupported:
				out.damaged = append(out.damaged, Damage{info.Name, err.Error()})
				return nil
			case err != nil:
				return tiering.Wrap(err, "survey "+info.Name, tiering.Cold, tiering.Key{})
			case o != nil:
				out.objects = append(out.objects, o)
				out.maxVersion = max(out.maxVersion, o.maxVersion)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(out.objects, func(a, b *object) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(out.damaged, func(a, b Damage) int { return strings.Compare(a.Segment, b.Segment) })
	return out, nil
}

// surveyOne is nil for a name that is occupied.
func surveyOne(ctx context.Context, b cold.Bucket, info cold.ObjectInfo) (*object, error) {
	s, err := cold.Survey(ctx, b, info.Name, info.Size)
	if err != nil {
		// The marker of an occupied name is shorter than any segment.
		if info.Size < 256 {
			if data, rerr := b.Read(ctx, info.Name, 0, -1); rerr == nil && cold.Occupied(data) {
				return nil, nil //nolint:nilnil // nothing is there, and nothing is wrong
			}
		}
		return nil, err
	}
	o := &object{
		name: info.Name, size: info.Size, tenant: s.Tenant(), epoch: s.Epoch(), ranges: s.Ranges(),
		count: s.Count(), raw: s.RawSize(), minTime: s.MinTime(), maxTime: s.MaxTime(),
	}
	for e := range s.Index() {
		o.maxVersion = max(o.maxVersion, e.Version)
		if e.Key.Namespace == tiering.APIKeyNamespace && e.Op.Deleting() {
			o.revoked = append(o.revoked, revocation{e.Key.ID, e.Version, e.At})
		}
	}
	return o, nil
}

// starts reports whether anything of the object may count up to a position.
func (o *object) starts(to int64) bool {
	return !o.damaged && to > 0 && (len(o.ranges) == 0 || o.ranges[0].From <= to)
}
