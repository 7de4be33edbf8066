package warm

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Access is the time of the last read of a key.
type Access struct {
	Key tiering.Key
	At  time.Time
}

// Demotion is one key that DemoteAll is to demote: the arguments of Demote.
type Demotion struct {
	Key     tiering.Key
	Version int64
	Idle    time.Time
}

// Mover carries out what Policy.Plan decided. Every step locks the head, checks
// again, and answers false when the world has moved on.
type Mover interface {
	// Walk returns heads of all tenants in key order above after, tombstones
	// and expired ones too, without bodies.
	Walk(ctx context.Context, after tiering.Key, limit int) ([]Current, error)
	// Expired returns keys whose expiry has passed at warm's clock and that
	// are not pinned, oldest first. Expire them with a row of OpExpire.
	Expired(ctx context.Context, limit int) ([]tiering.Key, error)
	// Demote drops the current bytes of key from warm if the head still stands
	// at version, is not pinned, was neither written nor read since idle, and
	// a finished segment with two verified copies holds the version. The
	// document stays queryable if its row asked for that.
	Demote(ctx context.Context, key tiering.Key, version int64, idle time.Time) (bool, error)
	// DemoteAll is Demote for several keys, each once, in one transaction, which
	// writers of any of them wait for: give it a few dozen. done has an entry for
	// each of them, in their order.
	DemoteAll(ctx context.Context, of []Demotion) (done []bool, err error)
	// Promote brings the bytes back if the head still stands at version, its
	// digest is body's, and a location still holds the version.
	Promote(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error)
	// Mend puts body into the version row of a put whose stored bytes were found
	// damaged, if body has the row's digest. It is false when no such row is
	// there, or its digest is another.
	Mend(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error)
	// Retire drops version rows of key that no longer stand, and that of the
	// deletion that stands, of those that a finished segment with two verified
	// copies holds. It returns how many.
	Retire(ctx context.Context, key tiering.Key, versions []int64) (int, error)
	// NoteAccess records reads, in one transaction, outside the feed. An older
	// time than the one known is ignored.
	NoteAccess(ctx context.Context, reads []Access) error
}

// Walker finds what may leave warm.
type Walker interface {
	// WalkVersions returns version rows, of all tenants, that no longer stand
	// or are the deletion that stands, in no stable order but each once a
	// walk, behind the cursor that the page before gave ("": from the start);
	// next is "" at the end. Rows written during a walk may be missed.
	WalkVersions(ctx context.Context, cursor string, limit int) (rows []Superseded, next string, err error)
}

// Clock remembers how late it has been, so that a clock that jumps while the
// daemon is down is noticed.
type Clock interface {
	// HighWater is the latest time that was noted; zero at first.
	HighWater(ctx context.Context) (time.Time, error)
	// NoteTime raises the high water to t; it never lowers it, unless reset,
	// which sets it whatever it was.
	NoteTime(ctx context.Context, t time.Time, reset bool) error
}

// Superseded is a version row with what Plan asks about it.
type Superseded struct {
	Version                // without its body
	Current      bool      // the deletion that stands
	SupersededAt time.Time // when the next version was committed; zero when Current
	KeyDeleted   bool      // the head is a tombstone
	Pinned       bool
	Copies       int // verified copies of the best finished segment that holds it
}

// Merger rewrites the catalog when segments are rewritten. It is fenced as
// Catalog is.
type Merger interface {
	// ReplaceSegments, in one transaction, makes s finished with its locations
	// and the segments old deleting as of now, without locations. It fails, changing
	// nothing, when s was not started under its token, or one of old is not
	// finished. Locations of keys that were erased meanwhile must not come
	// back: it fails when erase orders were begun since s was started.
	ReplaceSegments(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location, old []string) error
	// ForgetSegment removes the row of a deleting segment whose objects are gone.
	ForgetSegment(ctx context.Context, name string) error
	// DropSegment makes a finished segment without locations deleting as of
	// now. It is false when it still has some.
	DropSegment(ctx context.Context, name string) (bool, error)
	// DropIntent makes a started segment deleting as of now: whoever started it
	// can no longer finish it, and what of it reached the buckets is collected
	// like everything else that is deleting. It is false for one that is not
	// started.
	DropIntent(ctx context.Context, name string) (bool, error)
	// KeysIn returns the keys that have a location in a segment, in key order
	// above after.
	KeysIn(ctx context.Context, segment string, after tiering.Key, limit int) ([]tiering.Key, error)
}

// Selector says what an erase takes: exactly one of ID, Prefix and User is
// set. Namespace goes with the first two.
type Selector struct {
	Tenant    string
	Namespace string
	ID        string
	Prefix    string
	User      string
}

