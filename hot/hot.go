// Package hot is the contract of the hot tier: a bounded store of current
// documents that may lose anything at any time, and must never bring an old
// value back. hot/hottest proves a driver.
//
// Coherence rests on three marks that a driver keeps beside each value:
//
//   - a pending token says a write is on its way to warm. Marking drops the
//     value; while one token lives nothing is stored and no lease is granted.
//     A token lapses to empty, and spoils the tokens that live beside it: the
//     write behind it may have committed after theirs, so their sets store
//     nothing.
//   - a fill lease lets one reader store what it loads from warm. Marking,
//     setting and deleting kill it.
//   - a tombstone remembers a delete for longer than any lease lives.
//
// The highest version that a key has seen is remembered for as long as a
// tombstone lives, counted from when it was told or its value was dropped, and
// while anything else of the key lives.
//
// Versions compare as (version, revision), never as floating-point numbers.
package hot

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// How long marks live unless Timing says otherwise. A token outlives the longest statement of warm; a
// tombstone outlives every lease.
const (
	TokenTTL     = 15 * time.Second
	LeaseTTL     = 10 * time.Second
	TombstoneTTL = 30 * time.Second
)

// Token is a random non-zero mark of one pending write or one lease.
type Token uint64

// Entry is a value with what is needed to answer a read without warm.
type Entry struct {
	Meta tiering.Meta
	Body []byte // shared by readers: never changed
}

// State is what hot knows of a key.
type State uint8

// The states. Empty may come with a lease. Pending sends the reader to warm.
const (
	Empty State = iota
	Present
	Deleted
	Pending
)

// Lookup answers Get. Entry is set when Present; Entry.Meta.Version is set
// when Deleted. Lease is non-zero only when Empty and a lease was asked for and
// free: its holder alone may Fill. When Empty and a lease was asked for that
// another reader holds, Holder is that lease: it lives, so nobody has marked the
// key since it was granted.
type Lookup struct {
	State  State
	Entry  Entry
	Lease  Token
	Holder Token
}

// Set is what a writer stores once warm has committed.
type Set struct {
	Key   tiering.Key
	Token Token // the writer's own pending token, removed in the same step
	Entry Entry // Body nil when Deleted
	// Deleted stores a tombstone for TombstoneTTL in place of a value.
	Deleted bool
	// TTL is how long the value may be served, from now; it is never longer
	// than what is left of the document's own life. At zero or below nothing
	// is left: the version is seen, and nothing stored.
	TTL time.Duration
}

// Store is one hot tier. Methods are safe for concurrent use and honour the
// context. Errors are raw; the router wraps them. A driver checks no digest:
// the router does, on every read.
type Store interface {
	// Get looks key up; lease asks for a fill lease on a miss. Reads never
	// extend a TTL.
	Get(ctx context.Context, key tiering.Key, lease bool) (Lookup, error)

	// Mark makes key pending under token: the value is dropped, leases die.
	// Marking again with the same token renews its life. A zero token is an
	// error.
	Mark(ctx context.Context, key tiering.Key, token Token) error

	// Unmark removes the token of a write that did not commit. The entry
	// stays empty.
	Unmark(ctx context.Context, key tiering.Key, token Token) error

	// Set stores s if it is newer than everything the entry has seen, and
	// removes s.Token, in one step. Leases die. Nothing is stored, and stored
	// is false, when: another token lives; the entry has seen a newer
	// version; or s.Token no longer lives (it lapsed, was spoiled, or hot lost
	// it). The version seen is remembered all the same, and an older value
	// dropped. A zero Token is for a writer
	// that marked nothing: it is stored if newer and no token lives.
	Set(ctx context.Context, s Set) (stored bool, err error)

	// Fill stores what the holder of lease loaded, if the lease still lives,
	// no token does, and entry is not older than what was seen.
	Fill(ctx context.Context, key tiering.Key, lease Token, e Entry, ttl time.Duration) (stored bool, err error)

	// Drop removes the value of key if it is at version and revision, or at
	// anything when version is 0. Marks, a tombstone among them, and what was
	// seen stay.
	Drop(ctx context.Context, key tiering.Key, version, revision int64) error

	// Swap is the write of ephemeral documents, which live here alone: if cond
	// holds for what stands, body (nil: a delete) becomes version
	// max(previous+1, the store's clock in microseconds) and lives for ttl
	// (0: until evicted). When cond does not hold, ok is false and the entry
	// is what stands, zero when nothing does. CreatedAt is kept from the entry
	// replaced; Meta.TTL is ttl. Nobody marks such a key.
	Swap(ctx context.Context, key tiering.Key, cond tiering.Condition, body []byte, ttl time.Duration) (e Entry, ok bool, err error)

	// Scan calls fn with every present key of the tenant and namespace whose
	// id starts with prefix, in no order, until fn returns false. Keys that
	// come or go meanwhile may be missed.
	Scan(ctx context.Context, tenant, namespace, prefix string, fn func(tiering.Key) bool) error

	// Stats reports what is held.
	Stats(ctx context.Context) (Stats, error)

	// Ping reports whether the store answers.
	Ping(ctx context.Context) error

	// Close frees everything. Later calls fail.
	Close() error
}

// Stats is what a store holds and has done since it was opened.
type Stats struct {
	Items     int64
	Bytes     int64 // of keys, values and bookkeeping
	Hits      int64
	Misses    int64
	Evictions int64 // to stay within the bound; expiry does not count
}

// Epochal is a store that can lose what it acknowledged without a word, as a
// server does that fails over. Its entries are kept by hot epoch: under the one
// in use none of another is seen.
type Epochal interface {
	// HotEpoch is the epoch in use; zero when there is none yet.
	HotEpoch() tiering.HotEpoch
	// Advance goes on to e if it supersedes the epoch in use, and never back.
	// Calls on their way may still be carried out under the one before.
	Advance(e tiering.HotEpoch)
	// Ended receives the epoch in use when it is none, or began in another life
	// of the server: until Advance is called with another, Get answers Pending
	// and nothing counts as stored. It is told again and again, to one receiver,
	// who may hear of it late.
	Ended() <-chan tiering.HotEpoch
	// End ends e, if it is in use: a write was acknowledged that the store was
	// not told of, so what it holds may be old. Ended tells of it once the store
	// can be reached again.
	End(e tiering.HotEpoch)
	// Forget removes what is left of an epoch that no daemon uses any more.
	Forget(ctx context.Context, e tiering.HotEpoch) error
}

// As returns s, or the store that it wraps, as a T: an Epochal, say. A wrapper
// says what it wraps by a method Unwrap() Store.
func As[T any](s Store) (t T, ok bool) {
	for s != nil {
		if t, ok = s.(T); ok {
			return t, true
		}
		wrapper, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			break
		}
		s = wrapper.Unwrap()
	}
	return t, false
}

// Capabilities are the differences between drivers that the suite and the
// router need to know.
type Capabilities struct {
	// Shared: several daemons see the same entries.
	Shared bool
	// Volatile: entries do not outlive Close.
	Volatile bool
}
