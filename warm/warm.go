// Package warm is the contract of the warm tier: the system of record. The
// commit of a batch here is the moment a write happens. warm/warmtest proves a
// driver.
//
// A key has one head (its current version, expiry and owner), version rows (the
// exact bytes, written once), and locations in cold. A deleted head stays as a
// tombstone. Every committing transaction adds one entry to the feed.
package warm

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
)

// Store is what a driver does, by role. Methods are safe for concurrent use
// and honour the context. Errors are raw, but for *tiering.Error where a
// method says so; the router wraps them once.
type Store interface {
	Committer
	Reader
	EntryReader
	Aliases
	Feed
	Catalog
	Mover
	Walker
	Clock
	Merger
	Eraser
	Restorer
	Namespaces
	Leases
	HotEpochs
	Admin
}

// Committer writes. It never folds or waits: the router's queue does.
type Committer interface {
	// Commit applies a batch in one transaction. Each change is applied whole
	// or not at all, on its own: one that fails its condition does not stop
	// the others. The results match b.Changes and their rows.
	//
	// An error means that nothing was committed, unless it is
	// ErrOutcomeUnknown: then Resolve tells.
	Commit(ctx context.Context, b *Batch) ([][]Result, error)

	// Resolve settles a batch whose outcome is unknown, by inserting its id: a
	// conflict means it committed, and its results come back; success means
	// it never will.
	Resolve(ctx context.Context, b *Batch) (results [][]Result, committed bool, err error)

	// Atomic locks the heads of keys (sorted, no key twice), hands decide what
	// stands under each, and commits the changes that it returns, all or
	// nothing: when one fails its condition nothing is written, committed is
	// false and the results say which. decide computes only: it must not call
	// the store; its error rolls back and is returned as it is. idem, when
	// set, covers the whole transaction: if it is known, decide is not called
	// and the stored results come back as Replayed or Mismatch.
	// ErrOutcomeUnknown is settled inside, by the batch id.
	Atomic(ctx context.Context, id uuid.UUID, keys []tiering.Key, idem *Idempotency, decide func([]Current) ([]Change, error)) (results [][]Result, committed bool, err error)
}

// Batch is what one transaction commits. Keys are unique and sorted by
// tiering.Key.Compare.
type Batch struct {
	ID      uuid.UUID // kept for 24 h
	Changes []Change
}

// Change is one or more mutations of one key. If has to hold for what stands
// before the first row. More than one row is a fold: all rows are puts, they
// become consecutive versions.
type Change struct {
	Key  tiering.Key
	If   tiering.Condition
	Rows []Row
	// Kind and Class are what the writer takes the namespace for; "" is whatever it
	// is. The first key fixes both: where no key was written yet and the namespace
	// is of others by now the status is NoNamespace.
	Kind  tiering.Kind
	Class tiering.Class
}

// Row is one caller's mutation.
type Row struct {
	Op     tiering.Op
	Body   []byte         // put: the exact compacted bytes
	Digest tiering.Digest // put
	// User owns a new key; on a standing key it must be empty or equal, or
	// the row's status is UserFixed.
	User string
	// Expiry is applied at warm's clock.
	Expiry Expiry
	// Exact lets a touch shorten a life.
	Exact bool
	// Query keeps the document queryable after its bytes leave warm.
	Query bool
	// Memory is what recall finds the document by; nil in namespaces of another
	// kind, and in an operation that makes no body.
	Memory *tiering.MemoryEntry
	// Idempotency makes the row happen once.
	Idempotency *Idempotency
}

// Expiry says what a row does to its key's expiry.
type Expiry struct {
	// TTL is the caller's wish; nil keeps the expiry.
	TTL *tiering.TTL
	// New is the policy's life of a key that is new; 0 for none.
	New time.Duration
	// Slide moves a kept expiry to now + the head's own TTL.
	Slide bool
}

// Idempotency names a request that must happen once, per tenant, for 24 h.
type Idempotency struct {
	Tenant string
	Key    string
	Hash   tiering.Digest // of the whole request
	Answer []byte         // kept with the result, for answers a head cannot tell
}

// Status is the outcome of a row.
type Status uint8

