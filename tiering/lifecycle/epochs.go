package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// MarkersPrefix is what the names of all successor markers start with.
const MarkersPrefix = "epoch/"

// markerFormat is the version of the form that markers are written in.
const markerFormat = 1

// Marker says which life of the store followed another, and what of the lives
// before still counts in it. It lies in every bucket under the parent's name
// and is created there, never replaced, before the child takes its first write:
// a life has one successor. A marker tells everything about the lives before
// its own, so the last one of a lineage is all that a rebuild needs.
type Marker struct {
	Format    int       `json:"format"`
	Epoch     string    `json:"epoch"` // the life that began
	Parent    string    `json:"parent"`
	CreatedAt time.Time `json:"created_at"`
	// Floor is below every version that Epoch made.
	Floor int64 `json:"floor"`
	// Cuts and Shifts are those of the parent; see Life.
	Cuts   map[string]int64 `json:"cuts"`
	Shifts map[string]int64 `json:"shifts,omitempty"`
	// Before holds the lives before the parent, oldest first.
	Before []Life `json:"before,omitempty"`
	// Revoked holds, by tenant, the ids of API keys whose revocation lies
	// beyond a cut. It applies all the same, for ever.
	Revoked map[string][]string `json:"revoked,omitempty"`
}

// Life is what counts of a life of the store that is over. Both maps are by
// tenant.
type Life struct {
	Epoch string `json:"epoch"`
	// Cuts is the last feed position that counts. Of a tenant that is not
	// there nothing does.
	Cuts map[string]int64 `json:"cuts"`
	// Shifts is by how many nanoseconds sliding expiries moved forward until
	// the marker was made, because the store stood still meanwhile.
	Shifts map[string]int64 `json:"shifts,omitempty"`
}

// markerName is the object of the marker that says what followed parent.
func markerName(parent string) string { return MarkersPrefix + strings.ToLower(parent) + ".json" }

// Name is the object that the marker lies under.
func (m Marker) Name() string { return markerName(m.Parent) }

// Lives returns everything that the marker says about the lives before its
// own, oldest first.
func (m Marker) Lives() []Life {
	return append(slices.Clone(m.Before), Life{Epoch: m.Parent, Cuts: m.Cuts, Shifts: m.Shifts})
}

// Encode returns the bytes of the marker's object.
func (m Marker) Encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		return nil // times beyond the year 9999 alone fail
	}
	return append(b, '\n')
}

// DecodeMarker reads a marker's object: corrupt when it is none, unsupported
// when a later tierd wrote it.
func DecodeMarker(b []byte) (Marker, error) {
	var m Marker
	if err := strictly(b, &m); err != nil {
		return Marker{}, tiering.Errorf(tiering.CodeCorrupt, "not a successor marker: %v", err)
	}
	switch {
	case m.Format > markerFormat:
		return Marker{}, tiering.Errorf(tiering.CodeUnsupported, "the marker has format %d, this program reads %d", m.Format, markerFormat)
	case m.Format != markerFormat || m.Epoch == "" || m.Parent == "" || m.Epoch == m.Parent:
		return Marker{}, tiering.Errorf(tiering.CodeCorrupt, "the marker lacks what every marker has")
	}
	return m, nil
}

