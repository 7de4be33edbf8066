package postgres

import (
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The rules say what a row makes of a head. They are pure: no clock, no
// database. h is the head that stands, the zero Head for a key that never was;
// floor is the namespace's. The statement that commits puts says the same in
// SQL (see putsStatement), and a test holds the two together.

// nextVersion returns the version after h.
func nextVersion(h warm.Head, floor int64) int64 {
	return max(h.Version, floor) + 1
}

// versionTime returns the time of the version after h: never at or before the
// previous one, whatever the clock does.
func versionTime(h warm.Head, now time.Time) time.Time {
	if earliest := h.UpdatedAt.Add(time.Microsecond); h.Version > 0 && now.Before(earliest) {
		return earliest
	}
	return now
}

// afterPut returns the head that a put makes.
func afterPut(h warm.Head, key tiering.Key, row *warm.Row, now time.Time, floor int64) warm.Head {
	at := versionTime(h, now)
	next := warm.Head{
		Key: key, Op: tiering.OpPut, Version: nextVersion(h, floor), CreatedAt: at, UpdatedAt: at, AccessedAt: at,
		User: row.User, Size: int64(len(row.Body)), Digest: row.Digest, InWarm: true,
	}
	live := h.Live(now)
	if live {
		next.CreatedAt, next.User, next.Pinned = h.CreatedAt, h.User, h.Pinned
		next.ExpiresAt, next.TTL = h.ExpiresAt, h.TTL
	}
	e := row.Expiry
	switch {
	case e.TTL != nil:
		next.ExpiresAt, next.TTL = expiry(*e.TTL, now)
	case !live && e.New > 0:
		next.ExpiresAt, next.TTL = expiry(tiering.TTL{Life: e.New}, now)
	case live && e.Slide && h.TTL > 0:
		next.ExpiresAt = now.Add(h.TTL)
	}
	return next
}

// expiry applies a TTL at now.
func expiry(t tiering.TTL, now time.Time) (at time.Time, ttl time.Duration) {
	if t.None {
		return time.Time{}, 0
	}
	ttl = t.Life.Truncate(time.Microsecond)
	return now.Add(ttl), ttl
}

// afterDelete returns the tombstone that a delete or an expire makes of h.
func afterDelete(h warm.Head, op tiering.Op, now time.Time, floor int64) warm.Head {
	at := versionTime(h, now)
	return warm.Head{
		Key: h.Key, Op: op, Version: nextVersion(h, floor), CreatedAt: h.CreatedAt,
		UpdatedAt: at, AccessedAt: at, User: h.User,
	}
}

// afterTouch returns the head that a touch makes of a live h. A life becomes
// shorter only when the row says exact; one that may not become shorter keeps
// its expiry and its TTL.
func afterTouch(h warm.Head, row *warm.Row, now time.Time) warm.Head {
	next := h
	next.Revision++
	ttl := row.Expiry.TTL
	if ttl == nil {
		if h.TTL == 0 {
			return next
		}
		ttl = &tiering.TTL{Life: h.TTL}
	}
	at, life := expiry(*ttl, now)
	if row.Exact || longer(at, h.ExpiresAt) {
		next.ExpiresAt, next.TTL = at, life
	}
	return next
}

// longer reports whether an expiry at a is not before one at b; zero is never.
func longer(a, b time.Time) bool {
	return a.IsZero() || !b.IsZero() && !a.Before(b)
}

// afterPin returns the head with its pin set or taken, the next revision.
func afterPin(h warm.Head, pinned bool) warm.Head {
	h.Pinned = pinned
	h.Revision++
	return h
}

// expired reports whether the sweep may make a tombstone of h.
func expired(h warm.Head, now time.Time) bool {
	return h.Op == tiering.OpPut && !h.Pinned && !h.ExpiresAt.IsZero() && !now.Before(h.ExpiresAt)
}