// The outcomes. Everything but Done, NoChange and Replayed left nothing behind.
const (
	// Done: applied. Result.Head is the head this row made.
	Done Status = iota
	// NoChange: a delete of what is not there, or a pin of what is pinned.
	NoChange
	// Conflict: If did not hold; a touch or pin found nothing live.
	// Result.Head is what stands.
	Conflict
	// UserFixed: the key stands under another user.
	UserFixed
	// Replayed: the idempotency key is known with the same hash; Head,
	// Created, Prev and Answer are the first try's. The change it was part of
	// was not applied.
	Replayed
	// Mismatch: the idempotency key is known with another hash.
	Mismatch
	// Again: a sibling row of the change was Replayed or Mismatch: send the
	// change once more without that row.
	Again
	// NoNamespace: the namespace does not exist, or was deleted.
	NoNamespace
	// Refused: the database refused this row's data; Result.Err says why.
	Refused
)

// Result is the outcome of one row.
type Result struct {
	Status  Status
	Head    Head
	Created bool  // nothing stood before
	Prev    int64 // the version that stood before, 0 for none
	Answer  []byte
	Err     error // Refused
	// HotEpoch stood when the row was committed, or began since: whoever
	// committed goes on to it before it tells hot, and before it answers.
	HotEpoch tiering.HotEpoch
}

// Head is the row of a key. The zero Head is a key that never was.
type Head struct {
	Key        tiering.Key
	Op         tiering.Op // put, delete or expire: what made Version
	Version    int64
	Revision   int64
	CreatedAt  time.Time
	UpdatedAt  time.Time
	ExpiresAt  time.Time     // zero: never
	TTL        time.Duration // sliding life; 0: none
	AccessedAt time.Time
	User       string
	Size       int64
	Digest     tiering.Digest
	Pinned     bool
	InWarm     bool // the current bytes are in a version row
}

// Live reports whether something stands under the key at now: a put that has
// not expired.
func (h Head) Live(now time.Time) bool {
	return h.Version > 0 && !h.Op.Deleting() && (h.Pinned || h.ExpiresAt.IsZero() || now.Before(h.ExpiresAt))
}

// Standing is the version that conditions compare with: 0 when nothing lives.
func (h Head) Standing(now time.Time) int64 {
	if h.Live(now) {
		return h.Version
	}
	return 0
}

// Meta returns the head as the API shows it.
func (h Head) Meta() tiering.Meta {
	return tiering.Meta{
		Namespace: h.Key.Namespace, ID: h.Key.ID, Version: h.Version, Revision: h.Revision,
		Digest: h.Digest, Size: h.Size, CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt,
		ExpiresAt: h.ExpiresAt, TTL: h.TTL, User: h.User, Pinned: h.Pinned,
	}
}

// Current is a head with its bytes, nil when they are not in warm or nothing
// lives. Now is warm's clock at the read.
type Current struct {
	Head Head
	Body []byte
	Now  time.Time
}

// Version is a version row: one version while its bytes are in warm.
type Version struct {
	Key       tiering.Key
	Version   int64
	Op        tiering.Op
	At        time.Time // when it was committed
	Size      int64
	Digest    tiering.Digest
	User      string
	ExpiresAt time.Time
	CreatedAt time.Time
	Body      []byte // nil for a delete
}

// KeyVersion names a version of a key.
type KeyVersion struct {
	Key     tiering.Key
	Version int64
}

