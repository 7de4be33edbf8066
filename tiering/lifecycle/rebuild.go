package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// floorStep is how far above every version seen a rebuilt store starts: writes
// that were acknowledged and never archived had versions below it.
const floorStep = 1 << 32

// RebuildOptions say what to rebuild from, and into what. Archive and Warm are
// required; the zero value of the rest works.
type RebuildOptions struct {
	// Archive is the two buckets. Everything comes from the one that From
	// names; of the other only markers and erase orders are read, if it can be
	// reached.
	Archive *cold.Archive
	From    tiering.Copy
	// Warm is an empty store.
	Warm warm.Restorer
	// AsOf leaves out what happened later; zero takes everything.
	AsOf time.Time
	// Now is the time at which the rebuilt store begins; zero is the machine's.
	Now time.Time
	// Scratch makes a copy to look at: no marker is written, and the store must
	// not be used for anything else.
	Scratch bool
	// WithoutOther goes on when the other bucket cannot be reached. A store
	// that still writes there is then not told that it has a successor.
	WithoutOther bool
	// Memory bounds the bodies that are kept in memory, in bytes; beyond it
	// segments are read a second time. 0 means 256 MiB.
	Memory int
	// Progress is told how many bytes of how many were read. It may be called
	// from many goroutines.
	Progress func(done, total int64)
}

// RebuildReport says what a rebuild found and did.
type RebuildReport struct {
	Epoch   string       `json:"epoch"`
	Parent  string       `json:"parent"`
	From    string       `json:"from"` // primary or backup
	AsOf    time.Time    `json:"as_of,omitzero"`
	Floor   int64        `json:"floor"` // every version from now on is above it
	Tenants []TenantPart `json:"tenants"`

	Segments   int   `json:"segments"`   // in the catalog
	Left       int   `json:"left_out"`   // segments wholly beyond a cut or a gap
	Versions   int64 `json:"versions"`   // in those segments, that count
	RawSize    int64 `json:"raw_bytes"`  // of all bodies in those segments
	Documents  int64 `json:"documents"`  // that stand, expired ones too
	Tombstones int64 `json:"tombstones"` // of deleted documents
	Bytes      int64 `json:"bytes"`      // of documents that stand

	Gaps    []Gap    `json:"gaps,omitempty"`
	Damaged []Damage `json:"damaged,omitempty"`
	// Incomplete counts keys of which a touch or pin is there and the version
	// that it touched is not: the version before stands.
	Incomplete int64 `json:"incomplete,omitempty"`
	// Erased counts records that erase orders take. The segments in Rewrite
	// still hold their bytes: the erase was not finished.
	Erased  int64    `json:"erased,omitempty"`
	Rewrite []string `json:"rewrite,omitempty"`
	// Revoked counts API keys whose revocation lies beyond the cut.
	Revoked int64 `json:"revoked,omitempty"`
	// Unreachable names the bucket that could not be told.
	Unreachable string        `json:"unreachable,omitempty"`
	Took        time.Duration `json:"took_ns"`
}

// TenantPart is what came back of one tenant.
type TenantPart struct {
	Tenant    string    `json:"tenant"`
	Epoch     string    `json:"epoch"` // the life of the last change that counts
	Pos       int64     `json:"pos"`   // its feed position
	Time      time.Time `json:"time,omitzero"`
	Documents int64     `json:"documents"`
}

// Rebuild fills an empty warm store from one bucket alone: with every document,
// deletion, policy and API key up to the first gap in what the bucket holds, or
// up to a time. Current documents come to warm, with their bytes; history stays
// in cold and is found there as before. The store begins a new life, with
// versions far above every old one, and the buckets are told before it can be
// used. A rebuild that was interrupted is begun again.
//
// It holds in memory about half a kilobyte for each key of one tenant, bodies
// up to a budget, and a segment for each processor.
func Rebuild(ctx context.Context, o RebuildOptions) (*RebuildReport, error) {
	began := time.Now()
	if o.Now.IsZero() {
		o.Now = began
	}
	if o.Memory <= 0 {
		o.Memory = 256 << 20
	}
	r := &rebuild{RebuildOptions: o, bucket: o.Archive.Bucket(o.From), now: o.Now.UTC().Truncate(time.Microsecond)}
	r.report = RebuildReport{From: o.From.String(), AsOf: o.AsOf}
	err := r.run(ctx)
	r.report.Took = time.Since(began)
	return &r.report, tiering.Wrap(err, "rebuild from "+o.From.String(), tiering.Cold, tiering.Key{})
}

type group struct{ tenant, epoch string }

// rebuild is one run.
type rebuild struct {
	RebuildOptions
	bucket  cold.Bucket
	now     time.Time
	report  RebuildReport
	done    progressCount
	total   int64
	buckets []cold.Bucket // those that are told, From's first
	markers []Marker
	orders  []Order
	lineage *Lineage
	spans   []span
	objects []*object
	groups  map[group][]*object
	revoked map[string]map[string]revocation // tenant, key id
	marker  Marker                           // that is being made
}

