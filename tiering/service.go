package tiering

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// Documents is the document part of tierd. An embedded node and a remote
// client both satisfy it, so a program moves from one to the other by changing
// the line that opens it. The tenant is bound to the value, never an argument.
//
// Methods are safe for concurrent use. A nil options pointer means the zero
// options. Every error is an *Error. A write whose context ends early may
// still commit.
type Documents interface {
	// Get returns the current version, or the one that o asks for.
	Get(ctx context.Context, ns, id string, o *GetOptions) (*Document, error)
	// Head is Get without the bytes.
	Head(ctx context.Context, ns, id string, o *GetOptions) (*Meta, error)
	// Put stores body, any JSON value, as the next version.
	Put(ctx context.Context, ns, id string, body []byte, o *PutOptions) (*Receipt, error)
	// Patch applies a merge patch (RFC 7396; an absent key starts from {}) or
	// a JSON patch (RFC 6902; not_found when absent).
	Patch(ctx context.Context, ns, id string, kind PatchKind, patch []byte, o *WriteOptions) (*Receipt, error)
	// Apply runs edit operations on the document, creating what is missing,
	// and answers the new values.
	Apply(ctx context.Context, ns, id string, ops []EditOp, o *WriteOptions) (*Edited, error)
	// Delete leaves a tombstone. Deleting what is not there succeeds.
	Delete(ctx context.Context, ns, id string, o *WriteOptions) (*Receipt, error)
	// Touch moves the expiry; it never shortens a life unless o.Exact.
	Touch(ctx context.Context, ns, id string, o *TouchOptions) (*Receipt, error)
	// Pin keeps a document from being demoted, expired or collected; pinned
	// false lifts it.
	Pin(ctx context.Context, ns, id string, pinned bool, o *WriteOptions) (*Receipt, error)

	// List returns documents in id order.
	List(ctx context.Context, ns string, o *ListOptions) (*Page, error)
	// Query returns the documents that match a filter.
	Query(ctx context.Context, ns string, q *Query) (*Page, error)
	// History returns versions, newest first.
	History(ctx context.Context, ns, id string, o *HistoryOptions) (*History, error)
	// Diff returns the JSON patch that turns version from into version to.
	Diff(ctx context.Context, ns, id string, from, to int64) (json.RawMessage, error)
	// Rollback makes a new version with the content of an old one.
	Rollback(ctx context.Context, ns, id string, version int64, o *WriteOptions) (*Receipt, error)
	// Explain says where each copy is and what happens next.
	Explain(ctx context.Context, ns, id string) (*Explanation, error)

	// Batch runs many operations, all or nothing when atomic.
	Batch(ctx context.Context, b *Batch) (*BatchResult, error)
	// Watch streams changes in feed order until ctx ends or the stream is closed.
	Watch(ctx context.Context, o *WatchOptions) (Watcher, error)
}

// Namespaces is the policy part of tierd.
type Namespaces interface {
	Namespaces(ctx context.Context) ([]NamespaceInfo, error)
	Namespace(ctx context.Context, ns string) (*NamespaceInfo, error)
	// SetNamespace creates or replaces a policy. IfVersion guards it.
	SetNamespace(ctx context.Context, ns string, p Policy, o *WriteOptions) (*NamespaceInfo, error)
	// PatchNamespace applies a merge patch to a policy.
	PatchNamespace(ctx context.Context, ns string, patch []byte, o *WriteOptions) (*NamespaceInfo, error)
	// DeleteNamespace removes an empty namespace.
	DeleteNamespace(ctx context.Context, ns string, o *WriteOptions) error
}

// APIKeys is the key administration of a tenant.
type APIKeys interface {
	// CreateKey makes a key; its secret is in the answer and nowhere else.
	CreateKey(ctx context.Context, k APIKey) (*APIKey, error)
	APIKeys(ctx context.Context) ([]APIKey, error)
	RevokeKey(ctx context.Context, id string) error
}

// Service is everything an embedded node and a client offer.
type Service interface {
	Documents
	Memories
	Logs
	Consumers
	// Sessions returns the session part.
	Sessions() Sessions
	Namespaces
	APIKeys
	Operations
	Status(ctx context.Context) (*NodeStatus, error)
}

// Condition guards a write. The zero value lets it through.
type Condition struct {
	kind    conditionKind
	version int64
}

type conditionKind uint8

const (
	condAny conditionKind = iota
	condAbsent
	condExists
	condVersion
)

// IfAbsent lets a write through only when nothing stands under the key. An
// expired document counts as absent.
func IfAbsent() Condition { return Condition{kind: condAbsent} }

// IfExists lets a write through only when something stands under the key.
func IfExists() Condition { return Condition{kind: condExists} }

// IfVersion lets a write through only when version stands; 0 means absent.
func IfVersion(version int64) Condition {
	if version == 0 {
		return IfAbsent()
	}
	return Condition{kind: condVersion, version: version}
}

// Unconditional reports whether c lets every write through.
func (c Condition) Unconditional() bool { return c.kind == condAny }

