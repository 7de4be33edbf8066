package tiering

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a namespace holds. It is fixed once keys exist.
type Kind string

// The kinds.
const (
	KindState  Kind = "state"
	KindLog    Kind = "log"
	KindMemory Kind = "memory"
	// KindSession is for the namespaces that tierd keeps sessions in.
	KindSession Kind = "session"
)

// Class is how long a namespace's documents live, and where. It is fixed once
// keys exist.
type Class string

// The classes. Ephemeral lives in hot only and may vanish at any time. Session
// has a sliding TTL and is collected after TTL and retention. Persistent keeps
// its history and demotes with age.
const (
	ClassEphemeral  Class = "ephemeral"
	ClassSession    Class = "session"
	ClassPersistent Class = "persistent"
)

// Duration is a time.Duration that reads and writes as "90s", "30m", "12h",
// "7d" or a whole number of seconds.
type Duration time.Duration

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes the largest unit that divides d.
func (d Duration) String() string {
	t := time.Duration(d)
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if t != 0 && t%u.unit == 0 {
			return strconv.FormatInt(int64(t/u.unit), 10) + u.name
		}
	}
	return t.String()
}

// MarshalText writes String's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads ParseDuration's forms.
func (d *Duration) UnmarshalText(b []byte) error {
	t, err := ParseDuration(string(b))
	*d = Duration(t)
	return err
}

// UnmarshalJSON reads a string in ParseDuration's forms, or a number of seconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(s) > 1 && s[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	t, err := ParseDuration(s)
	*d = Duration(t)
	return err
}

// ParseDuration reads whole seconds ("90"), days ("7d"), or anything that
// time.ParseDuration reads. A negative or overflowing duration is invalid.
func ParseDuration(s string) (time.Duration, error) {
	bad := Invalidf("duration %q: use whole seconds, or a number with s, m, h or d such as 30m or 7d", s)
	unit := time.Second
	digits, isDays := strings.CutSuffix(s, "d")
	if isDays {
		unit = 24 * time.Hour
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n < 0 || n > int64(1<<63-1)/int64(unit) {
			return 0, bad
		}
		return time.Duration(n) * unit, nil
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		return 0, bad
	}
	return t, nil
}

// Policy says how a namespace keeps its documents. The zero value of each
// field but Kind and Class means "as WithDefaults fills it".
type Policy struct {
	Kind  Kind  `json:"kind,omitempty"`
	Class Class `json:"class,omitempty"`

	// TTL is the life given to a new document that asks for none; 0 means it
	// does not expire (session: 1h).
	TTL Duration `json:"ttl,omitempty"`
	// HotTTL is how long hot keeps a document from its last set; default 5m.
	HotTTL Duration `json:"hot_ttl,omitempty"`
	// RetireAfter is how long a superseded version stays in warm once it is
	// archived twice; default 1h.
	RetireAfter Duration `json:"retire_after,omitempty"`
	// DemoteAfter is how long a document idles, and how old an entry of a log is,
	// before its bytes leave warm; default 30d.
	DemoteAfter Duration `json:"demote_after,omitempty"`
	// KeepVersions and KeepFor bound history: a version is kept while either
	// covers it. Defaults 1000 and 365d. Of a log that lives all entries are kept.
	KeepVersions int64    `json:"keep_versions,omitempty"`
	KeepFor      Duration `json:"keep_for,omitempty"`
	// Promote says whether a read from cold brings the bytes back to warm;
	// default true.
	Promote *bool `json:"promote,omitempty"`

	// Schema is a JSON Schema 2020-12 that every document must meet.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Default is answered by a plain cached get when nothing is stored, or
	// when the load took longer than LoadDeadline (0: no deadline).
	Default      json.RawMessage `json:"default,omitempty"`
	LoadDeadline Duration        `json:"load_deadline,omitempty"`

	// MaxSize bounds a document in bytes; default and upper bound 8 MiB.
	MaxSize int64 `json:"max_size,omitempty"`
	// ContextWindow is the size in bytes that a model can take; a document
	// above ContextWindow x WarnAt is warned of. 0 warns against MaxSize.
	ContextWindow int64   `json:"context_window,omitempty"`
	WarnAt        float64 `json:"warn_at,omitempty"` // 0 < share <= 1; default 0.70

	// RequireVersion refuses a put, patch, edit or delete without If-Match (428).
	RequireVersion bool `json:"require_version,omitempty"`
	// Query keeps current documents queryable after demotion; default true.
	// QueryIndex asks for an index by content, which PostgreSQL builds in the
	// background; SQLite has none. Answers are the same with it and without.
	Query      *bool `json:"query,omitempty"`
	QueryIndex bool  `json:"query_index,omitempty"`
	// StatusPointer is the JSON Pointer of a state machine's state, recorded
	// on commit spans as state.from and state.to.
	StatusPointer string `json:"status_pointer,omitempty"`

	// Deleted marks a namespace that was deleted: its name, kind and class
	// stay for ever.
	Deleted bool `json:"deleted,omitempty"`
}

// The defaults of a policy and the bounds of a body.
const (
	DefaultHotTTL       = 5 * time.Minute
	DefaultRetireAfter  = time.Hour
	DefaultDemoteAfter  = 30 * 24 * time.Hour
	DefaultKeepVersions = 1000
	DefaultKeepFor      = 365 * 24 * time.Hour
	DefaultSessionTTL   = time.Hour
	DefaultWarnAt       = 0.70
	MaxBody             = 8 << 20 // bytes
	MaxDepth            = 128     // nested arrays and objects
	MaxNumberLength     = 400     // characters of a number's text
	MaxExponent         = 400     // absolute value of a number's exponent
)

