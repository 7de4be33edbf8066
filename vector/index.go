package vector

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Scope says which memories a search looks at. Tenant and Namespaces are always
// set; what is zero does not limit.
type Scope struct {
	Tenant     string
	Namespaces []string
	// Prefixes are those of the caller's key: an id has one of them.
	Prefixes     []string
	User         string
	Agent        string
	App          string
	Session      string
	Types        []tiering.MemoryType
	Since, Until time.Time // that it overlaps
	Superseded   bool      // also what holds no more
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

// Term is a word of a query, in the form that index entries have, with the
// words that are close to it in meaning, nearest first.
type Term struct {
	Text       string
	Neighbours []Neighbour
}

// Neighbour is a term with its cosine to another.
type Neighbour struct {
	Text       string
	Similarity float64
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
	// Words returns what has any of terms, by BM25 with the statistics of each
	// namespace, best first: a term counts for a text by the larger of its own
	// match and 0.4 x similarity x the match of one of its first 20 neighbours
	// that the namespace knows.
	Words(ctx context.Context, s Scope, terms []Term, limit int) ([]Hit, error)
	// Around returns, for each of hits that has a session, the memory before it
	// and the one after it there (by At, then id), in scope, whatever they say.
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
