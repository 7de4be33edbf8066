package lifecycle

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// OrdersPrefix is what the names of all erase orders start with.
const OrdersPrefix = "erase/"

// orderFormat is the version of the form that orders are written in.
const orderFormat = 1

// The kinds of an order: what it selects by.
const (
	orderByID     = "id"
	orderByPrefix = "prefix"
	orderByUser   = "user"
)

// Order is an erase order as it lies in both buckets, so that no rebuild brings
// the subject back. It names nobody: the subject is a keyed digest, under a
// salt of the order's own, of the tenant, a zero byte, and
//
//   - the namespace, a zero byte and the id, or the first Length bytes of ids
//   - or the user.
//
// An order is written twice, as two objects, because none is ever replaced:
// under Name before anything is erased, with the last feed position of that
// moment, and under FinalName with the last one of all. The higher counts.
type Order struct {
	Format    int       `json:"format"`
	ID        string    `json:"id"` // the receipt, a ULID
	Tenant    string    `json:"tenant"`
	Kind      string    `json:"kind"`             // id, prefix or user
	Length    int       `json:"length,omitempty"` // of the prefix, in bytes
	Salt      []byte    `json:"salt"`             // 32 random bytes
	Subject   []byte    `json:"subject"`          // HMAC-SHA-256 under Salt
	Epoch     string    `json:"epoch"`
	Pos       int64     `json:"pos"` // the last feed position of Epoch that it applies to
	CreatedAt time.Time `json:"created_at"`
}

// NewOrder makes the order for a selector. It applies to what the store of that
// epoch committed up to pos, and to everything from its earlier lives.
func NewOrder(id string, s warm.Selector, epoch string, pos int64, now time.Time) Order {
	o := Order{Format: orderFormat, ID: id, Tenant: s.Tenant, Salt: make([]byte, 32), Epoch: epoch, Pos: pos, CreatedAt: now.UTC()}
	rand.Read(o.Salt) // never fails: the runtime ends the process instead
	switch {
	case s.User != "":
		o.Kind, o.Subject = orderByUser, o.seal(s.User)
	case s.ID != "":
		o.Kind, o.Subject = orderByID, o.seal(s.Namespace, s.ID)
	default:
		o.Kind, o.Length, o.Subject = orderByPrefix, len(s.Prefix), o.seal(s.Namespace, s.Prefix)
	}
	return o
}

// seal digests a subject of the order's tenant.
func (o Order) seal(parts ...string) []byte {
	h := hmac.New(sha256.New, o.Salt)
	h.Write([]byte(o.Tenant + "\x00" + strings.Join(parts, "\x00")))
	return h.Sum(nil)
}

// Name is the object that the order is first written under.
func (o Order) Name() string { return OrdersPrefix + strings.ToLower(o.ID) + ".json" }

// FinalName is the object that the order is written under once its last feed
// position is known.
func (o Order) FinalName() string { return OrdersPrefix + strings.ToLower(o.ID) + ".final.json" }

// Encode returns the bytes of the order's object.
func (o Order) Encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		return nil // times beyond the year 9999 alone fail, and no store commits those
	}
	return append(b, '\n')
}

// DecodeOrder reads an order's object. One that cannot be understood is
// corrupt, or unsupported when a later tierd wrote it: it must never be
// skipped.
func DecodeOrder(b []byte) (Order, error) {
	var o Order
	if err := strictly(b, &o); err != nil {
		return Order{}, tiering.Errorf(tiering.CodeCorrupt, "not an erase order: %v", err)
	}
	known := o.Kind == orderByID || o.Kind == orderByUser || o.Kind == orderByPrefix && o.Length > 0
	switch {
	case o.Format > orderFormat:
		return Order{}, tiering.Errorf(tiering.CodeUnsupported, "the erase order has format %d, this program reads %d", o.Format, orderFormat)
	case o.Format != orderFormat || !known || o.ID == "" || o.Tenant == "" || o.Pos < 0 || len(o.Salt) == 0 || len(o.Subject) != sha256.Size:
		return Order{}, tiering.Errorf(tiering.CodeCorrupt, "the erase order lacks what every order has")
	}
	return o, nil
}

// strictly decodes one JSON value.
func strictly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return tiering.Invalidf("bytes follow the JSON value")
	}
	return nil
}

// Matches reports whether a key of that owner is the order's subject. Reserved
// keys never are.
func (o Order) Matches(key tiering.Key, user string) bool {
	if key.Tenant != o.Tenant || key.Reserved() {
		return false
	}
	switch o.Kind {
	case orderByUser:
		return user != "" && hmac.Equal(o.Subject, o.seal(user))
	case orderByID:
		return hmac.Equal(o.Subject, o.seal(key.Namespace, key.ID))
	}
	return len(key.ID) >= o.Length && hmac.Equal(o.Subject, o.seal(key.Namespace, key.ID[:o.Length]))
}

// Takes reports whether the order takes a record out of a segment of epoch:
// the subject is the order's, and the record is not younger than the order.
func (o Order) Takes(l *Lineage, epoch string, r cold.Record) bool {
	return o.Reaches(l, epoch, r.Pos, r.At) && o.Matches(r.Key, r.User)
}

// Reaches reports whether the order applies to what was committed at a feed
// position of epoch. Between lives that nothing connects, time decides.
func (o Order) Reaches(l *Lineage, epoch string, pos int64, at time.Time) bool {
	if epoch == o.Epoch {
		return pos <= o.Pos
	}
	if before, known := l.Before(epoch, o.Epoch); known {
		return before
	}
	return !at.After(o.CreatedAt)
}

// ReadOrders returns the erase orders of a bucket, one for each: of its two
// objects the one that reaches further. Any error ends it: an order that is
// not known cannot be honoured.
func ReadOrders(ctx context.Context, b cold.Bucket) ([]Order, error) {
	var out []Order
	for info, err := range b.List(ctx, OrdersPrefix) {
		if err != nil {
			return nil, tiering.Wrap(err, "list erase orders", tiering.Cold, tiering.Key{})
		}
		data, err := b.Read(ctx, info.Name, 0, -1)
		if err != nil {
			return nil, tiering.Wrap(err, "read "+info.Name, tiering.Cold, tiering.Key{})
		}
		o, err := DecodeOrder(data)
		if err != nil {
			return nil, tiering.Wrap(err, "read "+info.Name, tiering.Cold, tiering.Key{})
		}
		out = addOrder(out, o)
	}
	return out, nil
}

// addOrder adds an order to those known; the same order twice is one.
func addOrder(to []Order, o Order) []Order {
	for i, have := range to {
		if have.ID == o.ID && have.Epoch == o.Epoch {
			if o.Pos > have.Pos {
				to[i] = o
			}
			return to
		}
	}
	return append(to, o)
}