// Version returns the version that c wants to stand, ok false when it names none.
func (c Condition) Version() (v int64, ok bool) { return c.version, c.kind == condVersion }

// Absent reports whether c wants nothing to stand.
func (c Condition) Absent() bool { return c.kind == condAbsent }

// Exists reports whether c wants anything to stand.
func (c Condition) Exists() bool { return c.kind == condExists }

// String writes c as an HTTP client would say it.
func (c Condition) String() string {
	switch c.kind {
	case condAbsent:
		return "If-None-Match: *"
	case condExists:
		return "If-Match: *"
	case condVersion:
		return `If-Match: "` + strconv.FormatInt(c.version, 10) + `"`
	}
	return ""
}

// Holds reports whether c lets a write through where version stands (0: nothing).
func (c Condition) Holds(version int64) bool {
	switch c.kind {
	case condAbsent:
		return version == 0
	case condExists:
		return version != 0
	case condVersion:
		return version == c.version
	}
	return true
}

// GetOptions chooses what Get returns.
type GetOptions struct {
	Version int64     // that version, from wherever it lies; 0: current
	AsOf    time.Time // the version that stood then; zero: now
	// Pointer is a JSON Pointer to the part wanted. A pointer that leads
	// nowhere is not_found and lists the names beside it.
	Pointer string
	// Strong asks warm for the head; otherwise hot may answer.
	Strong bool
	// MinVersion is the lowest version the caller accepts.
	MinVersion int64
	// Default is answered when nothing is stored, in place of the policy's.
	Default json.RawMessage
	// NoDefault keeps the policy's default from being answered.
	NoDefault bool
}

// WriteOptions guards a write.
type WriteOptions struct {
	If Condition
	// IdempotencyKey makes the write happen once in 24 h: the same key with
	// the same request answers the first result.
	IdempotencyKey string
	// TTL changes the expiry with the write; nil keeps it.
	TTL *TTL
	// Fence lets the write through only while the lease of its token stands; nil:
	// none is asked for.
	Fence *Fence
}

// PutOptions guards and shapes a put.
type PutOptions struct {
	WriteOptions
	// User owns the key. It is fixed when the key is created.
	User string
}

// TTL is a change of expiry: a life from now, or none.
type TTL struct {
	Life time.Duration // above 0; ignored when None
	None bool          // clears the expiry
}

// MinTTL is the shortest life that a caller may ask for: below it what was just
// written would be over before it is answered.
const MinTTL = time.Millisecond

// ParseTTL reads the API's form: whole seconds, 30m, 12h, 7d or none.
func ParseTTL(s string) (*TTL, error) {
	if s == "none" {
		return &TTL{None: true}, nil
	}
	d, err := ParseDuration(s)
	if err != nil || d <= 0 {
		return nil, Invalidf("ttl %q: use whole seconds above 0, or 30m, 12h, 7d, or none", s)
	}
	if d < MinTTL {
		return nil, Invalidf("ttl %q: the shortest life is %s", s, MinTTL)
	}
	return &TTL{Life: d}, nil
}

// String writes the API's form.
func (t TTL) String() string {
	if t.None {
		return "none"
	}
	return Duration(t.Life).String()
}

// TouchOptions shapes a touch. A nil TTL slides by the document's own TTL.
type TouchOptions struct {
	WriteOptions
	Exact bool // allow the life to become shorter
}

// PatchKind is the media type of a patch.
type PatchKind string

// The patch kinds.
const (
	MergePatch PatchKind = "application/merge-patch+json"
	JSONPatch  PatchKind = "application/json-patch+json"
)

// EditOp is one edit operation. Numbers are computed as decimals.
type EditOp struct {
	// Op is set, remove, increment, append, add_to_set, remove_from_set, max
	// or min.
	Op      string          `json:"op"`
	Pointer string          `json:"pointer"`
	Value   json.RawMessage `json:"value,omitempty"`
	By      json.RawMessage `json:"by,omitempty"` // increment; a number, default 1
}

// Edited answers Apply: Values holds the new value under each op's pointer,
// null where it was removed. It is nil for a principal that may not read.
type Edited struct {
	Receipt
	Values []json.RawMessage `json:"values,omitempty"`
}

// ListOptions pages through documents in id order.
type ListOptions struct {
	Prefix string // bytes, not a pattern
	User   string
	Limit  int    // 1 to 1000; 0: 100
	Cursor string // opaque, from the page before
	Data   bool   // include bodies; cold ones are left out and marked
}

// Item is one document of a page. Body is nil unless asked for; Cold marks one
// left out because its bytes are in cold.
type Item struct {
	Meta
	Body json.RawMessage `json:"data,omitempty"`
	Cold bool            `json:"cold,omitempty"`
}

