package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// Depth is how closely a verification looks.
type Depth string

// The depths, each with everything of those before.
const (
	// DepthList compares the catalog with the lists of both buckets.
	DepthList Depth = "list"
	// DepthHash reads every copy whole, and compares size and SHA-256.
	DepthHash Depth = "hash"
	// DepthRestore decodes every copy down to each record and its digest, and
	// checks that every location of the catalog is served and every document
	// that stands can be read.
	DepthRestore Depth = "restore"
)

// VerifyOptions shape a verification. The zero value lists.
type VerifyOptions struct {
	Depth Depth
	// Repair makes again what is not sound, from what is.
	Repair bool
	// Progress is told how many bytes of how many were looked at. It may be
	// called from many goroutines.
	Progress func(done, total int64)
}

// VerifyReport says what a verification looked at and what is wrong.
type VerifyReport struct {
	Depth     Depth         `json:"depth"`
	Segments  int64         `json:"segments"`
	Bytes     int64         `json:"bytes"`     // of copies
	Records   int64         `json:"records"`   // decoded
	Locations int64         `json:"locations"` // compared
	Documents int64         `json:"documents"` // read
	Faults    []Fault       `json:"faults,omitempty"`
	Strangers []Stranger    `json:"strangers,omitempty"`
	Repaired  int           `json:"repaired"`
	Took      time.Duration `json:"took_ns"`
}

// Sound reports whether nothing is wrong any more.
func (r *VerifyReport) Sound() bool { return len(r.Faults) == r.Repaired }

// Fault is one thing that is wrong.
type Fault struct {
	// What is missing, bad or unreachable of a copy; location where a segment
	// does not hold what the catalog says; document where one that stands
	// cannot be read.
	What    string `json:"what"`
	Object  string `json:"object,omitempty"`
	Copy    string `json:"copy,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Key     string `json:"key,omitempty"`
	Version int64  `json:"version,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Repaired: it is right again.
	Repaired bool `json:"repaired"`
}

// Stranger is an object that the catalog does not know: left over from a crash,
// or from before a rebuild. It harms nobody, and is collected in time.
type Stranger struct {
	Object string `json:"object"`
	Copy   string `json:"copy"`
	Size   int64  `json:"size"`
}

// Verify looks at both copies of everything in cold. What it finds bad or
// missing is marked in the catalog, so that nothing counts on it; with Repair
// it is made again. An error means that it could not look; what is wrong is in
// the report.
func (e *Engine) Verify(ctx context.Context, o VerifyOptions) (*VerifyReport, error) {
	began := time.Now()
	switch o.Depth {
	case "":
		o.Depth = DepthList
	case DepthList, DepthHash, DepthRestore:
	default:
		return nil, tiering.Invalidf("unknown depth %q: use list, hash or restore", o.Depth)
	}
	v := &verification{Engine: e, VerifyOptions: o}
	v.report.Depth = o.Depth
	err := v.run(ctx)
	v.report.Took = time.Since(began)
	return &v.report, tiering.Wrap(err, "verify", "", tiering.Key{})
}

// verification is one run.
type verification struct {
	*Engine
	VerifyOptions
	report VerifyReport
	sizes  [2]map[string]int64 // by name; nil: the bucket cannot be listed
	known  map[string]bool     // names that the catalog has
	total  int64
	done   int64
}