// WithDefaults returns p with every unsaid field filled in.
func (p Policy) WithDefaults() Policy {
	fill := func(d *Duration, v time.Duration) {
		if *d == 0 {
			*d = Duration(v)
		}
	}
	if p.Kind == "" {
		p.Kind = KindState
	}
	if p.Class == "" {
		p.Class = ClassPersistent
	}
	if p.Class == ClassSession {
		fill(&p.TTL, DefaultSessionTTL)
	}
	fill(&p.HotTTL, DefaultHotTTL)
	fill(&p.RetireAfter, DefaultRetireAfter)
	fill(&p.DemoteAfter, DefaultDemoteAfter)
	fill(&p.KeepFor, DefaultKeepFor)
	if p.KeepVersions == 0 {
		p.KeepVersions = DefaultKeepVersions
	}
	if p.MaxSize == 0 {
		p.MaxSize = MaxBody
	}
	if p.WarnAt == 0 {
		p.WarnAt = DefaultWarnAt
	}
	yes := true
	if p.Query == nil {
		p.Query = &yes
	}
	if p.Promote == nil {
		p.Promote = &yes
	}
	return p
}

// Sliding reports whether writes and reads slide the expiry.
func (p Policy) Sliding() bool { return p.Class == ClassSession }

// KeepsAll reports whether no version of a key that lives is ever collected: the
// versions of a log are its entries, and those of a session what it can be
// resumed from.
func (p Policy) KeepsAll() bool { return p.Kind == KindLog || p.Kind == KindSession }

// Durable reports whether documents are kept in warm and cold.
func (p Policy) Durable() bool { return p.Class != ClassEphemeral }

// Indexed reports whether queries are to be answered by an index.
func (p Policy) Indexed() bool {
	return p.QueryIndex && (p.Query == nil || *p.Query) && p.Durable() && !p.Deleted
}

// WarnSize is the size in bytes from which a document is warned of.
func (p Policy) WarnSize() int64 {
	w := p.ContextWindow
	if w == 0 {
		w = p.MaxSize
	}
	return int64(float64(w) * p.WarnAt)
}

// Validate checks what a caller may set; the schema itself is compiled by the
// router. Errors are 422 with a pointer to the field.
func (p Policy) Validate() error {
	switch p.Kind {
	case "", KindState, KindLog, KindMemory, KindSession:
	default:
		return Unprocessablef("/kind", "unknown kind %q: use state, log or memory", p.Kind)
	}
	switch p.Class {
	case "", ClassEphemeral, ClassSession, ClassPersistent:
	default:
		return Unprocessablef("/class", "unknown class %q: use ephemeral, session or persistent", p.Class)
	}
	if p.Class == ClassEphemeral && p.Kind != "" && p.Kind != KindState {
		return Unprocessablef("/class", "a namespace of kind %s cannot be ephemeral", p.Kind)
	}
	if p.TTL > 0 && p.TTL.Std() < MinTTL {
		return Unprocessablef("/ttl", "the shortest life is %s", MinTTL)
	}
	if p.MaxSize < 0 || p.MaxSize > MaxBody {
		return Unprocessablef("/max_size", "max_size %d: use 1 to %d bytes", p.MaxSize, MaxBody)
	}
	if p.KeepVersions < 0 {
		return Unprocessablef("/keep_versions", "keep_versions %d: use a positive number", p.KeepVersions)
	}
	if p.ContextWindow < 0 {
		return Unprocessablef("/context_window", "context_window %d: use a positive number of bytes", p.ContextWindow)
	}
	if p.WarnAt < 0 || p.WarnAt > 1 {
		return Unprocessablef("/warn_at", "warn_at %v: use a share above 0 and up to 1", p.WarnAt)
	}
	for name, d := range map[string]Duration{
		"ttl": p.TTL, "hot_ttl": p.HotTTL, "retire_after": p.RetireAfter, "demote_after": p.DemoteAfter,
		"keep_for": p.KeepFor, "load_deadline": p.LoadDeadline,
	} {
		if d < 0 {
			return Unprocessablef("/"+name, "%s is negative", name)
		}
	}
	if p.StatusPointer != "" && p.StatusPointer[0] != '/' {
		return Unprocessablef("/status_pointer", "status_pointer %q: a JSON Pointer starts with /", p.StatusPointer)
	}
	return nil
}

// NamespaceInfo is a namespace with its policy as it is in force.
type NamespaceInfo struct {
	Name    string `json:"name"`
	Version int64  `json:"version"` // of the policy; the ETag
	Policy
	// QueryIndexState says how far the index is that the policy asks for; "" where
	// it asks for none, where the warm tier has no such indexes, and in lists.
	QueryIndexState QueryIndexState `json:"query_index_state,omitempty"`
}

// QueryIndexState is how far the index by content of a namespace is.
type QueryIndexState string

// An index is used by queries once it is ready; until then they read as without.
const (
	QueryIndexBuilding QueryIndexState = "building"
	QueryIndexReady    QueryIndexState = "ready"
)

// String returns the name and class.
func (n NamespaceInfo) String() string { return fmt.Sprintf("%s (%s %s)", n.Name, n.Class, n.Kind) }
