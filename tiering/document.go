package tiering

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Tier is a place where bytes live.
type Tier string

// The tiers, fastest first. Vector names the recall index in errors.
const (
	Hot    Tier = "hot"
	Warm   Tier = "warm"
	Cold   Tier = "cold"
	Vector Tier = "vector"
)

// Op is what made a version, or changed a head.
type Op uint8

// The operations of the feed and of segments. Put and Delete and Expire make a
// new version; Touch, Pin and Unpin make the next revision of the version that
// stands. The numbers are part of the segment format and never change.
const (
	OpPut    Op = 1
	OpDelete Op = 2
	OpExpire Op = 3 // a delete made by the sweep when the expiry had passed
	OpTouch  Op = 4
	OpPin    Op = 5
	OpUnpin  Op = 6
)

var opNames = map[Op]string{OpPut: "put", OpDelete: "delete", OpExpire: "expire", OpTouch: "touch", OpPin: "pin", OpUnpin: "unpin"}

// String returns the op's name in the API.
func (o Op) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// MarshalText writes the op's name.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads an op's name.
func (o *Op) UnmarshalText(b []byte) error {
	for k, v := range opNames {
		if v == string(b) {
			*o = k
			return nil
		}
	}
	return Invalidf("unknown op %q", b)
}

// Versioned reports whether the op makes a new version.
func (o Op) Versioned() bool { return o == OpPut || o == OpDelete || o == OpExpire }

// Deleting reports whether the op leaves a tombstone.
func (o Op) Deleting() bool { return o == OpDelete || o == OpExpire }

// Digest is the SHA-256 of a document's compacted bytes. The zero Digest marks
// a version without bytes (a delete).
type Digest [sha256.Size]byte

// DigestOf returns the digest of b.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

// String returns "sha256:" and 64 hex digits, "" for the zero Digest.
func (d Digest) String() string {
	var room [digestText]byte
	text, _ := d.AppendText(room[:0])
	return string(text)
}

// digestText is how long the text of a Digest is.
const digestText = len("sha256:") + 2*sha256.Size

// AppendText appends String to b. It never fails.
func (d Digest) AppendText(b []byte) ([]byte, error) {
	if d == (Digest{}) {
		return b, nil
	}
	return hex.AppendEncode(append(b, "sha256:"...), d[:]), nil
}

// MarshalText writes String.
func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(make([]byte, 0, digestText)) }

// UnmarshalText reads String's form.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	h, ok := strings.CutPrefix(string(b), "sha256:")
	if !ok || len(h) != 2*sha256.Size {
		return Invalidf("digest %q: want sha256: and 64 hex digits", b)
	}
	_, err := hex.Decode(d[:], []byte(h))
	return err
}

// Meta describes one version of one document. It is the body of the answer to
// a write, and the headers of the answer to a read.
type Meta struct {
	Namespace string    `json:"namespace"`
	ID        string    `json:"id"`
	Version   int64     `json:"version"`
	Digest    Digest    `json:"digest,omitzero"` // zero: no bytes, as of a delete
	Size      int64     `json:"size"`            // bytes of the compacted JSON
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"` // zero: no version is described, as by a default
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: never
	User      string    `json:"user,omitempty"`
	Pinned    bool      `json:"pinned,omitempty"`
	// Revision counts touches and pins of this version, from 0.
	Revision int64 `json:"-"`
	// TTL is the sliding life of the document, 0 for none.
	TTL time.Duration `json:"-"`
}

// Document is one version with its bytes.
type Document struct {
	Meta
	// Body is the compacted JSON exactly as it was written: same key order,
	// same number text. It is shared: do not change it.
	Body json.RawMessage `json:"data,omitempty"`
	// Tier says where the bytes came from.
	Tier Tier `json:"tier,omitempty"`
	// Stale marks bytes from hot that are known to be possibly old, because
	// warm could not be reached.
	Stale bool `json:"stale,omitempty"`
	// Default says why Body is a default and not a stored document: "absent"
	// or "deadline"; "" for a stored one. A default has version 0.
	Default string `json:"default,omitempty"`
}

// Receipt answers a write.
type Receipt struct {
	Meta
	// Hot says whether the hot tier took the write too.
	Hot bool `json:"hot"`
	// Created says that nothing stood under the key before.
	Created bool `json:"created,omitempty"`
	// Replayed says that the Idempotency-Key was known: this is the first
	// try's result.
	Replayed bool `json:"replayed,omitempty"`
	// Warnings are hints such as "size": the document nears its limit.
	Warnings []string `json:"warnings,omitempty"`
}
