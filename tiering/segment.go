package tiering

import "time"

// BlockRef is one compressed block of a segment: what one ranged read fetches.
type BlockRef struct {
	FirstVersion int64 `json:"v"` // the lowest version of the location's key in the block
	Offset       int64 `json:"o"` // bytes from the start of the segment
	Length       int64 `json:"n"` // bytes
}

// Location says that a segment holds versions of a key, and where. Locations
// are written once, in the transaction that finishes a segment, and replaced
// only by a merge. Min and max are inclusive. After a rebuild a location may
// name less than its segment holds: what lies beyond the cut, or was erased, is
// not part of the store.
type Location struct {
	Key        Key
	Segment    string
	MinVersion int64
	MaxVersion int64
	MinTime    time.Time
	MaxTime    time.Time
	Blocks     []BlockRef // in order of FirstVersion
}

// Block returns the block that holds version, ok false when it is outside.
func (l Location) Block(version int64) (ref BlockRef, ok bool) {
	if version < l.MinVersion || version > l.MaxVersion {
		return BlockRef{}, false
	}
	for _, b := range l.Blocks {
		if b.FirstVersion > version {
			break
		}
		ref, ok = b, true
	}
	return ref, ok
}

// Run returns the blocks that may hold versions from..to, inclusive, in order.
func (l Location) Run(from, to int64) []BlockRef {
	var out []BlockRef
	for i, b := range l.Blocks {
		last := l.MaxVersion
		if i+1 < len(l.Blocks) {
			last = l.Blocks[i+1].FirstVersion - 1
		}
		if b.FirstVersion <= to && last >= from {
			out = append(out, b)
		}
	}
	return out
}

// CopyState is the state of one copy of a segment.
type CopyState string

// The states of a copy. Only a verified copy counts before bytes leave warm.
const (
	CopyMissing  CopyState = "missing"
	CopyVerified CopyState = "verified"
	CopyBad      CopyState = "bad"
)

// Copy names one of the two cold copies.
type Copy int

// The two copies.
const (
	Primary Copy = 0
	Backup  Copy = 1
)

// String returns primary or backup.
func (c Copy) String() string {
	if c == Backup {
		return "backup"
	}
	return "primary"
}

// SegmentState is the life of a segment: started -> finished -> deleting -> (row gone).
type SegmentState string

// The states of a segment.
const (
	SegmentStarted  SegmentState = "started"
	SegmentFinished SegmentState = "finished"
	SegmentDeleting SegmentState = "deleting"
)

// Range is a run of feed positions, both inclusive.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// SegmentInfo is a segment's row in the catalog.
type SegmentInfo struct {
	Name    string
	Tenant  string
	State   SegmentState
	Owner   string // name of the lease under which it was started; a rebuild may note there what is left to do with it
	Token   int64  // of that lease
	Size    int64  // bytes of the object
	RawSize int64  // bytes of the bodies in it
	SHA256  Digest
	Count   int64 // records
	MinTime time.Time
	MaxTime time.Time
	// Ranges are feed positions of the tenant that it covers fully, in this life
	// of the store: a rebuild leaves none, because positions begin anew. The
	// segment itself keeps those of its own.
	Ranges  []Range
	Copies  [2]CopyState
	Started time.Time
	// Deleting is when it became deleting, zero until then. Its objects stay
	// for a grace period, for readers that looked it up before.
	Deleting time.Time
}

// Verified counts the verified copies.
func (s SegmentInfo) Verified() int {
	n := 0
	for _, c := range s.Copies {
		if c == CopyVerified {
			n++
		}
	}
	return n
}
