package vector

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector/lexical"
)

// Scope says which memories a search looks at. Tenant and Namespaces are always
// set; what is zero does not limit.
type Scope struct {
	Tenant     string
	Namespaces []string
	// Prefixes are those of the caller's key: an id has one of them.
	Prefixes []string
	User     string
	Agent    string
	App      string
	Session  string
	Types    []tiering.MemoryType
	// Since and Until are the first and the last moment of a time that what
	// happened has to overlap.
	Since, Until time.Time
	Superseded   bool // also what holds no more
	// Keys are the only ones looked at when it is not nil: what a filter let
	// through, at most some thousands.
	Keys []tiering.Key
}

// Hit is one memory that an arm of the search found, with all that ranking
// needs. Score is that arm's own: a cosine, or BM25's.
type Hit struct {
	Key        tiering.Key
	Version    int64
	Score      float64
	Type       tiering.MemoryType
	User       string
	Session    string
	Speaker    string
	At         time.Time // when it happened, or was created
	CreatedAt  time.Time
	Importance float64
	Uses       int64
	UsedAt     time.Time
}

// Item is a live memory as an index in process holds it.
type Item struct {
	Key       tiering.Key
	Version   int64
	User      string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never, be it for being pinned
	Entry     tiering.MemoryEntry
}

// Source is where an index in process reads memories from. One process has it.
type Source interface {
	// Now is the clock that memories expire by.
	Now(ctx context.Context) (time.Time, error)
	// After returns live memories of all tenants, in key order above after.
	After(ctx context.Context, after tiering.Key, limit int) ([]Item, error)
	// Of returns those of keys that are live and indexed, in no order.
	Of(ctx context.Context, keys []tiering.Key) ([]Item, error)
	// Changed returns keys whose memory changed behind the position since, and
	// the position now; known is false when everything has to be read again,
	// after the call. A change is told before its writer hears of its commit.
	Changed(ctx context.Context, since int64) (keys []tiering.Key, now int64, known bool, err error)
}

// Index searches the entries of memories. Every hit is of a live head at its
// current version when the search ran. Methods are safe for concurrent use.
// A memory is found as soon as its commit was acknowledged by this daemon, and
// on a shared warm store by every daemon.
type Index interface {
	// Nearest returns what lies closest to v by cosine in an embedding space,
	// best first; fewer than limit only when the scope has no more. deep
	// searches dormant vectors too.
	Nearest(ctx context.Context, s Scope, space string, v []float32, limit int, deep bool) ([]Hit, error)
	// Words returns what has any word of q, or a neighbour of one, scored by
	// lexical.Plan with the counts of the scope's namespaces, best first.
	Words(ctx context.Context, s Scope, q lexical.Query, limit int) ([]Hit, error)
	// Frequencies returns the counts of the scope's tenant and namespaces, and
	// in how many of their memories each of terms is, before any filter.
	Frequencies(ctx context.Context, s Scope, terms []string) (lexical.Stats, []int64, error)
	// Around returns, for each of hits that has a session and is still there, the
	// nearest memory before it and the nearest after it there (by At, then id)
	// that are in scope, whatever they say. Their Score is 0.
	Around(ctx context.Context, s Scope, hits []Hit) ([]Adjacent, error)
	// Count tells how many memories of a scope there are, at most up to.
	Count(ctx context.Context, s Scope, upTo int) (int, error)
	// Maintain does a step of background work, such as merging new vectors into
	// an index, and reports whether there is more to do.
	Maintain(ctx context.Context) (more bool, err error)
	// Forget drops what the index itself remembers of erased keys.
	Forget(ctx context.Context) error
	// Stats describes the index.
	Stats(ctx context.Context) (Stats, error)
	Close() error
}

// Adjacent is a hit's neighbours in its session; nil where there is none.
type Adjacent struct {
	Of            tiering.Key
	Before, After *Hit
}

// Stats describes an index.
type Stats struct {
	Memories int64
	Vectors  int64
	Fresh    int64 // vectors that are searched exactly until they are merged
	Dormant  int64
	Bytes    int64 // in this process
}
