package warm

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// IndexedMemory is an entry under its key.
type IndexedMemory struct {
	Key   tiering.Key
	Head  Head // the live head that it belongs to
	Entry tiering.MemoryEntry
}

// PendingMemory is a live memory that lacks something: an entry at all, one of
// the current analyzer, or a vector in a space.
type PendingMemory struct {
	Head Head
	Body []byte // nil when the bytes are in cold alone
	// Attempts is how often NoteFailure counted since the version was written, or
	// since other vectors are made (Embedding.Made).
	Attempts int
	Status   tiering.IndexStatus // of the entry; "" without one
}

// Memories keeps the entries of memories, in namespaces of kind memory. Methods
// that write lock the head, so that a document that was deleted or written
// meanwhile stays as it is: they answer false then.
//
// An entry that takes the place of one with the same TextHash, by a write or by
// SetMemory, keeps the vectors of spaces that it has none in, and with them
// tiering.IndexIndexed: what changed says nothing about the meaning. A put
// without Row.Memory keeps the entry if its bytes are the same. Times are kept
// to the microsecond.
//
// A driver may keep the vectors of a memory apart, in less room and precision,
// from when its bytes were demoted until it is promoted or written. Vectors that
// SetMemory and AddVector bring go to where those that it has are.
type Memories interface {
	// SetMemory puts e in place of the whole entry of key, if a live head of
	// e's digest stands.
	SetMemory(ctx context.Context, key tiering.Key, e tiering.MemoryEntry) (bool, error)
	// AddVector puts one vector beside those that are there, or in place of the
	// one of its space, if the live head's digest is d and it has an entry;
	// status is the entry's from then on.
	AddVector(ctx context.Context, key tiering.Key, d tiering.Digest, v tiering.MemoryVector, status tiering.IndexStatus) (bool, error)
	// NoteFailure counts a failed attempt to embed; from failed on it is
	// tiering.IndexFailed until the next version, or a vector.
	NoteFailure(ctx context.Context, key tiering.Key, d tiering.Digest, failed bool) error
	// MemoriesAfter returns entries of live heads, of all tenants, in key order
	// above after.
	MemoriesAfter(ctx context.Context, after tiering.Key, limit int) ([]IndexedMemory, error)
	// MemoriesOf returns the entries of keys that are live and have one, in no
	// order.
	MemoriesOf(ctx context.Context, keys []tiering.Key) ([]IndexedMemory, error)
	// PendingMemories returns live memories, in key order above after, that
	// have no entry of the analyzer version, or, when space is not "", no
	// vector in space, be it that making one failed.
	PendingMemories(ctx context.Context, analyzer int, space string, after tiering.Key, limit int) ([]PendingMemory, error)
	// MemoryByText returns a live memory of the user with that text that holds
	// now, by its entry's Ends, for dedupe; ok false when there is none.
	MemoryByText(ctx context.Context, tenant, namespace, user string, text tiering.Digest) (h Head, ok bool, err error)
	// Linked returns the links that lead away from ids, and, when into is set,
	// those that lead to them, of live memories of the namespace.
	Linked(ctx context.Context, tenant, namespace string, ids []string, into bool) ([]MemoryLink, error)
	// Spaces returns the embedding spaces that have vectors, with their counts.
	Spaces(ctx context.Context) ([]SpaceCount, error)
	// Embedding says whose vectors are searched, zero at first; and
	// SetEmbedding changes it if it still is from. Where vectors of another
	// embedder are made from then on, failed attempts count anew.
	Embedding(ctx context.Context) (Embedding, error)
	SetEmbedding(ctx context.Context, from, to Embedding) (bool, error)
	// DropSpace removes up to limit vectors of a space, and tells how many: 0 when
	// none is left.
	DropSpace(ctx context.Context, space string, limit int) (int, error)
}

// MemoryJournal is what a store that one process has to itself may also be: it
// tells an index that lives in the process what to look at again.
type MemoryJournal interface {
	// ChangedMemories returns the keys of memories whose entry or head changed
	// in commits behind the position since, in their order, some more than
	// once, and the position of the last one. It has a commit before the commit
	// is acknowledged. ok is false when it no longer knows: then everything has
	// to be read, after the call.
	ChangedMemories(ctx context.Context, since int64) (keys []tiering.Key, now int64, ok bool, err error)
}

// MemoryLink is a link with where it begins.
type MemoryLink struct {
	From string
	tiering.Link
}

// SpaceCount says how many memories have a vector in a space.
type SpaceCount struct {
	Space string
	Count int64
}

// Embedding names the embedders of a store by their URLs. A store that is
// rebuilt begins with the zero value.
type Embedding struct {
	Active string // whose vectors are searched by text
	Target string // whose vectors are being made to take its place; "": nobody's
}

// Made is whose vectors are being made.
func (e Embedding) Made() string {
	if e.Target != "" {
		return e.Target
	}
	return e.Active
}