// Check refuses a selector that is not exactly one thing.
func (s Selector) Check() error {
	set := 0
	for _, part := range []string{s.ID, s.Prefix, s.User} {
		if part != "" {
			set++
		}
	}
	if set != 1 || s.Tenant == "" || (s.Namespace == "") != (s.User != "") {
		return tiering.Invalidf("an erase takes a tenant and one of namespace and id, namespace and prefix, user")
	}
	return nil
}

// Takes reports whether the selector takes a key of that owner.
func (s Selector) Takes(key tiering.Key, user string) bool {
	if key.Tenant != s.Tenant || key.Reserved() {
		return false
	}
	switch {
	case s.User != "":
		return user == s.User
	case s.ID != "":
		return key.Namespace == s.Namespace && key.ID == s.ID
	}
	return s.Prefix != "" && key.Namespace == s.Namespace && len(key.ID) >= len(s.Prefix) && key.ID[:len(s.Prefix)] == s.Prefix
}

// Erasure is an erase under way. It lives in warm alone, and its selector, but
// for the tenant, goes when it is done.
type Erasure struct {
	ID       string // a ULID; the receipt
	Selector Selector
	Started  time.Time
	// Pos is the feed position up to which everything taken is gone from
	// warm; 0 until EraseKeys has finished.
	Pos int64
	// Segments still hold, or may hold, something of the subject: those that
	// held a key that was taken, whole or in part, and, from the moment that Pos is set, those of
	// the tenant that are deleting, and the started ones that can not finish.
	Segments []string
	// Keys, Versions and Bytes count what was taken from warm. A key that stays
	// with another owner is not among Keys; the versions that it lost are counted.
	Keys, Versions, Bytes int64
	Done                  time.Time // zero while under way
}

// Eraser makes a subject disappear from warm, and remembers what is left to do
// in cold.
type Eraser interface {
	// CountErase says what an erase would take.
	CountErase(ctx context.Context, s Selector) (Erasure, error)
	// StartErase records the order. FinishSegment and ReplaceSegments fail
	// (fenced) for segments of the tenant that were started before it, or
	// before a call of EraseKeys that took something: who writes a segment
	// starts it before he reads the feed.
	StartErase(ctx context.Context, e Erasure) error
	// EraseKeys takes up to limit keys, in one transaction: the namespace's
	// floor rises above their versions; heads, version rows, projections,
	// locations, and every mention in the feed, idempotency results and batch
	// results go; the segments that held them are added to the erasure.
	//
	// A user takes a key whole, with what earlier owners had there, when its head
	// is the user's, live or a tombstone. Of any other key he takes the version
	// rows, feed changes and results that are his, from whatever life of the key;
	// the head, everything of other owners, and the locations stay, and the
	// segments of the locations are added to the erasure. A deletion is of the
	// user whose document it deleted.
	//
	// Feed entries keep their positions, without the changes of what was taken;
	// a batch's results keep the outcome alone. A call may take no key and still
	// say more. When nothing is left to take it sets Pos to the last feed position,
	// never 0, in the same transaction, and more is false; later calls change
	// nothing.
	EraseKeys(ctx context.Context, id string, limit int) (e Erasure, more bool, err error)
	// CleanSegment takes a segment off the erasure's list.
	CleanSegment(ctx context.Context, id, segment string) error
	// Scrub makes what was deleted unreadable in the store's own files, as far
	// as the store can.
	Scrub(ctx context.Context) error
	// FinishErase marks it done and forgets its selector. Pos must be set and
	// Segments empty; one that is done is returned as it is.
	FinishErase(ctx context.Context, id string) (Erasure, error)
	// Erasure returns one, done or under way.
	Erasure(ctx context.Context, id string) (e Erasure, ok bool, err error)
	// Erasures returns those under way, oldest first.
	Erasures(ctx context.Context) ([]Erasure, error)
}

// Restored is one key as a rebuild found it.
type Restored struct {
	Head Head
	// Body is the current bytes; nil for a tombstone. With a body the head is
	// in warm.
	Body []byte
	// Query is whether the document stays queryable without its bytes.
	Query bool
}

// Restorer fills an empty store from cold.
type Restorer interface {
	// BeginRestore gives an empty store a new epoch, and a floor for every
	// namespace: each version made from now on is above it. A store that holds
	// anything refuses. Until EndRestore the store refuses to open otherwise
	// than for BeginRestore, which starts over.
	BeginRestore(ctx context.Context, epoch string, floor int64) error
	// RestoreNamespace makes a namespace's row.
	RestoreNamespace(ctx context.Context, n Namespace) error
	// RestoreKeys adds keys in one transaction, outside the feed.
	RestoreKeys(ctx context.Context, keys []Restored) error
	// RestoreSegment adds a finished segment with its locations.
	RestoreSegment(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location) error
	// EndRestore makes the store usable.
	EndRestore(ctx context.Context) error
}
