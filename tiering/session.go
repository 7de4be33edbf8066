package tiering

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// OwnNamespaces begins the names of the namespaces that tierd keeps sessions and
// consumers in. Callers read them and set their policies; what writes them is calls on
// sessions and consumers alone (wrong_kind).
const OwnNamespaces = "tierd."

// The namespaces that sessions are kept in. They are made with the first session,
// and their policies are set like any other's: the TTL of sessions is that of
// SessionEventsNamespace. A scope that is limited to namespaces has to name
// SessionNamespace to use sessions.
const (
	SessionNamespace       = "tierd.sessions" // id: the session's; body: its attributes and state
	SessionEventsNamespace = "tierd.events"   // id: the session's; the log. Its head is the session's life
	SessionPartsNamespace  = "tierd.parts"    // id: the session's, a slash and the part: lease, checkpoints, steps, summaries, recalls
	UserStateNamespace     = "tierd.users"    // id: the user's name escaped; state with the scope user:
	AppStateNamespace      = "tierd.apps"     // id: the app's name escaped; state with the scope app:
)

// SystemEvent begins the type of every entry that tierd itself appends to a
// session's log: tierd.created, tierd.resumed, tierd.checkpoint, tierd.step.
// Callers' events do not begin with it.
const SystemEvent = "tierd."

// MaxExport is the longest export of a session, in bytes, and the longest body of an
// import.
const MaxExport = 16 << 20

// Sessions keeps sessions: state, an event log, checkpoints, steps and a lease
// under one id, with one sliding life for all of it. A session whose life is over
// is not found at once. Methods are safe for concurrent use; a nil options
// pointer means the zero options; every error is an *Error.
type Sessions interface {
	// Create makes a session. version_conflict when one of that id stands.
	Create(ctx context.Context, s *NewSession) (*Session, error)
	Get(ctx context.Context, id string) (*Session, error)
	// Patch changes attributes and state.
	Patch(ctx context.Context, id string, p *SessionPatch, o *SessionWrite) (*Session, error)
	// List returns sessions, newest first.
	List(ctx context.Context, o *SessionQuery) (*SessionPage, error)
	// Delete removes everything of a session. Deleting what is not there succeeds,
	// whatever guards it; the idempotency key means nothing here.
	Delete(ctx context.Context, id string, o *SessionWrite) error

	// Append adds events, and with a patch changes the session, in one commit.
	// Events alone fold with those of others.
	Append(ctx context.Context, id string, events []json.RawMessage, p *SessionPatch, o *SessionWrite) (*SessionAppended, error)
	// Events reads the log.
	Events(ctx context.Context, id string, o *EntriesOptions) (*EntryPage, error)
	// Context returns what fits a model's context window.
	Context(ctx context.Context, id string, o *ContextOptions) (*SessionContext, error)
	// Timeline returns what happened to the session, in order.
	Timeline(ctx context.Context, id string, o *EntriesOptions) (*Timeline, error)

	// Export returns the whole session, Import makes it again, under the id of
	// the export unless another is given; what no export can be is invalid. A session that makes more than
	// MaxExport is not exported (too_large): its parts are read each by itself.
	Export(ctx context.Context, id string) (*SessionExport, error)
	Import(ctx context.Context, e *SessionExport) (*Session, error)

	// Checkpoint names the state and the log as they stand.
	Checkpoint(ctx context.Context, id, name string, o *SessionWrite) (*Checkpoint, error)
	Checkpoints(ctx context.Context, id string) ([]Checkpoint, error)
	// Resume commits the state of a checkpoint again. Contexts leave out what
	// lies between; events show it.
	Resume(ctx context.Context, id, name string, o *SessionWrite) (*Session, error)
	// Branch makes a new session from a checkpoint: its state, and under new
	// numbers and times the events up to it, without those that resumes had gone
	// back over, and the steps that were done by then. Claims stay behind.
	Branch(ctx context.Context, id, name string, s *NewSession) (*Session, error)

	// Step claims a run-once step, or completes it when r has an output.
	Step(ctx context.Context, id, name string, r *StepRequest, o *SessionWrite) (*Step, error)
	Steps(ctx context.Context, id string) ([]Step, error)

	// AcquireLease takes the session's lease, or renews it for the same holder, and
	// slides the session's life; no lease is longer than that life.
	// lease_held names who holds it, and until when.
	AcquireLease(ctx context.Context, id string, r *LeaseRequest) (*SessionLease, error)
	// ReleaseLease gives it up; a lease of another token is left alone (fenced).
	ReleaseLease(ctx context.Context, id string, token int64) error
}

