package tiering

import (
	"context"
	"encoding/json"
	"time"
)

// MaxAppend is how many entries one append takes.
const MaxAppend = 1000

// Logs is the part of tierd for append-only sequences. A log is a key of a
// namespace of kind log: listing, owner, TTL, touch, pin, delete, history and
// erase are those of Documents. Its version is the sequence number of its last
// entry; sequence numbers are dense while the log lives. One that was deleted
// and made anew goes on above where it was, as does every log after a rebuild.
//
// Methods are safe for concurrent use. A nil options pointer means the zero
// options. Every error is an *Error.
type Logs interface {
	// Append adds entries, any JSON values, 1 to MaxAppend of them, in one
	// commit and with nothing between them. It makes the log when there is
	// none, and the namespace when nobody did.
	Append(ctx context.Context, ns, id string, entries []json.RawMessage, o *AppendOptions) (*Appended, error)
	// Entries returns entries of a log, oldest first unless asked otherwise,
	// from wherever they lie. It is not_found when nothing stands under the key.
	Entries(ctx context.Context, ns, id string, o *EntriesOptions) (*EntryPage, error)
}

// AppendOptions guards and shapes an append.
type AppendOptions struct {
	// ExpectSeq is the last sequence number that the log must have, 0 for a log
	// that does not exist; nil lets the append through. Another one is
	// seq_conflict, whose CurrentVersion is the number that stands.
	ExpectSeq *int64
	// IdempotencyKey makes the append happen once in 24 h.
	IdempotencyKey string
	// TTL changes the log's expiry; nil keeps it.
	TTL *TTL
	// User owns the log. It is fixed when the log is created.
	User string
	// Fence lets the append through only while the lease of its token stands.
	Fence *Fence
}

// Appended answers an append: the sequence numbers of its first and last entry.
type Appended struct {
	Namespace string    `json:"namespace"`
	ID        string    `json:"id"`
	FirstSeq  int64     `json:"first_seq"`
	LastSeq   int64     `json:"last_seq"`
	Time      time.Time `json:"time"`                // of the last entry
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of the log; zero: never
	User      string    `json:"user,omitempty"`
	// Created says that the append made the log.
	Created bool `json:"created,omitempty"`
	// Replayed says that the Idempotency-Key was known: this is the first try's
	// result.
	Replayed bool `json:"replayed,omitempty"`
}

// EntriesOptions chooses which entries of a log are returned.
type EntriesOptions struct {
	After  int64     // above this sequence number; 0: from the first
	Before int64     // below this one; 0: to the last
	Since  time.Time // committed then or later; zero: any
	Until  time.Time // committed before then; zero: any
	// Descending returns the newest first: with Limit alone, the newest N.
	Descending bool
	Limit      int // 1 to 1000; 0: 100
}

// Entry is one entry of a log.
type Entry struct {
	Seq  int64           `json:"seq"`
	Time time.Time       `json:"time"`
	Data json.RawMessage `json:"data"` // the exact compacted bytes; shared: do not change them
	Tier Tier            `json:"tier,omitempty"`
}

// EntryPage is one page of a log.
type EntryPage struct {
	Entries []Entry `json:"entries"`
	LastSeq int64   `json:"last_seq"` // of the log
	// More says that entries were left out because of the limit, or because the
	// page has MaxBody bytes: go on with After or Before the last one.
	More bool `json:"more,omitempty"`
}
