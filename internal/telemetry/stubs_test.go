package telemetry

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/warm"
)

// The stubs answer every measured method with err and little else. A method
// they lack is a nil call, so one that is wrapped but not listed here fails.

type stubHot struct {
	hot.Store
	err error
}

func (s stubHot) Get(context.Context, tiering.Key, bool) (hot.Lookup, error) {
	return hot.Lookup{State: hot.Deleted}, s.err
}
func (s stubHot) Mark(context.Context, tiering.Key, hot.Token) error   { return s.err }
func (s stubHot) Unmark(context.Context, tiering.Key, hot.Token) error { return s.err }
func (s stubHot) Set(context.Context, hot.Set) (bool, error)           { return true, s.err }
func (s stubHot) Fill(context.Context, tiering.Key, hot.Token, hot.Entry, time.Duration) (bool, error) {
	return true, s.err
}
func (s stubHot) Drop(context.Context, tiering.Key, int64, int64) error { return s.err }
func (s stubHot) Swap(context.Context, tiering.Key, tiering.Condition, []byte, time.Duration) (hot.Entry, bool, error) {
	return hot.Entry{}, true, s.err
}
func (s stubHot) Scan(context.Context, string, string, string, func(tiering.Key) bool) error {
	return s.err
}
func (s stubHot) Ping(context.Context) error { return s.err }

type stubWarm struct {
	warm.Store
	err error
}

func (s stubWarm) Commit(_ context.Context, b *warm.Batch) ([][]warm.Result, error) {
	return make([][]warm.Result, len(b.Changes)), s.err
}
func (s stubWarm) Resolve(_ context.Context, b *warm.Batch) ([][]warm.Result, bool, error) {
	return nil, true, s.err
}
func (s stubWarm) Atomic(context.Context, uuid.UUID, []tiering.Key, *warm.Idempotency, func([]warm.Current) ([]warm.Change, error)) ([][]warm.Result, bool, error) {
	return [][]warm.Result{{{}}, {{}, {}}}, true, s.err
}
func (s stubWarm) Load(context.Context, tiering.Key) (warm.Current, error) {
	return warm.Current{}, s.err
}
func (s stubWarm) Head(context.Context, tiering.Key) (warm.Current, error) {
	return warm.Current{}, s.err
}
func (s stubWarm) Version(context.Context, tiering.Key, int64) (warm.Version, bool, error) {
	return warm.Version{}, true, s.err
}
func (s stubWarm) ReadVersions(context.Context, []warm.KeyVersion, int64) ([]warm.Version, error) {
	return nil, s.err
}
func (s stubWarm) AsOf(context.Context, tiering.Key, time.Time) (warm.Version, bool, error) {
	return warm.Version{}, true, s.err
}
func (s stubWarm) Versions(context.Context, tiering.Key, int64, int) ([]warm.Version, error) {
	return nil, s.err
}
func (s stubWarm) List(context.Context, warm.List) ([]warm.Current, error) { return nil, s.err }
func (s stubWarm) Query(context.Context, warm.Query) ([]warm.Current, string, error) {
	return nil, "", s.err
}
func (s stubWarm) ReadFeed(context.Context, int64, int) ([]warm.FeedEntry, error) { return nil, s.err }
func (s stubWarm) StartSegment(context.Context, tiering.SegmentInfo) error        { return s.err }
func (s stubWarm) FinishSegment(context.Context, tiering.SegmentInfo, []tiering.Location, string, int64) error {
	return s.err
}
func (s stubWarm) Locations(context.Context, tiering.Key) ([]tiering.Location, error) {
	return nil, s.err
}
func (s stubWarm) Walk(context.Context, tiering.Key, int) ([]warm.Current, error) { return nil, s.err }
func (s stubWarm) Expired(context.Context, int) ([]tiering.Key, error)            { return nil, s.err }
func (s stubWarm) Demote(context.Context, tiering.Key, int64, time.Time) (bool, error) {
	return true, s.err
}
func (s stubWarm) LocationsOf(context.Context, []tiering.Key) (map[tiering.Key][]tiering.Location, error) {
	return nil, s.err
}
func (s stubWarm) DemoteAll(context.Context, []warm.Demotion) ([]bool, error) {
	return []bool{true}, s.err
}
func (s stubWarm) Promote(context.Context, tiering.Key, int64, []byte) (bool, error) {
	return true, s.err
}
func (s stubWarm) Mend(context.Context, tiering.Key, int64, []byte) (bool, error) {
	return true, s.err
}
func (s stubWarm) Retire(context.Context, tiering.Key, []int64) (int, error) { return 1, s.err }
func (s stubWarm) NoteAccess(context.Context, []warm.Access) error           { return s.err }
func (s stubWarm) Ping(context.Context) error                                { return s.err }

type stubBucket struct {
	cold.Bucket
	err error
}