// readMarkers returns the markers of a bucket.
func readMarkers(ctx context.Context, b cold.Bucket) ([]Marker, error) {
	var out []Marker
	for info, err := range b.List(ctx, MarkersPrefix) {
		if err != nil {
			return nil, tiering.Wrap(err, "list markers", tiering.Cold, tiering.Key{})
		}
		m, err := readMarker(ctx, b, info.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func readMarker(ctx context.Context, b cold.Bucket, name string) (Marker, error) {
	data, err := b.Read(ctx, name, 0, -1)
	if err != nil {
		return Marker{}, tiering.Wrap(err, "read "+name, tiering.Cold, tiering.Key{})
	}
	m, err := DecodeMarker(data)
	if err == nil && m.Name() != name {
		err = tiering.Errorf(tiering.CodeCorrupt, "the marker is of %s", m.Parent)
	}
	return m, tiering.Wrap(err, "read "+name, tiering.Cold, tiering.Key{})
}

// createMarker writes a marker. Another one under its name is a conflict: that
// life of the store has a successor already.
func createMarker(ctx context.Context, b cold.Bucket, m Marker) error {
	data := m.Encode()
	created := b.Create(ctx, m.Name(), bytes.NewReader(data), int64(len(data)))
	// What lies there counts, whatever Create said: its reply may be lost.
	have, err := b.Read(ctx, m.Name(), 0, -1)
	switch {
	case err != nil:
		return tiering.Wrap(errors.Join(created, err), "write "+m.Name(), tiering.Cold, tiering.Key{})
	case !bytes.Equal(have, data):
		return &tiering.Error{Op: "write " + m.Name(), Tier: tiering.Cold, Code: tiering.CodeFenced,
			Detail: "another rebuild from the same life of the store was faster: start over, to go on from that one"}
	}
	return nil
}

// Lineage is the order of the lives of a store, as its markers tell it.
type Lineage struct {
	epochs  []string // oldest first
	markers []Marker // markers[i] says what followed epochs[i]
}

// Before reports whether life a came before life b. known is false when one of
// them is not of the lineage.
func (l *Lineage) Before(a, b string) (before, known bool) {
	i, j := slices.Index(l.epochs, a), slices.Index(l.epochs, b)
	return i < j, i >= 0 && j >= 0
}

// cut is the last feed position of a life that is over that counts of a tenant;
// 0 when nothing does.
func (l *Lineage) cut(epoch, tenant string) int64 {
	if n := len(l.markers); n > 0 {
		for _, life := range l.markers[n-1].Lives() {
			if life.Epoch == epoch {
				return life.Cuts[tenant]
			}
		}
	}
	return 0
}

// floor is below every version that the last life made, and not below any other.
func (l *Lineage) floor() int64 {
	if n := len(l.markers); n > 0 {
		return l.markers[n-1].Floor
	}
	return 0
}

// tip is the last life.
func (l *Lineage) tip() string { return l.epochs[len(l.epochs)-1] }

// traceLineage orders the lives that a bucket knows of: those that its segments
// are of, and those that markers name. It refuses when they are not one line.
func traceLineage(epochs []string, markers []Marker) (*Lineage, error) {
	next := map[string]Marker{}
	child := map[string]bool{}
	all := map[string]bool{}
	for _, e := range epochs {
		all[e] = true
	}
	for _, m := range markers {
		if have, ok := next[m.Parent]; ok && have.Epoch != m.Epoch {
			return nil, tiering.Errorf(tiering.CodeCorrupt, "the buckets name two successors of epoch %s: %s and %s", m.Parent, have.Epoch, m.Epoch)
		}
		next[m.Parent] = m
		child[m.Epoch] = true
		all[m.Parent], all[m.Epoch] = true, true
	}
	var roots []string
	for _, e := range slices.Sorted(maps.Keys(all)) {
		if !child[e] {
			roots = append(roots, e)
		}
	}
	switch {
	case len(all) == 0:
		return nil, tiering.Errorf(tiering.CodeNotFound, "the bucket holds nothing to rebuild from")
	case len(roots) != 1:
		return nil, tiering.Errorf(tiering.CodeCorrupt, "the bucket holds %d lives of a store (epochs %s) and no marker under %s says which followed which: "+
			"bring back the markers from the other bucket, or keep one store to a bucket and prefix", len(roots), strings.Join(roots, ", "), MarkersPrefix)
	}
	l := &Lineage{epochs: roots}
	for {
		m, ok := next[l.tip()]
		if !ok {
			break
		}
		l.epochs, l.markers = append(l.epochs, m.Epoch), append(l.markers, m)
		if len(l.epochs) > len(all) {
			return nil, tiering.Errorf(tiering.CodeCorrupt, "the markers go in a circle at epoch %s", m.Epoch)
		}
	}
	return l, l.check()
}

// check requires each marker to tell about all lives before its own: of a life
// that it leaves out nothing would count.
func (l *Lineage) check() error {
	for i, m := range l.markers {
		var told []string
		for _, life := range m.Lives() {
			told = append(told, life.Epoch)
		}
		if !slices.Equal(told, l.epochs[:i+1]) {
			return tiering.Errorf(tiering.CodeCorrupt, "marker %s tells about epochs %s, the lineage is %s", m.Name(), strings.Join(told, ", "), strings.Join(l.epochs[:i+1], ", "))
		}
	}
	return nil
}

// span is a life as a rebuild takes it.
type span struct {
	Life
	// open: nothing cuts it but the gaps in what is there and the time asked
	// for. A life that is over ends at its Cuts.
	open bool
	// skip: it began after the time asked for.
	skip bool
	born time.Time // zero for the first life
}

// spans returns the lives that a rebuild as of a time (zero: now) applies,
// oldest first. Cuts are those of the last marker: what a rebuild left out once
// stays out. Shifts are those that held at the time asked for.
func (l *Lineage) spans(asOf time.Time) []span {
	out := make([]span, len(l.epochs))
	last := len(l.epochs) - 1
	for i, e := range l.epochs {
		out[i] = span{Life: Life{Epoch: e, Cuts: map[string]int64{}, Shifts: map[string]int64{}}, open: i == last}
		if i > 0 {
			out[i].born = l.markers[i-1].CreatedAt
			out[i].skip = !asOf.IsZero() && asOf.Before(out[i].born)
		}
	}
	for last > 0 && out[last].skip {
		last--
	}
	if n := len(l.markers); n > 0 {
		for i, life := range l.markers[n-1].Lives() {
			out[i].Cuts = life.Cuts
		}
	}
	if last > 0 {
		for i, life := range l.markers[last-1].Lives() {
			out[i].Shifts = life.Shifts
		}
	}
	return out
}
