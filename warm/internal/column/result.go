package column

import (
	"errors"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The stored bits of a head and of a change. Drivers have them in columns too,
// and may use higher ones.
const (
	FlagPinned = 1 << iota
	FlagInWarm
	FlagQuery
)

// Flags are the bits of what is true.
func Flags(pinned, inWarm, query bool) (f byte) {
	if pinned {
		f |= FlagPinned
	}
	if inWarm {
		f |= FlagInWarm
	}
	if query {
		f |= FlagQuery
	}
	return f
}

// Change appends a change of the feed.
func (e *Encoder) Change(c *warm.FeedChange) {
	e.Byte(byte(c.Op))
	e.Byte(Flags(c.Pinned, false, c.Query))
	e.Key(c.Key)
	e.Int(c.Version)
	e.Int(c.Revision)
	e.Int(c.Prev)
	e.Time(c.At)
	e.Time(c.CreatedAt)
	e.Time(c.ExpiresAt)
	e.Int(c.TTL.Microseconds())
	e.Text(c.User)
	e.Int(c.Size)
	e.Digest(c.Digest)
}

// Change reads a change of the feed.
func (d *Decoder) Change() (c warm.FeedChange) {
	c.Op = tiering.Op(d.Byte())
	f := d.Byte()
	c.Pinned, c.Query = f&FlagPinned != 0, f&FlagQuery != 0
	c.Key = d.Key()
	c.Version = d.Int()
	c.Revision = d.Int()
	c.Prev = d.Int()
	c.At = d.Time()
	c.CreatedAt = d.Time()
	c.ExpiresAt = d.Time()
	c.TTL = time.Duration(d.Int()) * time.Microsecond
	c.User = d.Text()
	c.Size = d.Int()
	c.Digest = d.Digest()
	return c
}

// Head appends a head.
func (e *Encoder) Head(h *warm.Head) {
	e.Byte(byte(h.Op))
	e.Byte(Flags(h.Pinned, h.InWarm, false))
	e.Key(h.Key)
	e.Int(h.Version)
	e.Int(h.Revision)
	e.Time(h.CreatedAt)
	e.Time(h.UpdatedAt)
	e.Time(h.ExpiresAt)
	e.Int(h.TTL.Microseconds())
	e.Time(h.AccessedAt)
	e.Text(h.User)
	e.Int(h.Size)
	e.Digest(h.Digest)
}

// Head reads a head.
func (d *Decoder) Head() (h warm.Head) {
	h.Op = tiering.Op(d.Byte())
	f := d.Byte()
	h.Pinned, h.InWarm = f&FlagPinned != 0, f&FlagInWarm != 0
	h.Key = d.Key()
	h.Version = d.Int()
	h.Revision = d.Int()
	h.CreatedAt = d.Time()
	h.UpdatedAt = d.Time()
	h.ExpiresAt = d.Time()
	h.TTL = time.Duration(d.Int()) * time.Microsecond
	h.AccessedAt = d.Time()
	h.User = d.Text()
	h.Size = d.Int()
	h.Digest = d.Digest()
	return h
}

// The bits that share a byte with something else: the first byte of a result
// is its status, the second of one whose head is in the feed has flags.
const (
	resultInFeed  = 0x80
	resultCreated = 0x80
)

// Result appends a result but for its hot epoch. With inFeed, a Done result
// leaves out what the feed entry of the same transaction tells.
func (e *Encoder) Result(r *warm.Result, inFeed bool) {
	created := byte(0)
	if inFeed && r.Status == warm.Done {
		if r.Created {
			created = resultCreated
		}
		e.Byte(byte(r.Status) | resultInFeed)
		e.Byte(created | Flags(false, r.Head.InWarm, false))
		e.Time(r.Head.UpdatedAt)
		e.Time(r.Head.AccessedAt)
		e.Byte(byte(r.Head.Op))
		return
	}
	if r.Created {
		created = 1
	}
	e.Byte(byte(r.Status))
	e.Byte(created)
	e.Head(&r.Head)
	e.Int(r.Prev)
	e.Bytes(r.Answer)
	msg := ""
	if r.Err != nil {
		msg = r.Err.Error()
	}
	e.Text(msg)
}

// Result reads a result. next yields the changes of the feed entry, of which a
// result that leans on it takes one; nil is no entry, and such a result a
// fault.
func (d *Decoder) Result(next func() (warm.FeedChange, bool)) (r warm.Result) {
	lead := d.Byte()
	r.Status = warm.Status(lead &^ resultInFeed)
	if lead&resultInFeed == 0 {
		r.Created = d.Byte() == 1
		r.Head = d.Head()
		r.Prev = d.Int()
		r.Answer = d.Bytes()
		if msg := d.Text(); msg != "" {
			r.Err = errors.New(msg)
		}
		return r
	}
	f := d.Byte()
	var c warm.FeedChange
	ok := next != nil
	if ok {
		c, ok = next()
	}
	if !ok {
		d.Fail()
		return warm.Result{}
	}
	r.Created = f&resultCreated != 0
	r.Prev = c.Prev
	r.Head = warm.Head{
		Key: c.Key, Version: c.Version, Revision: c.Revision, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt,
		TTL: c.TTL, User: c.User, Size: c.Size, Digest: c.Digest, Pinned: c.Pinned, InWarm: f&FlagInWarm != 0,
	}
	r.Head.UpdatedAt = d.Time()
	r.Head.AccessedAt = d.Time()
	r.Head.Op = tiering.Op(d.Byte())
	return r
}

// Results appends the results of a transaction: how many changes it has, and
// how many rows each of them, before the rows. inFeed is Result's.
func (e *Encoder) Results(all [][]warm.Result, inFeed bool) {
	e.results(all, func(r *warm.Result) { e.Result(r, inFeed) })
}

// Blanked appends results as Results does for a feed entry, but nothing except
// the outcome of those that blank takes. Done results of others are told by
// the changes that stay, in their order; one that was blanked before has no
// change.
func (e *Encoder) Blanked(all [][]warm.Result, blank func(*warm.Result) bool) {
	e.results(all, func(r *warm.Result) {
		if blank(r) {
			r = &warm.Result{Status: r.Status, Created: r.Created}
		}
		e.Result(r, r.Head.Key != tiering.Key{})
	})
}

func (e *Encoder) results(all [][]warm.Result, row func(*warm.Result)) {
	e.Uint(uint64(len(all)))
	for _, rows := range all {
		e.Uint(uint64(len(rows)))
		for i := range rows {
			row(&rows[i])
		}
	}
}