// Reader reads. Every statement binds the tenant.
type Reader interface {
	// Load returns the head and the current bytes; the zero Head when the key
	// never was.
	Load(ctx context.Context, key tiering.Key) (Current, error)
	// Head is Load without the bytes.
	Head(ctx context.Context, key tiering.Key) (Current, error)
	// Version returns one version row, ok false when warm does not hold it.
	Version(ctx context.Context, key tiering.Key, version int64) (v Version, ok bool, err error)
	// ReadVersions returns the version rows of what is asked for, in its order;
	// one that warm does not hold is the zero Version. Asked for too much it
	// answers the first of them alone, at least one: it takes no further one
	// once the bodies make maxBytes.
	ReadVersions(ctx context.Context, of []KeyVersion, maxBytes int64) ([]Version, error)
	// AsOf returns the newest version row committed at or before t, without
	// looking at cold; ok false when warm holds none.
	AsOf(ctx context.Context, key tiering.Key, t time.Time) (v Version, ok bool, err error)
	// Versions returns version rows below before (0: from the top), newest
	// first, without bodies.
	Versions(ctx context.Context, key tiering.Key, before int64, limit int) ([]Version, error)
	// List returns live heads in id order.
	List(ctx context.Context, l List) ([]Current, error)
	// Query returns live documents that match, in the order asked for. A
	// cursor that is not this query's is invalid.
	Query(ctx context.Context, q Query) (items []Current, next string, err error)
}

// List selects live heads of a namespace.
type List struct {
	Tenant, Namespace string
	Prefix            string   // bytes of the id
	Prefixes          []string // the caller's scope: any of these; empty: all
	User              string
	After             string // ids above this one
	Limit             int
	Bodies            bool
}

// Query selects live documents by their content.
type Query struct {
	Tenant, Namespace string
	Prefix            string
	Prefixes          []string
	User              string
	Filter            *Filter // nil: all
	OrderBy           string  // JSON Pointer; "": by id
	Descending        bool
	Cursor            string
	Limit             int
	// Indexed says that the namespace's policy asks for an index. It is no more
	// than a hint where to look: the answer is the same.
	Indexed bool
}

// FeedChange carries everything a segment or an event needs but the bytes.
type FeedChange struct {
	Key       tiering.Key
	Op        tiering.Op
	Version   int64
	Revision  int64
	Prev      int64 // the version that stood before, 0 for none
	At        time.Time
	CreatedAt time.Time
	ExpiresAt time.Time
	TTL       time.Duration
	User      string
	Pinned    bool
	Query     bool
	Size      int64
	Digest    tiering.Digest
}

// FeedEntry is one committed transaction.
type FeedEntry struct {
	Pos     int64
	Changes []FeedChange
}

// Feed is the ordered list of all changes.
type Feed interface {
	// Epoch identifies this life of the store: a ULID made when it was made.
	Epoch(ctx context.Context) (string, error)
	// ReadFeed returns up to limit entries behind after, in order. It returns
	// a tiering gone error when entries behind after were trimmed away.
	ReadFeed(ctx context.Context, after int64, limit int) ([]FeedEntry, error)
	// FeedBounds returns the lowest position kept and the last one assigned;
	// first > last when the feed is empty.
	FeedBounds(ctx context.Context) (first, last int64, err error)
	// WaitFeed blocks until a position above after exists or ctx ends.
	WaitFeed(ctx context.Context, after int64) error
	// TrimFeed drops entries older than before that every position has
	// passed, and idempotency rows and batch ids older than before.
	TrimFeed(ctx context.Context, before time.Time) error
	// Position returns how far a named reader has come, 0 at first.
	Position(ctx context.Context, reader string) (int64, error)
	// SetPosition moves a reader forward; it never moves back.
	SetPosition(ctx context.Context, reader string, pos int64) error
}

// Catalog knows the segments in cold and where each key lies in them. What
// changes it fails with fenced under a lease (Under), or in the name of a
// segment's own Owner and Token, once that was taken anew.
type Catalog interface {
	// StartSegment commits the intent to write s, before any byte is read.
	StartSegment(ctx context.Context, s tiering.SegmentInfo) error
	// FinishSegment makes s finished with its locations, and moves reader to
	// pos, in one transaction. It fails when s was not started, or under
	// another token.
	FinishSegment(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location, reader string, pos int64) error
	// AbandonSegment removes an intent whose object will not be written.
	AbandonSegment(ctx context.Context, name string) error
	// SetCopy records the state of one copy.
	SetCopy(ctx context.Context, name string, c tiering.Copy, state tiering.CopyState) error
	// Segment returns one row of the catalog.
	Segment(ctx context.Context, name string) (s tiering.SegmentInfo, ok bool, err error)
	// Segments returns rows in name order above after; tenant "" for all,
	// state "" for all.
	Segments(ctx context.Context, tenant string, state tiering.SegmentState, after string, limit int) ([]tiering.SegmentInfo, error)
	// Locations returns where versions of key lie in finished segments,
	// newest first.
	Locations(ctx context.Context, key tiering.Key) ([]tiering.Location, error)
	// LocationsOf is Locations for each of several keys, which are there once.
	LocationsOf(ctx context.Context, keys []tiering.Key) (map[tiering.Key][]tiering.Location, error)
}