// NewSession is a session to be made.
type NewSession struct {
	ID       string          `json:"id,omitempty"` // "": one is made
	User     string          `json:"user,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	App      string          `json:"app,omitempty"`
	Status   string          `json:"status,omitempty"`
	Progress *float64        `json:"progress,omitempty"` // 0 to 1
	TTL      string          `json:"ttl,omitempty"`      // as ParseTTL reads it; "": the policy's
	State    json.RawMessage `json:"state,omitempty"`    // an object
	// Events are its first ones, in the same commit.
	Events []json.RawMessage `json:"events,omitempty"`
	// IdempotencyKey makes the creation happen once in 24 h.
	IdempotencyKey string `json:"-"`
}

// Session is a session without its events.
type Session struct {
	ID       string   `json:"id"`
	User     string   `json:"user,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	App      string   `json:"app,omitempty"`
	Status   string   `json:"status,omitempty"`
	Progress *float64 `json:"progress,omitempty"`
	// State has the keys of the session and, under their prefixes, those that it
	// shares with the user's and the app's other sessions; these are left out in
	// lists and exports.
	State     json.RawMessage `json:"state"`
	Version   int64           `json:"version"`  // of state and attributes
	LastSeq   int64           `json:"last_seq"` // of the log
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"` // the last event or change
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
}

// SessionPatch changes a session. What is nil or empty stays.
type SessionPatch struct {
	// State is a merge patch (RFC 7396). Top-level keys that begin with user: or
	// app: go to documents of their own, shared by the user's or the app's
	// sessions and not atomic with this one; those with temp: are not stored.
	State    json.RawMessage `json:"state,omitempty"`
	Agent    *string         `json:"agent,omitempty"`
	App      *string         `json:"app,omitempty"`
	Status   *string         `json:"status,omitempty"`
	Progress *float64        `json:"progress,omitempty"`
	TTL      string          `json:"ttl,omitempty"`
}

// Empty reports whether the patch changes nothing.
func (p *SessionPatch) Empty() bool {
	return p == nil || len(p.State) == 0 && p.Agent == nil && p.App == nil && p.Status == nil && p.Progress == nil && p.TTL == ""
}

// SessionWrite guards a write of a session.
type SessionWrite struct {
	// IfVersion is the version of state and attributes that must stand; nil: any.
	IfVersion *int64
	// ExpectSeq is the last sequence number that the log must have; nil: any.
	ExpectSeq      *int64
	IdempotencyKey string
	// Fence lets the write through only under a lease that stands.
	Fence *Fence
}

// Fence is a lease's token on a write, checked in its commit.
type Fence struct {
	Session string
	Token   int64
}

// SessionAppended answers an append of events.
type SessionAppended struct {
	FirstSeq int64     `json:"first_seq,omitempty"` // 0: no events were sent
	LastSeq  int64     `json:"last_seq"`
	Version  int64     `json:"version,omitempty"` // 0: state and attributes were left alone
	Time     time.Time `json:"time"`
	Replayed bool      `json:"replayed,omitempty"`
}

// SessionQuery selects sessions. What is empty selects all.
type SessionQuery struct {
	User, Agent, App, Status string
	Limit                    int
	Cursor                   string
}

// SessionPage is one page of sessions.
type SessionPage struct {
	Sessions   []Session `json:"sessions"`
	NextCursor string    `json:"next_cursor,omitempty"`
}

// Checkpoint names a state and a place in the log.
type Checkpoint struct {
	Name      string    `json:"name"`
	Version   int64     `json:"version"` // of state and attributes
	Seq       int64     `json:"seq"`     // the last entry that belongs to it
	CreatedAt time.Time `json:"created_at"`
}

