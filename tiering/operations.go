package tiering

import (
	"context"
	"time"
)

// Operations is what an operator asks of a running node. All of it needs the
// admin verb, but for moves of single documents, which need write.
type Operations interface {
	// Demote drops the current bytes of a document from warm and hot now,
	// under the guards of every demotion. It is unavailable while the document
	// waits for two verified cold copies.
	Demote(ctx context.Context, ns, id string) (*Explanation, error)
	// Promote brings the bytes back to warm now.
	Promote(ctx context.Context, ns, id string) (*Explanation, error)
	// Erase makes a subject disappear from every tier, or says what it would
	// take. The receipt of one that is not done yet can be asked for again.
	Erase(ctx context.Context, r EraseRequest) (*EraseReceipt, error)
	// Erasure returns a receipt.
	Erasure(ctx context.Context, receipt string) (*EraseReceipt, error)
	// ConfirmClock accepts a clock that jumped, and lets the moves that it
	// parked go on.
	ConfirmClock(ctx context.Context) error
	// Embedding, MigrateEmbedding and DropVectors are of the whole node: they need
	// the default tenant.
	//
	// Embedding says whose vectors recall searches, and how far a change is.
	Embedding(ctx context.Context) (*EmbeddingStatus, error)
	// MigrateEmbedding begins to make the vectors of the embedder to, a URL as
	// the embed setting takes it. Once every memory has one, to is searched; until
	// then, and while it is searched, the vectors of the one before stay, so that
	// to go back is the same call with its URL. To name the one that is searched
	// ends a change that is under way.
	MigrateEmbedding(ctx context.Context, to string) (*EmbeddingStatus, error)
	// DropVectors removes the vectors of a space that an embedder made and nobody
	// searches, and tells how many there were.
	DropVectors(ctx context.Context, space string) (int64, error)
}

// EmbeddingStatus says whose vectors there are.
type EmbeddingStatus struct {
	Active     string `json:"active"`           // the embedder whose vectors are searched by text
	Target     string `json:"target,omitempty"` // the one that is to take its place
	Configured string `json:"configured"`       // what this daemon was started with
	// Problem is why this daemon cannot search by text in the active space: its
	// recalls are by words then.
	Problem  string          `json:"problem,omitempty"`
	Memories int64           `json:"memories"` // in the index
	Spaces   []EmbeddedSpace `json:"spaces"`
}

// EmbeddedSpace is an embedding space with its vectors.
type EmbeddedSpace struct {
	Space   string `json:"space"`
	Vectors int64  `json:"vectors"`
	Use     string `json:"use"` // active, target, own (of callers) or idle
}

// EraseRequest selects a subject: exactly one of Namespace with ID, Namespace
// with Prefix, or User.
type EraseRequest struct {
	Namespace string `json:"namespace,omitempty"`
	ID        string `json:"id,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	User      string `json:"user,omitempty"`
	// DryRun counts and changes nothing; nil means true.
	DryRun *bool `json:"dry_run,omitempty"`
}

// EraseReceipt says what an erase took, without naming the subject.
type EraseReceipt struct {
	ID       string `json:"receipt,omitempty"` // "" for a dry run
	DryRun   bool   `json:"dry_run,omitempty"`
	State    string `json:"state"`    // planned, running or done
	Selector string `json:"selector"` // id, prefix or user
	// Digest is an HMAC-SHA-256 of the subject under a random salt that is kept
	// with the order in the buckets: who has both can tell whether a name that
	// is known is the subject. It is empty for a dry run, and while no bucket
	// answers.
	Digest string `json:"digest,omitempty"`
	// Keys counts documents taken. One that another owner has by now stays, and
	// is not counted; versions of the subject under its key are, in Versions.
	Keys     int64     `json:"keys"`
	Versions int64     `json:"versions"` // in warm
	Bytes    int64     `json:"bytes"`    // in warm
	Segments int64     `json:"segments"` // to rewrite, or still to rewrite
	Started  time.Time `json:"started_at,omitzero"`
	Finished time.Time `json:"finished_at,omitzero"`
	Blocked  string    `json:"blocked,omitempty"` // why it is not done yet
}