// Namespace is the warm row of a namespace. Its policy is a document.
type Namespace struct {
	Tenant  string
	Name    string
	Kind    tiering.Kind
	Class   tiering.Class
	Floor   int64 // every version made from now on is above it
	Deleted bool
}

// Namespaces keeps names, classes and version floors for ever. Reserved
// namespaces exist without a row.
type Namespaces interface {
	// EnsureNamespace makes the row, or revives a deleted one, and returns it
	// as it stands: kind and class are those of the first call, unless no key
	// was ever written; then they change.
	EnsureNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// FixNamespace fixes kind and class as the first key does, for keys that only
	// hot holds. fixed is false, and nothing was noted, where the row is of another
	// kind or class, deleted, or not there.
	FixNamespace(ctx context.Context, n Namespace) (fixed bool, err error)
	// DropNamespace marks the row deleted; dropped is false when live heads
	// are in it.
	DropNamespace(ctx context.Context, tenant, name string) (dropped bool, err error)
	// RaiseFloor lifts the floor; it never lowers it.
	RaiseFloor(ctx context.Context, tenant, name string, floor int64) error
	// PurgeTombstones removes up to limit tombstones older than before, after
	// raising the floor above them. Version rows and locations of a key with
	// any are left alone.
	PurgeTombstones(ctx context.Context, tenant, name string, before time.Time, limit int) (int, error)
}

// Lease is a right to act that one holder has at a time. Tokens only grow.
type Lease struct {
	Name    string
	Holder  string
	Token   int64
	Expires time.Time
}

// Leases hands out the right to run a background worker.
type Leases interface {
	// Acquire takes the lease if it is free, expired or already held by
	// holder; ok is false, and the lease as it stands, when another holds it.
	// A lease taken anew has a higher token; renewed, the same.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (l Lease, ok bool, err error)
	// Release gives it up; a lease held by another is left alone.
	Release(ctx context.Context, l Lease) error
}

// HotEpochs keeps the hot epoch. Its life is the store's Epoch.
type HotEpochs interface {
	// HotEpoch returns the epoch that stands.
	HotEpoch(ctx context.Context) (tiering.HotEpoch, error)
	// BumpHotEpoch ends the epoch from, and returns what stands now: the next
	// one, or whatever stands when from stands no more. A commit whose results
	// name an epoch before the one returned is seen by every read that begins
	// afterwards: hot can be filled from such a read.
	//
	// Commits may have to wait for it, for a fraction of a second; it fails
	// when a transaction that runs for longer keeps it from going on.
	BumpHotEpoch(ctx context.Context, from tiering.HotEpoch) (tiering.HotEpoch, error)
}

// Admin is what operators and health checks need.
type Admin interface {
	// Now is warm's clock, the only one that ages are measured by.
	Now(ctx context.Context) (time.Time, error)
	// Ping reports whether the store can commit.
	Ping(ctx context.Context) error
	Stats(ctx context.Context) (Stats, error)
	Close() error
}

// Stats is what the store holds.
type Stats struct {
	// Estimated: a count was too large to make; it is scaled from the driver's
	// own estimate of how many rows there are.
	Estimated  bool
	Heads      int64 // live and tombstones
	Tombstones int64
	Versions   int64 // version rows
	BodyBytes  int64 // of version rows, uncompressed
	DiskBytes  int64
	Feed       int64 // entries kept
	Segments   int64
	Idempotent int64 // idempotency rows kept
}

// Capabilities are the differences between drivers that the suite and the
// router need to know.
type Capabilities struct {
	// Committers is how many batches may be in flight at once.
	Committers int
	// Shared: several daemons use the same store.
	Shared bool
}
