package tiering

import "time"

// Usage is what the tiers of a store hold, and at which pace it comes: what an
// estimate of its cost begins with.
type Usage struct {
	// Now is warm's clock, and Since the time of the oldest change that is kept;
	// zero when there is none.
	Now   time.Time `json:"now"`
	Since time.Time `json:"since,omitzero"`

	// HotBytes is what hot holds; -1 when hot could not be asked, as the memory
	// of a daemon can not.
	HotBytes int64 `json:"hot_bytes"`
	// WarmBytes is what warm takes on its disk, WarmBodies the bytes of the
	// versions in it.
	WarmBytes  int64 `json:"warm_bytes"`
	WarmBodies int64 `json:"warm_bodies"`
	// ColdBytes are the objects of the primary and the backup, as the catalog
	// knows them, those among them that were replaced and wait for their end.
	ColdBytes [2]int64 `json:"cold_bytes"`
	// Segments are the finished segments, SegmentBytes their size and RawBytes
	// the bytes of the bodies in them.
	Segments     int64 `json:"segments"`
	SegmentBytes int64 `json:"segment_bytes"`
	RawBytes     int64 `json:"raw_bytes"`

	// Days is how long the pace was looked at, up to Now; at least 1.
	Days       float64          `json:"days"`
	Tenants    []TenantUsage    `json:"tenants"`    // in order
	Namespaces []NamespaceUsage `json:"namespaces"` // in order, without those of tierd itself
	// Sampled is of how many segments the index was read, to tell which
	// namespace each tenant writes to.
	Sampled int `json:"sampled"`
}

// TenantUsage is the pace of a tenant: what was archived in Usage.Days and is
// kept.
type TenantUsage struct {
	Tenant   string  `json:"tenant"`
	Versions float64 `json:"versions"`
	RawBytes float64 `json:"raw_bytes"` // of their bodies
}

// NamespaceUsage is what a namespace holds, and its part of the pace.
type NamespaceUsage struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Policy    Policy `json:"policy"` // with its defaults

	Documents   int64 `json:"documents"`    // that live
	Bytes       int64 `json:"bytes"`        // of their current versions
	WarmBytes   int64 `json:"warm_bytes"`   // of those among them that are in warm
	ActiveBytes int64 `json:"active_bytes"` // of those that are pinned, or idle for less than demote_after
	NewBytes    int64 `json:"new_bytes"`    // of those that were made in Usage.Days
	// Life is how long a document lives behind its last write: what the policy
	// says or, where it says nothing and most documents have an end, their mean.
	// Zero when they have none.
	Life Duration `json:"life,omitempty"`

	// Versions and RawBytes are its part of the tenant's, by a sample of the
	// segments' indexes.
	Versions float64 `json:"versions"`
	RawBytes float64 `json:"raw_bytes"`
}