// Page is one page of documents. NextCursor is "" on the last.
type Page struct {
	Items      []Item `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Query asks for the documents that match a filter.
type Query struct {
	Filter  json.RawMessage `json:"filter,omitempty"`   // empty: all
	OrderBy string          `json:"order_by,omitempty"` // a JSON Pointer or name; "-" before it: descending; "": by id
	User    string          `json:"user,omitempty"`
	Prefix  string          `json:"prefix,omitempty"`
	Limit   int             `json:"limit,omitempty"`
	Cursor  string          `json:"cursor,omitempty"`
}

// HistoryOptions pages through versions.
type HistoryOptions struct {
	Limit  int
	Cursor string
}

// VersionInfo describes one version.
type VersionInfo struct {
	Version   int64     `json:"version"`
	Op        Op        `json:"op"`
	Size      int64     `json:"size"`
	Digest    Digest    `json:"digest,omitzero"` // zero: a delete
	CreatedAt time.Time `json:"created_at"`
	Tier      Tier      `json:"tier"`
}

// History is one page of versions, newest first.
type History struct {
	Versions   []VersionInfo `json:"versions"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// Explanation says where each copy of a document is, and what happens next. A
// move by hand answers a principal that may not read with Meta and State alone.
type Explanation struct {
	Meta
	State    string        `json:"state"` // live, expired, deleted or absent
	Policy   Policy        `json:"policy,omitzero"`
	Copies   []CopyPlace   `json:"copies,omitempty"`
	Next     Action        `json:"next,omitzero"`
	Accessed time.Time     `json:"accessed_at,omitzero"`
	Locks    []string      `json:"locks,omitempty"`
	Versions []VersionInfo `json:"versions,omitempty"`
}

// CopyPlace is one place that holds the current version.
type CopyPlace struct {
	Tier    Tier   `json:"tier"`
	Where   string `json:"where,omitempty"` // a segment's name, for cold
	Copy    string `json:"copy,omitempty"`  // primary or backup, for cold
	State   string `json:"state"`           // present, absent, pending, verified, missing or bad
	Version int64  `json:"version,omitempty"`
}

// Batch is a list of operations.
type Batch struct {
	Atomic bool      `json:"atomic"`
	Ops    []BatchOp `json:"ops"`
	// IdempotencyKey covers the whole batch.
	IdempotencyKey string `json:"-"`
}

// The bounds of one request: operations of a batch, and of an edit.
const (
	MaxBatchOps = 1000
	MaxEditOps  = 100
)

// BatchOp is one operation of a batch: put, patch, edit, delete, get, check,
// append or remember. An append's data is an entry, or several when an array; its
// IfVersion is the sequence number that is expected.
type BatchOp struct {
	Op        string          `json:"op"`
	Namespace string          `json:"namespace"`
	ID        string          `json:"id"`
	Data      json.RawMessage `json:"data,omitempty"`       // put: the body; patch: a merge patch, or a JSON patch when an array
	Ops       []EditOp        `json:"ops,omitempty"`        // edit
	IfVersion *int64          `json:"if_version,omitempty"` // 0: absent
	TTL       string          `json:"ttl,omitempty"`
	User      string          `json:"user,omitempty"`
}

// BatchResult answers a batch, one entry per operation in order.
type BatchResult struct {
	Results  []OpResult `json:"results"`
	Replayed bool       `json:"replayed,omitempty"`
}

// OpResult is the outcome of one operation.
type OpResult struct {
	Status   int               `json:"status"` // as the same call alone would answer
	Receipt  *Receipt          `json:"receipt,omitempty"`
	Appended *Appended         `json:"appended,omitempty"` // append
	Document *Document         `json:"document,omitempty"` // get
	Values   []json.RawMessage `json:"values,omitempty"`   // edit
	Error    *Problem          `json:"error,omitempty"`
}

// WatchOptions chooses what a watcher sees.
type WatchOptions struct {
	Namespace string
	Prefix    string
	ID        string
	User      string
	Session   string
	// From is "now" (default) or "start" of what the feed keeps. After, an
	// event's id, wins over it: the stream goes on behind that event.
	From  string
	After string
	// Consumer names a stored position, see Consumers: the stream goes on behind
	// it. The first watch of a name makes it; later ones have to watch the same. An
	// After still wins over the stored position, and From counts for the first alone.
	Consumer string
	// Data and Previous include the bodies after and before the change.
	Data     bool
	Previous bool
}

// Event is one change.
type Event struct {
	ID          string          `json:"-"`    // epoch.pos.index
	Type        string          `json:"type"` // state.put, state.deleted, state.expired, state.touched, state.pinned, state.unpinned; of a log: log.appended and the others, log. before them
	Namespace   string          `json:"namespace"`
	Key         string          `json:"id"`
	Version     int64           `json:"version"`
	PrevVersion int64           `json:"prev_version"`
	Time        time.Time       `json:"time"`
	User        string          `json:"user,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Previous    json.RawMessage `json:"previous,omitempty"`
}

// Watcher is a stream of events. One goroutine calls Next; Close may be called
// from any, and more than once.
type Watcher interface {
	// Next blocks until the next event. It returns the context's error when
	// ctx ends, and gone when the stream fell behind what the feed keeps.
	Next(ctx context.Context) (Event, error)
	Close() error
}
