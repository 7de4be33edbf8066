// Package rules says what a change makes of a key, and what a move, an erase or a
// restore finds of it, for drivers of warm: the contracts of package warm without a clock
// and a database.
package rules

import (
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Judge returns the results of a change that is refused, nil for one whose rows may
// be carried out. h is the head that stands, the zero Head for a key that never was; n
// is its namespace, the zero Namespace where there is no row. The order of the checks is
// the contract's: the namespace, the condition, the owner.
func Judge(c *warm.Change, n *Namespace, h warm.Head, now time.Time) []warm.Result {
	switch i := foreign(h, c.Rows, now); {
	case !n.takes(c):
		return Each(c.Rows, warm.Result{Status: warm.NoNamespace})
	case !c.If.Holds(h.Standing(now)):
		return Each(c.Rows, warm.Result{Status: warm.Conflict, Head: h})
	case i >= 0:
		results := Each(c.Rows, warm.Result{Status: warm.Again})
		results[i] = warm.Result{Status: warm.UserFixed, Head: h}
		return results
	}
	return nil
}

// Each gives every row the result r.
func Each(rows []warm.Row, r warm.Result) []warm.Result {
	results := make([]warm.Result, len(rows))
	for i := range results {
		results[i] = r
	}
	return results
}

// foreign returns the first row that names another user than the key's, -1
// for none. The first put of a new key says whose it is.
func foreign(h warm.Head, rows []warm.Row, now time.Time) int {
	live, owner := h.Live(now), h.User
	for i := range rows {
		if live && rows[i].User != "" && rows[i].User != owner {
			return i
		}
		if !live && rows[i].Op == tiering.OpPut {
			live, owner = true, rows[i].User
		}
	}
	return -1
}

// Next returns what a row makes of the head h of key; floor is the namespace's. The
// result's head stands from then on where the status is warm.Done.
func Next(h warm.Head, key tiering.Key, row *warm.Row, now time.Time, floor int64) (warm.Result, error) {
	r := warm.Result{Head: h, Prev: h.Standing(now)}
	live := r.Prev > 0
	switch row.Op {
	case tiering.OpPut:
		r.Created = !live
		r.Head = afterPut(h, key, row, now, floor)
	case tiering.OpDelete:
		if !live {
			return warm.Result{Status: warm.NoChange, Head: h}, nil
		}
		r.Head = afterDelete(h, row.Op, now, floor)
	case tiering.OpExpire:
		if !expired(h, now) {
			return warm.Result{Status: warm.NoChange, Head: h}, nil
		}
		r.Prev = h.Version // what the sweep buries, though it no longer stood
		r.Head = afterDelete(h, row.Op, now, floor)
	case tiering.OpTouch, tiering.OpPin, tiering.OpUnpin:
		if !live {
			return warm.Result{Status: warm.Conflict, Head: h}, nil
		}
		if row.Op == tiering.OpTouch {
			r.Head = afterTouch(h, row, now)
			break
		}
		pin := row.Op == tiering.OpPin
		if h.Pinned == pin {
			return warm.Result{Status: warm.NoChange, Head: h, Prev: r.Prev}, nil
		}
		r.Head = afterPin(h, pin)
	default:
		return warm.Result{}, tiering.Invalidf("op %d of %s is not one of a row", row.Op, key)
	}
	return r, nil
}

// Queryable reports whether a document is kept for queries behind a row that was done.
func Queryable(row *warm.Row, before bool) bool {
	if row.Op.Versioned() {
		return row.Op == tiering.OpPut && row.Query
	}
	return before
}

// Record is the feed's record of a row that was done.
func Record(op tiering.Op, r warm.Result, query bool, now time.Time) warm.FeedChange {
	h := r.Head
	at := h.UpdatedAt
	if !op.Versioned() && now.After(at) {
		at = now
	}
	return warm.FeedChange{
		Key: h.Key, Op: op, Version: h.Version, Revision: h.Revision, Prev: r.Prev, At: at,
		CreatedAt: h.CreatedAt, ExpiresAt: h.ExpiresAt, TTL: h.TTL, User: h.User,
		Pinned: h.Pinned, Query: query, Size: h.Size, Digest: h.Digest,
	}
}

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