func (r *rebuild) run(ctx context.Context) error {
	if err := r.readSigns(ctx); err != nil {
		return err
	}
	found, err := survey(ctx, r.bucket)
	if err != nil {
		return err
	}
	r.report.Damaged = found.damaged
	if err := r.order(found); err != nil {
		return err
	}
	if err := r.Warm.BeginRestore(ctx, r.marker.Epoch, r.marker.Floor); err != nil {
		return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	tenants := map[string]bool{}
	for _, o := range r.objects {
		tenants[o.tenant] = true
		r.total += o.size
	}
	for _, tenant := range slices.Sorted(maps.Keys(tenants)) {
		if err := r.tenant(ctx, tenant); err != nil {
			return err
		}
	}
	if err := r.tell(ctx); err != nil {
		return err
	}
	return tiering.Wrap(r.Warm.EndRestore(ctx), "", tiering.Warm, tiering.Key{})
}

// readSigns reads markers and erase orders from every bucket that can be
// reached: an order counts wherever it is found, and so does a successor.
func (r *rebuild) readSigns(ctx context.Context) error {
	for _, c := range []tiering.Copy{r.From, tiering.Backup - r.From} {
		b := r.Archive.Bucket(c)
		markers, err := readMarkers(ctx, b)
		var orders []Order
		if err == nil {
			orders, err = ReadOrders(ctx, b)
		}
		if err != nil {
			told := tiering.CodeOf(err) == tiering.CodeCorrupt || tiering.CodeOf(err) == tiering.CodeUnsupported
			if c == r.From || told || ctx.Err() != nil {
				return err
			}
			if !r.WithoutOther && !r.Scratch {
				return &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Cold, Err: err, Detail: "the " + c.String() +
					" bucket cannot be reached, so a store that still writes there could not be told of its successor: bring it back, or go on without it on purpose"}
			}
			r.report.Unreachable = c.String()
			continue
		}
		r.buckets = append(r.buckets, b)
		r.markers = append(r.markers, markers...)
		for _, o := range orders {
			r.orders = addOrder(r.orders, o)
		}
	}
	return nil
}

// order traces the lineage, and makes the marker of the life that begins.
func (r *rebuild) order(found *surveyed) error {
	r.objects, r.groups, r.revoked = found.objects, map[group][]*object{}, map[string]map[string]revocation{}
	var epochs []string
	for _, o := range r.objects {
		g := group{o.tenant, o.epoch}
		if r.groups[g] == nil {
			epochs = append(epochs, o.epoch)
		}
		r.groups[g] = append(r.groups[g], o)
		for _, k := range o.revoked {
			r.revoke(o.tenant, k)
		}
	}
	var err error
	if r.lineage, err = traceLineage(epochs, r.markers); err != nil {
		return err
	}
	floor := found.maxVersion
	for _, m := range r.lineage.markers {
		floor = max(floor, m.Floor)
		for tenant, ids := range m.Revoked {
			for _, id := range ids {
				r.revoke(tenant, revocation{id: id, at: m.CreatedAt})
			}
		}
	}
	r.spans = r.lineage.spans(r.AsOf)
	r.marker = Marker{
		Format: markerFormat, Epoch: ulid.Make().String(), Parent: r.lineage.tip(), CreatedAt: r.now, Floor: floor + floorStep,
		Revoked: map[string][]string{},
	}
	for _, s := range r.spans {
		r.marker.Before = append(r.marker.Before, Life{Epoch: s.Epoch, Cuts: map[string]int64{}, Shifts: map[string]int64{}})
	}
	r.report.Epoch, r.report.Parent, r.report.Floor = r.marker.Epoch, r.marker.Parent, r.marker.Floor
	return nil
}

// revoke notes the revocation of an API key: the highest version counts.
func (r *rebuild) revoke(tenant string, k revocation) {
	if r.revoked[tenant] == nil {
		r.revoked[tenant] = map[string]revocation{}
	}
	if have, ok := r.revoked[tenant][k.id]; !ok || k.version > have.version {
		r.revoked[tenant][k.id] = k
	}
}

// tenant brings one tenant back. When a segment turns out to be damaged what
// counts is found anew without it.
func (r *rebuild) tenant(ctx context.Context, tenant string) error {
	var orders []Order
	for _, o := range r.orders {
		if o.Tenant == tenant {
			orders = append(orders, o)
		}
	}
	for {
		before := r.done.n.Load()
		c, err := r.cover(ctx, tenant)
		var heads *tenantHeads
		if err == nil {
			heads, err = r.gather(ctx, c, orders)
		}
		if d := asDamaged(err); d != nil && ctx.Err() == nil {
			d.object.damaged = true
			r.report.Damaged = append(r.report.Damaged, Damage{d.object.name, d.err.Error()})
			r.done.n.Store(before)
			continue
		}
		if err != nil {
			return err
		}
		return r.restore(ctx, tenant, c, heads)
	}
}

// tell creates the marker in every bucket, and brings the markers that one of
// them lacks. From then on the old life of the store is over.
func (r *rebuild) tell(ctx context.Context) error {
	if r.Scratch {
		return nil
	}
	n := len(r.marker.Before) - 1
	r.marker.Cuts, r.marker.Shifts = r.marker.Before[n].Cuts, r.marker.Before[n].Shifts
	r.marker.Before = r.marker.Before[:n]
	var errs []error
	for _, b := range r.buckets {
		for _, m := range append(slices.Clone(r.lineage.markers), r.marker) {
			errs = append(errs, createMarker(ctx, b, m))
		}
	}
	return errors.Join(errs...)
}
