package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// DrillOptions say how a drill is done. Open is required.
type DrillOptions struct {
	// From is the bucket that is put to the test.
	From tiering.Copy
	// Open makes an empty scratch store. The drill closes it; taking away what
	// it leaves on a disk is the caller's.
	Open func(context.Context) (warm.Store, error)
	// Progress is that of a rebuild.
	Progress func(done, total int64)
}

// DrillReport says what a drill found.
type DrillReport struct {
	From      string `json:"from"`
	Documents int64  `json:"documents"` // compared: they stand in the running store
	Bytes     int64  `json:"bytes"`     // of them
	// Waiting counts documents whose newest change was not archived when the
	// drill began, or came later.
	Waiting     int64          `json:"waiting"`
	Differences []Difference   `json:"differences,omitempty"`
	Rebuild     *RebuildReport `json:"rebuild"`
	Took        time.Duration  `json:"took_ns"`
}

// Sound reports whether the bucket gave back everything.
func (r *DrillReport) Sound() bool {
	return len(r.Differences) == 0 && r.Rebuild != nil && len(r.Rebuild.Gaps) == 0 && len(r.Rebuild.Damaged) == 0
}

// Difference is a document that came back otherwise than it stands.
type Difference struct {
	Tenant  string `json:"tenant"`
	Key     string `json:"key"`
	Version int64  `json:"version"` // that stands, 0 for none
	Got     int64  `json:"got"`     // that came back, 0 for none
	Detail  string `json:"detail"`
}

// Drill rebuilds a scratch store from one bucket alone, and compares every
// document that stands in the running store, and was archived, with what came
// back: its version and the digest of its bytes. Nothing is written to the
// buckets or the running store.
func (e *Engine) Drill(ctx context.Context, o DrillOptions) (report *DrillReport, err error) {
	began := time.Now()
	d := &drill{Engine: e, report: DrillReport{From: o.From.String()}, finished: map[string]bool{}}
	defer func() { d.report.Took = time.Since(began) }()
	if d.began, err = e.Warm.Now(ctx); err != nil {
		return &d.report, tiering.Wrap(err, "drill", tiering.Warm, tiering.Key{})
	}
	err = e.eachSegment(ctx, "", tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		d.finished[s.Name] = true
		return nil
	})
	if err != nil {
		return &d.report, tiering.Wrap(err, "drill", tiering.Warm, tiering.Key{})
	}
	if d.scratch, err = o.Open(ctx); err != nil {
		return &d.report, tiering.Wrap(err, "open the scratch store", tiering.Warm, tiering.Key{})
	}
	defer func() { err = errors.Join(err, d.scratch.Close()) }()
	d.report.Rebuild, err = Rebuild(ctx, RebuildOptions{
		Archive: e.Archive, From: o.From, Warm: d.scratch, Now: d.began, Scratch: true, Progress: o.Progress,
	})
	if err != nil {
		return &d.report, err
	}
	return &d.report, tiering.Wrap(d.compare(ctx), "drill", tiering.Warm, tiering.Key{})
}

// drill is one run.
type drill struct {
	*Engine
	report   DrillReport
	scratch  warm.Store
	began    time.Time
	finished map[string]bool // segments that the buckets held when it began
}

// compare walks both stores side by side, in key order.
func (d *drill) compare(ctx context.Context) error {
	running, scratch := &walk{store: d.Warm}, &walk{store: d.scratch}
	a, err := running.next(ctx)
	if err != nil {
		return err
	}
	b, err := scratch.next(ctx)
	for err == nil && (a != nil || b != nil) {
		switch order := compareHeads(a, b); {
		case order == 0:
			if err = d.one(ctx, *a, *b); err == nil {
				a, err = running.next(ctx)
			}
			if err == nil {
				b, err = scratch.next(ctx)
			}
		case order < 0:
			if err = d.one(ctx, *a, warm.Current{}); err == nil {
				a, err = running.next(ctx)
			}
		default:
			if err = d.one(ctx, warm.Current{Head: warm.Head{Key: b.Head.Key}}, *b); err == nil {
				b, err = scratch.next(ctx)
			}
		}
	}
	return err
}

// compareHeads orders two heads by key; nil is behind everything.
func compareHeads(a, b *warm.Current) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Head.Key.Compare(b.Head.Key)
}

// one compares what stands under a key with what came back.
func (d *drill) one(ctx context.Context, stands, back warm.Current) error {
	h, got := stands.Head, back.Head
	live := h.Live(d.began)
	if !live && !got.Live(d.began) {
		return nil
	}
	if live {
		d.report.Documents++
		d.report.Bytes += h.Size
	}
	detail, err := d.differs(ctx, h, got, live)
	if detail == "" || err != nil {
		return err
	}
	waiting, err := d.waits(ctx, h, got)
	switch {
	case err != nil:
		return err
	case waiting:
		d.report.Waiting++
		return nil
	}
	d.report.Differences = append(d.report.Differences, Difference{
		Tenant: h.Key.Tenant, Key: h.Key.String(), Version: h.Standing(d.began), Got: got.Standing(d.began), Detail: detail,
	})
	return nil
}

// differs says what of a document did not come back, "" for nothing.
func (d *drill) differs(ctx context.Context, h, got warm.Head, live bool) (string, error) {
	switch {
	case !live && h.Version == got.Version:
		return "", nil // a session: it expired meanwhile, and one that is restored lives on
	case !live:
		return "it came back and does not stand", nil
	case got.Version == 0:
		return "it did not come back", nil
	case got.Version != h.Version:
		return "another version came back", nil
	case got.Digest != h.Digest:
		return "it came back with another digest", nil
	case got.Revision == h.Revision && (got.User != h.User || got.Pinned != h.Pinned):
		return "its owner or pin came back otherwise", nil
	}
	cur, err := d.scratch.Load(ctx, h.Key)
	if err != nil {
		return "", err
	}
	// What had expired in the scratch store has no body, and was compared.
	if cur.Body != nil && tiering.DigestOf(cur.Body) != h.Digest {
		return "its bytes came back damaged", nil
	}
	return "", nil
}

// waits reports whether the last change of a key was not in the buckets when
// the drill began: then it could not come back.
func (d *drill) waits(ctx context.Context, h, got warm.Head) (bool, error) {
	now, err := d.Warm.Head(ctx, h.Key)
	if err != nil {
		return false, err
	}
	if now.Head.Version == 0 {
		return h.Version > 0, nil // erased since it was compared
	}
	if got.Version > now.Head.Version {
		return false, nil // the running store went back
	}
	if !now.Head.UpdatedAt.Before(d.began) || now.Head.Version != h.Version {
		return true, nil
	}
	locs, err := d.Warm.Locations(ctx, h.Key)
	if err != nil {
		return false, err
	}
	for _, l := range locs {
		if _, ok := l.Block(h.Version); !ok {
			continue
		}
		if d.finished[l.Segment] {
			return false, nil
		}
	}
	return true, nil
}

// walk reads the heads of a store one by one.
type walk struct {
	store warm.Mover
	page  []warm.Current
	after tiering.Key
	ended bool
}

// next returns the next head, nil at the end.
func (w *walk) next(ctx context.Context) (*warm.Current, error) {
	if len(w.page) == 0 && !w.ended {
		var err error
		if w.page, err = w.store.Walk(ctx, w.after, walkPage); err != nil {
			return nil, err
		}
		w.ended = len(w.page) < walkPage
	}
	if len(w.page) == 0 {
		return nil, nil //nolint:nilnil // the end
	}
	cur := w.page[0]
	w.page, w.after = w.page[1:], cur.Head.Key
	return &cur, nil
}
