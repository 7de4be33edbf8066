package lifecycle

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// Gap is a run of a tenant's feed that no sound segment of the bucket covers.
// What comes behind it does not count.
type Gap struct {
	Tenant string `json:"tenant"`
	Epoch  string `json:"epoch"`
	From   int64  `json:"from"` // the first position that is missing
	To     int64  `json:"to"`   // the last; 0 when only the successor's marker says that there was more
	// Segments and Records lie wholly beyond it and are left out.
	Segments int   `json:"segments"`
	Records  int64 `json:"records"`
}

// extent returns the end of the run of covered positions that starts at the
// first one, 0 for none, and where the next run begins, 0 for nowhere.
func extent(objects []*object) (to, next int64) {
	var ranges []tiering.Range
	for _, o := range objects {
		if !o.damaged {
			ranges = append(ranges, o.ranges...)
		}
	}
	slices.SortFunc(ranges, func(a, b tiering.Range) int { return cmp.Compare(a.From, b.From) })
	for _, r := range ranges {
		if r.From > to+1 {
			return to, r.From
		}
		to = max(to, r.To)
	}
	return to, 0
}

// stretch is what counts of one life for one tenant: everything up to a feed
// position, 0 for nothing.
type stretch struct {
	span    *span
	to      int64
	objects []*object // all of that life and tenant
}

// counting returns the objects that hold something that counts.
func (s stretch) counting() []*object {
	var out []*object
	for _, o := range s.objects {
		if o.starts(s.to) {
			out = append(out, o)
		}
	}
	return out
}

// coverage is what counts for a tenant.
type coverage struct {
	stretches []stretch
	gaps      []Gap
	// timed: the time asked for ended it, not what is there.
	timed bool
}

// cover finds what counts for a tenant: each life up to its successor's cut, the
// last one up to its end or the time asked for, and nothing behind the first
// gap.
func (r *rebuild) cover(ctx context.Context, tenant string) (coverage, error) {
	var c coverage
	broken := false
	for i := range r.spans {
		s := &r.spans[i]
		st := stretch{span: s, objects: r.groups[group{tenant, s.Epoch}]}
		to, next := extent(st.objects)
		if !s.open {
			if cut := s.Cuts[tenant]; to >= cut {
				to, next = cut, 0
			} else if next == 0 || next > cut {
				next = cut + 1
			}
		}
		last := !s.skip && (i == len(r.spans)-1 || r.spans[i+1].skip)
		if last && !r.AsOf.IsZero() && !broken {
			at, err := asOfCut(ctx, r.bucket, st.objects, to, r.AsOf)
			if err != nil {
				return c, err
			}
			if next == 0 || at < to {
				c.timed, next = true, 0
			}
			to = at
		}
		if broken || s.skip {
			to, next = 0, 0
		}
		st.to = to
		if next > 0 {
			broken = true
			c.gaps = append(c.gaps, gapAfter(tenant, st, next))
		}
		c.stretches = append(c.stretches, st)
	}
	return c, nil
}

func gapAfter(tenant string, st stretch, next int64) Gap {
	g := Gap{Tenant: tenant, Epoch: st.span.Epoch, From: st.to + 1, To: next - 1}
	for _, o := range st.objects {
		if !o.damaged && !o.starts(st.to) {
			g.Segments++
			g.Records += o.count
		}
	}
	return g
}

// asOfCut returns the last position, up to a bound, up to which every change was
// made at or before t. Times do not grow with positions where transactions ran
// beside each other: what comes behind one that is too late is left out, though
// its own clock be earlier. A position without a record says nothing, so that
// what retention dropped moves no cut.
func asOfCut(ctx context.Context, b cold.Bucket, objects []*object, bound int64, t time.Time) (int64, error) {
	cut, tooLate := int64(0), int64(math.MaxInt64)
	look := func(o *object) error {
		s, _, err := openWhole(ctx, b, o)
		if err != nil {
			return err
		}
		for rec, err := range s.Records() {
			if err != nil {
				return &damagedError{o, err}
			}
			if rec.At.After(t) {
				tooLate = min(tooLate, rec.Pos)
			} else if rec.Pos <= bound {
				cut = max(cut, rec.Pos)
			}
		}
		return nil
	}
	var late []*object // has nothing but later records
	for _, o := range objects {
		switch {
		case !o.starts(bound) || o.count == 0:
		case o.minTime.After(t):
			late = append(late, o)
		case !o.maxTime.After(t) && len(o.ranges) == 1:
			cut = max(cut, min(o.ranges[0].To, bound))
		default:
			if err := look(o); err != nil {
				return 0, err
			}
		}
	}
	for _, o := range late {
		// Its ranges begin where its first record was, before retention took it.
		if !slices.ContainsFunc(o.ranges, func(r tiering.Range) bool { return r.From <= min(cut, tooLate-1) }) {
			continue
		}
		if err := look(o); err != nil {
			return 0, err
		}
	}
	return min(cut, tooLate-1), nil
}

// damagedError is a segment that turned out to be damaged when it was read.
type damagedError struct {
	object *object
	err    error
}

func (e *damagedError) Error() string { return e.object.name + ": " + e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

// openWhole reads an object and checks all of it but the records.
func openWhole(ctx context.Context, b cold.Bucket, o *object) (*cold.Segment, []byte, error) {
	data, err := b.Read(ctx, o.name, 0, -1)
	if err != nil {
		return nil, nil, tiering.Wrap(err, "read "+o.name, tiering.Cold, tiering.Key{})
	}
	s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, nil, &damagedError{o, err}
	}
	return s, data, nil
}