// The states of a step.
const (
	StepClaimed = "claimed" // by this call: run it, then complete it
	StepDone    = "done"
	StepUnknown = "unknown" // claimed before and not completed: whether it ran is the caller's to find out
)

// StepRequest claims a step, or completes it.
type StepRequest struct {
	// Output, any JSON value, completes the step.
	Output json.RawMessage `json:"output,omitempty"`
	// Again claims a step that is unknown once more: the caller decided to.
	Again bool `json:"again,omitempty"`
}

// Step is a run-once step of a job.
type Step struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// Key is the same at every try: what the step does elsewhere can be made
	// idempotent by it.
	Key      string          `json:"key"`
	Attempts int             `json:"attempts"`
	Output   json.RawMessage `json:"output,omitempty"`
	// Replayed says that the step was done before, and this is what it gave then; or
	// that the call came again by its idempotency key, which claims nothing.
	Replayed    bool      `json:"replayed,omitempty"`
	ClaimedAt   time.Time `json:"claimed_at,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
}

// LeaseRequest asks for a session's lease.
type LeaseRequest struct {
	Holder string `json:"holder"`
	TTL    string `json:"ttl,omitempty"` // "": 30s
}

// SessionLease is the right to write a session that one holder has at a time.
// Tokens only grow, also over a rebuild.
type SessionLease struct {
	Session   string    `json:"session"`
	Holder    string    `json:"holder"`
	Token     int64     `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// HeldLease is a lease as those see it who do not hold it: without its token, with
// which they could write and release as if they did.
type HeldLease struct {
	Session   string    `json:"session"`
	Holder    string    `json:"holder"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Fence is the value of the Tierd-Fence header under the lease.
func (l SessionLease) Fence() Fence { return Fence{l.Session, l.Token} }

// SessionExport is a whole session.
type SessionExport struct {
	Session Session `json:"session"`
	TTL     string  `json:"ttl,omitempty"`
	Events  []Entry `json:"events"`
	// Skipped is what resumes went back over.
	Skipped     []Omitted          `json:"skipped,omitempty"`
	Checkpoints []CheckpointExport `json:"checkpoints,omitempty"`
	Steps       []Step             `json:"steps,omitempty"`
	// Summaries are those that a model made. An import leaves them out: they are made
	// again.
	Summaries []SessionSummary `json:"summaries,omitempty"`
	// Recalls are the newest ones for its contexts. An import leaves them out: they
	// were not for the session that it makes.
	Recalls []SessionRecall `json:"recalls,omitempty"`
}

// CheckpointExport is a checkpoint with its state.
type CheckpointExport struct {
	Checkpoint
	State json.RawMessage `json:"state"`
	// Skipped is what resumes had gone back over by then.
	Skipped []Omitted `json:"skipped,omitempty"`
}

// Timeline is what happened to a session.
type Timeline struct {
	Items []TimelineItem `json:"items"`
	More  bool           `json:"more,omitempty"` // go on with After the last seq
}

// TimelineItem is an event, a version, or what a context recalled.
type TimelineItem struct {
	Time time.Time `json:"time"`
	What string    `json:"what"` // event, version, recalled, created, resumed, checkpoint or step
	// Seq and Data are of entries of the log; Data alone of a recall, a
	// SessionRecall. The newest 40 recalls of a session are kept.
	Seq  int64           `json:"seq,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	// Version, and the JSON patch from the one before, are of state and
	// attributes; Diff is empty when the bytes are no longer kept, and for all but
	// the newest 1,000 versions of a page.
	Version int64           `json:"version,omitempty"`
	Diff    json.RawMessage `json:"diff,omitempty"`
}

// ContextOptions shape a context.
type ContextOptions struct {
	Budget    int    // tokens; at least 1
	Tokenizer string // an encoding such as o200k_base; "": o200k_base
	KeepTurns int    // the newest turns that stay whole; 0: 5
	Shorten   int    // characters of a message in turns before them; 0: 500
	Shape     string // openai or anthropic; "": openai
	// Recall, a query, weaves memories into the context: the user's of the session,
	// and those that nobody owns. Memories names their namespaces; none: all of kind
	// memory that the principal may read.
	Recall   string
	Memories []string
}