func (v *verification) run(ctx context.Context) error {
	if err := v.list(ctx); err != nil {
		return err
	}
	if err := v.signs(ctx); err != nil {
		return err
	}
	var segments []tiering.SegmentInfo
	v.known = map[string]bool{}
	err := v.eachSegment(ctx, "", "", func(s tiering.SegmentInfo) error {
		v.known[s.Name] = true
		if s.State == tiering.SegmentFinished {
			segments = append(segments, s)
			v.total += 2 * s.Size
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := v.segment(ctx, s); err != nil {
			return err
		}
	}
	if err := v.strangers(ctx); err != nil {
		return err
	}
	if v.Depth != DepthRestore {
		return nil
	}
	return v.documents(ctx)
}

// fault adds to the report.
func (v *verification) fault(f Fault) {
	v.report.Faults = append(v.report.Faults, f)
	if f.Repaired {
		v.report.Repaired++
	}
}

// list lists both buckets, before the catalog is read: what is in the catalog
// and not in the list may be younger than the list.
func (v *verification) list(ctx context.Context) error {
	for _, c := range bothCopies() {
		sizes := map[string]int64{}
		for info, err := range v.Archive.Bucket(c).List(ctx, "") {
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				v.fault(Fault{What: "unreachable", Copy: c.String(), Detail: err.Error()})
				sizes = nil
				break
			}
			sizes[info.Name] = info.Size
		}
		v.sizes[c] = sizes
	}
	return nil
}

// segment looks at both copies of one segment.
func (v *verification) segment(ctx context.Context, s tiering.SegmentInfo) error {
	v.report.Segments++
	faults := [2]*Fault{}
	var opened *cold.Segment
	for _, c := range bothCopies() {
		if v.sizes[c] == nil {
			continue
		}
		seg, err := v.look(ctx, s, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if seg != nil {
			opened = seg
		}
		v.step(s.Size)
		state, known := stateOf(err)
		if known && (state != tiering.CopyVerified || v.Depth != DepthList) {
			if err := v.noteCopy(ctx, &s, c, state); err != nil {
				return v.unlessGone(ctx, s.Name, err)
			}
		}
		if err != nil {
			what := "unreachable"
			if known {
				what = string(state)
			}
			faults[c] = &Fault{What: what, Object: s.Name, Copy: c.String(), Tenant: s.Tenant, Detail: err.Error()}
		}
	}
	if faults[0] != nil || faults[1] != nil {
		now, ok, err := v.Warm.Segment(ctx, s.Name)
		if err != nil || !ok || now.State != tiering.SegmentFinished {
			return err // it was collected while it was looked at
		}
	}
	for _, c := range bothCopies() {
		f := faults[c]
		if f == nil {
			continue
		}
		if v.Repair && f.What != "unreachable" && faults[tiering.Backup-c] == nil && v.sizes[tiering.Backup-c] != nil {
			switch err := v.repairCopy(ctx, &s, c); {
			case err == nil, errors.Is(err, errMovedOn):
				f.Repaired = true
			case ctx.Err() != nil:
				return ctx.Err()
			default:
				f.Detail += fmt.Sprintf("; it could not be made again: %v", err)
			}
		}
		v.fault(*f)
	}
	if opened == nil {
		return nil
	}
	return v.locations(ctx, s, opened)
}

// unlessGone drops an error about a segment that is not in the catalog any more.
func (v *verification) unlessGone(ctx context.Context, name string, err error) error {
	if _, ok, askErr := v.Warm.Segment(ctx, name); askErr == nil && !ok {
		return nil
	}
	return err
}

// look checks one copy to the depth asked for.
func (v *verification) look(ctx context.Context, s tiering.SegmentInfo, c tiering.Copy) (*cold.Segment, error) {
	if v.Depth != DepthList {
		v.report.Bytes += s.Size
		seg, err := v.checkCopy(ctx, s, c, v.Depth == DepthRestore)
		v.Recorder.CopyChecked(c, err)
		if seg != nil {
			v.report.Records += seg.Count()
		}
		return seg, err
	}
	size, ok := v.sizes[c][s.Name]
	if !ok { // younger than the list, or gone
		info, err := v.Archive.Bucket(c).Stat(ctx, s.Name)
		if errors.Is(err, cold.ErrNotExist) {
			return nil, tiering.Errorf(tiering.CodeNotFound, "the object is gone")
		}
		if err != nil {
			return nil, tiering.Wrap(err, "stat "+s.Name+" in "+c.String(), tiering.Cold, tiering.Key{})
		}
		size = info.Size
	}
	if size != s.Size {
		return nil, tiering.Errorf(tiering.CodeCorrupt, "the object has %d bytes, the catalog says %d", size, s.Size)
	}
	return nil, nil //nolint:nilnil // it was not opened, and nothing is wrong
}

func (v *verification) step(n int64) {
	v.done += n
	if v.Progress != nil {
		v.Progress(v.done, v.total)
	}
}

// locations compares what the catalog says that a segment holds with what it
// does.
func (v *verification) locations(ctx context.Context, s tiering.SegmentInfo, seg *cold.Segment) error {
	holds := map[tiering.Key]tiering.Location{}
	for _, l := range seg.Locations(s.Name) {
		holds[l.Key] = l
	}
	var after tiering.Key
	for {
		keys, err := v.Warm.KeysIn(ctx, s.Name, after, walkPage)
		if err != nil {
			return err
		}
		for _, k := range keys {
			after = k
			locs, err := v.Warm.Locations(ctx, k)
			if err != nil {
				return err
			}
			for _, l := range locs {
				if l.Segment != s.Name {
					continue
				}
				v.report.Locations++
				if detail := served(l, holds[k]); detail != "" {
					v.fault(Fault{What: "location", Object: s.Name, Tenant: k.Tenant, Key: k.String(), Detail: detail})
				}
			}
		}
		if len(keys) < walkPage {
			return nil
		}
	}
}

// served says what of a location the segment does not hold, "" for nothing. A
// location may name less than the segment holds.
func served(l, have tiering.Location) string {
	switch {
	case have.Segment == "":
		return "the segment holds nothing of the key"
	case l.MaxVersion == 0:
		return ""
	case l.MinVersion < have.MinVersion || l.MaxVersion > have.MaxVersion:
		return fmt.Sprintf("the catalog says versions %d to %d, the segment holds %d to %d", l.MinVersion, l.MaxVersion, have.MinVersion, have.MaxVersion)
	}
	for _, b := range l.Blocks {
		if !slices.Contains(have.Blocks, b) {
			return fmt.Sprintf("the catalog says that a block is at %d, the segment has none there", b.Offset)
		}
	}
	return ""
}

// strangers tells the objects that are no part of what is known. An upload
// under way is in the catalog before it is in a bucket.
func (v *verification) strangers(ctx context.Context) error {
	for _, c := range bothCopies() {
		for name, size := range v.sizes[c] {
			if v.known[name] || isSign(name) {
				continue
			}
			if _, ok, err := v.Warm.Segment(ctx, name); err != nil || ok {
				if err != nil {
					return err
				}
				continue
			}
			data, err := v.Archive.Bucket(c).Read(ctx, name, 0, min(size, occupiedAtMost))
			if err != nil || cold.Occupied(data) {
				continue // it went meanwhile, or holds a name that an erase took
			}
			v.report.Strangers = append(v.report.Strangers, Stranger{Object: name, Copy: c.String(), Size: size})
		}
	}
	slices.SortFunc(v.report.Strangers, func(a, b Stranger) int { return strings.Compare(a.Object+" "+a.Copy, b.Object+" "+b.Copy) })
	return nil
}

// occupiedAtMost is more than the marker of an occupied name holds, in bytes.
const occupiedAtMost = 256
