package tiering

import "time"

// MemoryEntry is what the index knows of one memory: computed from its body
// alone, it commits with it, and goes with whatever ends the document: delete,
// expire, erase.
type MemoryEntry struct {
	// Digest is of the body that the entry was made from. A driver keeps an
	// entry only beside a live head of the same digest.
	Digest Digest
	// Analyzer is the version of the text analysis that made Terms.
	Analyzer int
	Terms    []MemoryTerm // sorted by Text, each once
	Length   int          // terms of the text, repeats counted
	TextHash Digest
	Type     MemoryType
	Agent    string
	App      string
	Session  string
	Speaker  string
	At       time.Time // occurred; zero: the head's CreatedAt
	Until    time.Time // end of an event; zero: At
	// Importance, Uses and UsedAt as the body has them.
	Importance float64
	Uses       int64
	UsedAt     time.Time
	// Ends is when it stops holding: ValidTo, or time.Unix(0, 0) when it was
	// superseded; zero: never.
	Ends    time.Time
	Links   []Link
	Vectors []MemoryVector
	// Status of the vector in the space of the node's embedder.
	Status IndexStatus
}

// MemoryTerm is one distinct term of a text.
type MemoryTerm struct {
	Text string
	Freq int
}

// MemoryVector is a vector in an embedding space. Vectors are normalised.
type MemoryVector struct {
	Space  string
	Vector []float32
}
