package tiering

import "time"

// NodeStatus is the state of a node.
type NodeStatus struct {
	Version string           `json:"version"` // of tierd
	Epoch   string           `json:"epoch"`
	Started time.Time        `json:"started_at"`
	Ready   bool             `json:"ready"`
	Tiers   []TierStatus     `json:"tiers"`
	Feed    FeedStatus       `json:"feed"`
	Archive ArchiveStatus    `json:"archive"`
	Counts  map[string]int64 `json:"counts"`
	// Estimated: warm holds too much to be counted; its counts are estimates.
	Estimated bool `json:"estimated,omitempty"`

	Parked []ParkedMove `json:"parked,omitempty"`
	// DueWithinADay counts the moves that fall due in the next 24 h, as the
	// last sweep saw them.
	DueWithinADay map[Move]int64 `json:"due_within_a_day,omitempty"`
}

// TierStatus is the state of one tier.
type TierStatus struct {
	Tier   Tier   `json:"tier"`
	Driver string `json:"driver"`
	Copy   string `json:"copy,omitempty"` // cold: primary or backup
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
	Bytes  int64  `json:"bytes"`
	Items  int64  `json:"items"`
}

// FeedStatus is the state of the feed.
type FeedStatus struct {
	Tail int64 `json:"tail"` // the last position
	Lag  int64 `json:"lag"`  // outbox rows not yet in the feed
}

// ArchiveStatus is how far cold is behind.
type ArchiveStatus struct {
	Position   int64     `json:"position"`
	Behind     int64     `json:"behind"`               // feed positions not yet archived
	OldestTime time.Time `json:"oldest_time,omitzero"` // of the oldest change not yet archived
	Missing    int64     `json:"missing_copies"`
	LastError  string    `json:"last_error,omitempty"`
}

// ParkedMove is a move that gave up until someone looks.
type ParkedMove struct {
	Move     string    `json:"move"`
	Subject  string    `json:"subject"`
	Attempts int       `json:"attempts"`
	Error    string    `json:"error"`
	Since    time.Time `json:"since"`
}