// SessionContext is what fits a model's context window.
type SessionContext struct {
	Messages []json.RawMessage `json:"messages"`
	// System is the system message in the Anthropic shape, where it is no message.
	System  string    `json:"system,omitempty"`
	Tokens  int       `json:"tokens"`
	Omitted []Omitted `json:"omitted"`
	LastSeq int64     `json:"last_seq"`
	// NotMessages is how many events say nothing to a model: they are no message in
	// a shape that is known, or an empty one of the assistant. tierd's own entries
	// are not counted.
	NotMessages int `json:"not_messages,omitempty"`
	// Summary says what stands in place of the oldest turns; nil: nothing does.
	Summary *ContextSummary `json:"summary,omitempty"`
	// Recalled says which memories one message of the context holds; nil: none were
	// asked for.
	Recalled *ContextRecall `json:"recalled,omitempty"`
}

// The kinds of a summary.
const (
	SummaryExtractive = "extractive" // the beginning of what each side said
	SummaryModel      = "model"      // made by the chat endpoint that the node is configured with
)

// ContextSummary is what a context says of its summary.
type ContextSummary struct {
	Kind   string `json:"kind"`
	From   int64  `json:"from"` // the first entry that it stands for
	To     int64  `json:"to"`   // the last one
	Tokens int    `json:"tokens"`
	// ModelTo is the last entry that the model's summary covers: what lies between
	// it and To is extractive. 0: all of it is.
	ModelTo int64 `json:"model_to,omitempty"`
	// Reason says why a model that is configured did not make all of it.
	Reason string `json:"reason,omitempty"`
}

// SessionSummary is a summary of the oldest turns of a session that a model made. It is
// a part of the session, and goes with it.
type SessionSummary struct {
	From   int64     `json:"from"`
	To     int64     `json:"to"`
	Text   string    `json:"text"`
	MadeAt time.Time `json:"made_at"`
	// Skipped is what resumes had gone back over within From and To.
	Skipped []Omitted `json:"skipped,omitempty"`
}

// SessionRecall is what a context recalled for a session, without the memories' text.
// Those that were deleted or erased since, or expired, are named no more.
type SessionRecall struct {
	Time     time.Time        `json:"time"`
	Query    string           `json:"query"` // its first 200 characters
	Memories []RecalledMemory `json:"memories"`
	LeftOut  int              `json:"left_out,omitempty"`
	Partial  bool             `json:"partial,omitempty"`
}

// ContextRecall tells recalled memories from what was said.
type ContextRecall struct {
	Memories []RecalledMemory `json:"memories"`           // best first
	Tokens   int              `json:"tokens"`             // of the context's, what their message takes
	LeftOut  int              `json:"left_out,omitempty"` // recalled, and did not fit
	// Partial: a way of looking could not take part; Reason says which, and why.
	Partial bool   `json:"partial,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// RecalledMemory is a memory that a context holds, or held.
type RecalledMemory struct {
	Namespace string  `json:"namespace"`
	ID        string  `json:"id,omitempty"` // "" when it is gone
	Version   int64   `json:"version"`
	Score     float64 `json:"score"`
	// Gone, of a SessionRecall, says that nothing tells any more which memory it was.
	Gone bool `json:"gone,omitempty"`
}

// Omitted is a run of entries that a context does not hold whole.
type Omitted struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	How  string `json:"how"` // shortened, summarised, dropped, or resumed over
}

// ValidateSessionID checks a session's id: that of a document, without slashes,
// because what belongs to a session is named below it.
func ValidateSessionID(id string) error { return validatePart("session id", id) }

// ValidatePartName checks the name of a checkpoint or a step.
func ValidatePartName(name string) error { return validatePart("name", name) }

func validatePart(what, s string) error {
	if strings.Contains(s, "/") {
		return Invalidf("%s %q: slashes are not allowed", what, s)
	}
	if len(s) > 256 {
		return Invalidf("%s is %d bytes long: use 1 to 256", what, len(s))
	}
	return ValidateID(s)
}