func (s stubBucket) Create(context.Context, string, io.ReadSeeker, int64) error { return s.err }
func (s stubBucket) Read(_ context.Context, _ string, _, length int64) ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	return make([]byte, length), nil
}
func (s stubBucket) Stat(context.Context, string) (cold.ObjectInfo, error) {
	return cold.ObjectInfo{}, s.err
}
func (s stubBucket) List(context.Context, string) iter.Seq2[cold.ObjectInfo, error] {
	return func(yield func(cold.ObjectInfo, error) bool) {
		if yield(cold.ObjectInfo{Name: "a"}, nil) && s.err != nil {
			yield(cold.ObjectInfo{}, s.err)
		}
	}
}
func (s stubBucket) Delete(context.Context, string) error { return s.err }
func (s stubBucket) Ping(context.Context) error           { return s.err }

// callAll calls every measured method once, over stubs that answer err.
func callAll(ctx context.Context, t *Telemetry, err error) {
	var k tiering.Key
	h := t.Hot(stubHot{err: err})
	_, _ = h.Get(ctx, k, true)
	_ = h.Mark(ctx, k, 1)
	_ = h.Unmark(ctx, k, 1)
	_, _ = h.Set(ctx, hot.Set{})
	_, _ = h.Fill(ctx, k, 1, hot.Entry{}, 0)
	_ = h.Drop(ctx, k, 0, 0)
	_, _, _ = h.Swap(ctx, k, tiering.Condition{}, nil, 0)
	_ = h.Scan(ctx, "", "", "", nil)
	_ = h.Ping(ctx)

	w := t.Warm(stubWarm{err: err})
	b := &warm.Batch{Changes: []warm.Change{{Rows: make([]warm.Row, 1)}, {Rows: make([]warm.Row, 2)}}}
	_, _ = w.Commit(ctx, b)
	_, _, _ = w.Resolve(ctx, b)
	_, _, _ = w.Atomic(ctx, uuid.UUID{}, nil, nil, nil)
	_, _ = w.Load(ctx, k)
	_, _ = w.Head(ctx, k)
	_, _, _ = w.Version(ctx, k, 1)
	_, _ = w.ReadVersions(ctx, nil, 1)
	_, _, _ = w.AsOf(ctx, k, time.Time{})
	_, _ = w.Versions(ctx, k, 0, 1)
	_, _ = w.List(ctx, warm.List{})
	_, _, _ = w.Query(ctx, warm.Query{})
	_, _ = w.ReadFeed(ctx, 0, 1)
	_ = w.StartSegment(ctx, tiering.SegmentInfo{})
	_ = w.FinishSegment(ctx, tiering.SegmentInfo{}, nil, "", 0)
	_, _ = w.Locations(ctx, k)
	_, _ = w.Walk(ctx, k, 1)
	_, _ = w.Expired(ctx, 1)
	_, _ = w.Demote(ctx, k, 1, time.Time{})
	_, _ = w.LocationsOf(ctx, nil)
	_, _ = w.DemoteAll(ctx, nil)
	_, _ = w.Promote(ctx, k, 1, nil)
	_, _ = w.Mend(ctx, k, 1, nil)
	_, _ = w.Retire(ctx, k, nil)
	_ = w.NoteAccess(ctx, nil)
	_ = w.Ping(ctx)

	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		b := t.Bucket(stubBucket{err: err}, c)
		_ = b.Create(ctx, "o", nil, 7)
		_, _ = b.Read(ctx, "o", 0, 5)
		_, _ = b.Stat(ctx, "o")
		for range b.List(ctx, "") {
			continue
		}
		_ = b.Delete(ctx, "o")
		_ = b.Ping(ctx)
	}

	r := t.Router()
	r.Load(tiering.Hot, time.Millisecond, err)
	r.Corrupt(tiering.Warm)
	r.HotLookup(true)
	r.HotMissed()
	r.StateSize(1000, true)
	r.Batch(3)
	r.SummaryCall(time.Second, err)
	r.ContextSummary(tiering.SummaryModel)
	_, end := r.Commit(ctx, "put", tiering.Key{Tenant: "t", Namespace: "chat", ID: "a/b"})
	end(4, "open", "closed", err)

	l := t.Lifecycle()
	l.FeedLag(1)
	l.Due(tiering.MoveDemote, 1)
	l.Stored(tiering.Cold, tiering.Backup, 1)
	l.Parked(1)
	l.ArchiveLag(2, 3*time.Second)
	l.MissingCopies(tiering.Backup, 4)
	l.Indexed(vector.Stats{Memories: 3, Vectors: 3, Fresh: 1}, 1)
	l.CopyChecked(tiering.Backup, err)
	l.CopyRepaired(tiering.Backup, err)
	l.Moved(tiering.MoveDemote, true, err)

	t.Server().Request("GET /v1/status", "GET", 200, time.Millisecond)
}
