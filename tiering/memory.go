package tiering

import (
	"context"
	"encoding/json"
	"time"
)

// MemoryType says how a memory is recalled and how it ages.
type MemoryType string

// The types. A fact does not age. Knowledge is found by its words as much as by
// meaning. An event has a time range. Experiences are linked.
const (
	MemoryFact       MemoryType = "fact"
	MemoryKnowledge  MemoryType = "knowledge"
	MemoryEvent      MemoryType = "event"
	MemoryExperience MemoryType = "experience"
)

// IndexStatus says whether a memory's vector is in the space that recall uses.
type IndexStatus string

// The states of an index entry. A memory that is pending or failed is found by
// its words.
const (
	IndexPending IndexStatus = "pending"
	IndexIndexed IndexStatus = "indexed"
	IndexFailed  IndexStatus = "failed"
)

// MemoryBody is the document of a memory: what a namespace of kind memory
// stores, byte for byte, under every version. Everything that recall needs can
// be computed from it again.
type MemoryBody struct {
	Text string     `json:"text"`           // what is remembered; not empty
	Type MemoryType `json:"type,omitempty"` // "": fact
	// Metadata is any object. "speaker", a string, is who said it: recall
	// prefers a speaker that the query names.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	App      string          `json:"app,omitempty"`
	// Session joins memories of one conversation: their neighbours in time say
	// something of each other.
	Session string `json:"session,omitempty"`
	// Importance is 0 to 1.
	Importance float64 `json:"importance,omitempty"`
	// OccurredAt and EndedAt are when it happened; zero: when it was stored.
	OccurredAt time.Time `json:"occurred_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	// ValidTo and SupersededBy mark what holds no more: recall leaves it out
	// unless asked.
	ValidTo      time.Time `json:"valid_to,omitzero"`
	SupersededBy string    `json:"superseded_by,omitempty"` // an id of the same namespace
	// Uses and UsedAt count confirmed uses.
	Uses   int64     `json:"uses,omitempty"`
	UsedAt time.Time `json:"used_at,omitzero"`
	// Links lead to other memories of the namespace.
	Links []Link `json:"links,omitempty"`
	// Embedding is the caller's own vector, of the space that EmbeddingModel
	// names ("": the space of all vectors of its length that nobody named).
	Embedding      []float32 `json:"embedding,omitempty"`
	EmbeddingModel string    `json:"embedding_model,omitempty"`
}

// Link is one directed relation from the memory that holds it.
type Link struct {
	Relation string `json:"relation"`
	To       string `json:"to"` // an id of the same namespace
}

// Memory is a stored memory.
type Memory struct {
	Meta
	MemoryBody
	IndexStatus IndexStatus `json:"index_status,omitempty"`
}

// NewMemory is a memory to be stored.
type NewMemory struct {
	ID   string `json:"id,omitempty"` // "": made, a ULID
	User string `json:"user,omitempty"`
	TTL  string `json:"ttl,omitempty"`
	MemoryBody
}

// RememberOptions shapes Remember.
type RememberOptions struct {
	IdempotencyKey string
	// Dedupe answers the live memory of the same user with the same text
	// instead of storing another. One that is superseded, or past its ValidTo,
	// does not count.
	Dedupe bool
	// Wait blocks until the vectors are in the index, or ctx ends.
	Wait bool
}

// Remembered answers for one memory of Remember.
type Remembered struct {
	Receipt
	IndexStatus IndexStatus `json:"index_status"`
	Duplicate   bool        `json:"duplicate,omitempty"` // Receipt is of a memory that stood already
}

// Recall asks for memories by meaning, words, time and metadata.
type Recall struct {
	Namespaces []string        `json:"namespaces"`
	User       string          `json:"user,omitempty"`
	Agent      string          `json:"agent,omitempty"`
	App        string          `json:"app,omitempty"`
	Session    string          `json:"session,omitempty"`
	Query      string          `json:"query,omitempty"`
	Embedding  []float32       `json:"embedding,omitempty"` // instead of, or beside, the query's own
	Model      string          `json:"embedding_model,omitempty"`
	K          int             `json:"k,omitempty"` // 1 to 100; 0: 10
	Filter     json.RawMessage `json:"filter,omitempty"`
	Types      []MemoryType    `json:"types,omitempty"`
	Since      time.Time       `json:"since,omitzero"`
	Until      time.Time       `json:"until,omitzero"`
	Mode       RecallMode      `json:"mode,omitempty"`
	Deep       bool            `json:"deep,omitempty"`       // search dormant vectors too
	Superseded bool            `json:"superseded,omitempty"` // also what holds no more
	// Plain searches words by BM25 alone, without words of like meaning, sessions
	// and speakers, and leaves out recency, importance and use: a yardstick, for
	// measurements of a node in this process.
	Plain bool `json:"-"`
}

// MaxWalkDepth is the largest Depth of a walk.
const MaxWalkDepth = 10

// MaxRecall is the largest K of a recall.
const MaxRecall = 100

// RecallMode says which arms of the search take part.
type RecallMode string

// The modes; "" is hybrid.
const (
	RecallHybrid  RecallMode = "hybrid"
	RecallVector  RecallMode = "vector"
	RecallLexical RecallMode = "lexical"
)

// Recalled answers a recall, best first.
type Recalled struct {
	Matches []Match `json:"matches"`
	// Partial: an arm could not take part; Reason says which, and why.
	Partial bool   `json:"partial,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Match is one recalled memory with the parts of its score.
type Match struct {
	Memory
	Tier  Tier       `json:"tier"` // where its bytes lay
	Score MatchScore `json:"score"`
}

// MatchScore is Relevance x (1 + Recency + Importance + Use), with what
// Relevance was made of.
type MatchScore struct {
	Total      float64 `json:"total"`
	Relevance  float64 `json:"relevance"`  // fused, over the best of the answer: 0 to 1
	Recency    float64 `json:"recency"`    // at most 0.10
	Importance float64 `json:"importance"` // at most 0.10
	Use        float64 `json:"use"`        // at most 0.05
	Vector     float64 `json:"vector"`     // cosine; 0 when that arm did not find it
	VectorRank int     `json:"vector_rank,omitempty"`
	Words      float64 `json:"words"` // the lexical score
	WordsRank  int     `json:"words_rank,omitempty"`
}

// MemoryListOptions pages through memories in id order.
type MemoryListOptions struct {
	User, Agent, App, Session string
	Types                     []MemoryType
	Limit                     int // 1 to 1000; 0: 100
	Cursor                    string
}

// MemoryPage is one page of memories.
type MemoryPage struct {
	Memories   []Memory `json:"memories"`
	NextCursor string   `json:"next_cursor,omitempty"`
}

// Graph is what a walk along links reached.
type Graph struct {
	Nodes []GraphNode `json:"nodes"`
	Edges []GraphEdge `json:"edges"`
	// Truncated: the walk stopped at its bound of nodes.
	Truncated bool `json:"truncated,omitempty"`
}

// GraphNode is a memory at its distance from the start.
type GraphNode struct {
	Memory
	Depth int `json:"depth"`
}

// GraphEdge is a link between two nodes of the walk.
type GraphEdge struct {
	From string `json:"from"`
	Link
}

// WalkOptions shapes a walk along links.
type WalkOptions struct {
	Depth    int    // 1 to 10; 0: 2
	Relation string // "": any
	Limit    int    // nodes, 1 to 1000; 0: 100
}

// Memories is the long-term memory part of tierd: documents of namespaces of
// kind memory, whose text is indexed for recall.
type Memories interface {
	// Remember stores memories, each on its own; an error of one is in its
	// place of errs, and what it answers there is zero.
	Remember(ctx context.Context, ns string, memories []NewMemory, o *RememberOptions) (done []Remembered, errs []error, err error)
	// Recall finds memories. Every match is live, at its current version.
	Recall(ctx context.Context, q *Recall) (*Recalled, error)
	// Memory returns one memory.
	Memory(ctx context.Context, ns, id string) (*Memory, error)
	// ListMemories returns memories in id order.
	ListMemories(ctx context.Context, ns string, o *MemoryListOptions) (*MemoryPage, error)
	// PatchMemory applies a merge patch to the body.
	PatchMemory(ctx context.Context, ns, id string, patch []byte, o *WriteOptions) (*Receipt, error)
	// Forget deletes a memory.
	Forget(ctx context.Context, ns, id string, o *WriteOptions) (*Receipt, error)
	// Used confirms that a recalled memory was of use: it counts, and its age
	// begins anew.
	Used(ctx context.Context, ns, id string, o *WriteOptions) (*Receipt, error)
	// Link adds a link from one memory to another, and Unlink removes it.
	Link(ctx context.Context, ns, from string, l Link) (*Receipt, error)
	Unlink(ctx context.Context, ns, from string, l Link) (*Receipt, error)
	// Walk follows links from a memory; cycles end.
	Walk(ctx context.Context, ns, id string, o *WalkOptions) (*Graph, error)
}
