package lifecycle

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// found is what the records of a tenant say about one key. The order in which
// they are met does not matter: the highest version counts, and of it the
// highest revision.
type found struct {
	made cold.Record // the record that made the highest version
	last cold.Record // the highest revision of the highest version
	size int64       // bytes of made's body
	body []byte      // nil while from has to be read for it
	from *object     // where made lies
	// written: it is in warm, or will be with the next transaction.
	written bool
	// erased is the highest version that an erase order takes. A key that
	// nothing is left of above it goes whole.
	erased int64
}

// later reports whether record a is of a higher version or revision than b.
func later(a, b cold.Record) bool {
	return a.Version > b.Version || a.Version == b.Version && a.Revision > b.Revision
}

// add merges what another segment says. It keeps f's body unless g is newer,
// and returns by how much the bodies in memory grew.
func (f *found) add(g found) (grew int) {
	f.erased = max(f.erased, g.erased)
	if later(g.last, f.last) {
		f.last = g.last
	}
	if g.made.Version > f.made.Version {
		grew = len(g.body) - len(f.body)
		f.made, f.size, f.body, f.from = g.made, g.size, g.body, g.from
	}
	return grew
}

// gone reports whether nothing of the key is left.
func (f *found) gone() bool { return f.made.Version <= f.erased }

// incomplete reports whether a touch or pin is of a version that no segment
// holds: its bytes were never archived.
func (f *found) incomplete() bool { return f.last.Version > f.made.Version }

// head returns the key as warm keeps it.
func (f *found) head() warm.Head {
	made, last := f.made, f.last
	if f.incomplete() {
		last = made
	}
	h := warm.Head{
		Key: made.Key, Op: made.Op, Version: made.Version, Revision: last.Revision, CreatedAt: last.CreatedAt, UpdatedAt: made.At,
		ExpiresAt: last.ExpiresAt, TTL: last.TTL, AccessedAt: made.At, User: last.User, Pinned: last.Pinned,
	}
	if made.Op == tiering.OpPut {
		h.Size, h.Digest, h.InWarm = f.size, made.Digest, true
	}
	return h
}

// tenantHeads gathers the heads of one tenant.
type tenantHeads struct {
	keys     map[tiering.Key]*found
	bodies   int   // bytes of bodies in memory
	versions int64 // records that count
	erased   int64 // records that an erase order takes
}

// gather reads every record of a tenant that counts, a segment on each
// processor at a time. A segment that turns out to be damaged ends it with a
// damagedError.
func (r *rebuild) gather(ctx context.Context, c coverage, orders []Order) (*tenantHeads, error) {
	t := &tenantHeads{keys: map[tiering.Key]*found{}}
	var mu sync.Mutex
	known := func(key tiering.Key) int64 {
		mu.Lock()
		defer mu.Unlock()
		if f := t.keys[key]; f != nil {
			return f.made.Version
		}
		return 0
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(runtime.GOMAXPROCS(0), 4))
	// The newest first: of what comes later most is superseded, and not copied.
	for _, st := range slices.Backward(c.stretches) {
		for _, o := range slices.Backward(st.counting()) {
			g.Go(func() error {
				red, err := r.reduce(gctx, o, st.to, orders, known)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				r.merge(t, red)
				r.progress(o.size)
				return nil
			})
		}
	}
	return t, g.Wait()
}

// merge adds what one segment says. Bodies stay in memory up to a budget; those
// of tierd's own documents always do, because a rebuild reads them.
func (r *rebuild) merge(t *tenantHeads, red reduced) {
	t.versions += red.versions
	t.erased += red.erased
	for _, g := range red.keys {
		if t.bodies+len(g.body) > r.Memory && !g.made.Key.Reserved() {
			g.body = nil
		}
		key := g.last.Key
		have := t.keys[key]
		if have == nil {
			have = &found{}
			t.keys[key] = have
		}
		t.bodies += have.add(g)
	}
}

// reduced is what one segment says: its last word about each key.
type reduced struct {
	keys             []found
	versions, erased int64
}

// reduce reads one segment whole and keeps of each key what may become its
// head: not the bytes of a version below the one that is known of the key by
// then. It notes on o what trims its locations later.
func (r *rebuild) reduce(ctx context.Context, o *object, to int64, orders []Order, known func(tiering.Key) int64) (reduced, error) {
	s, data, err := openWhole(ctx, r.bucket, o)
	if err != nil {
		return reduced{}, err
	}
	o.sha, o.lastAt, o.limits, o.erased, o.taken = sha256.Sum256(data), time.Time{}, nil, nil, false
	var out reduced
	at := taker{lineage: r.lineage, epoch: o.epoch, orders: orders}
	var f found     // of the key that is being read
	var body []byte // of f.made
	var beyond bool
	var limit int64
	flush := func() {
		key := f.last.Key
		if key == (tiering.Key{}) {
			return
		}
		if beyond {
			if o.limits == nil {
				o.limits = map[tiering.Key]int64{}
			}
			o.limits[key] = limit
		}
		if f.erased > 0 {
			if o.erased == nil {
				o.erased = map[tiering.Key]int64{}
			}
			o.erased[key] = f.erased
		}
		if f.made.Version > 0 || f.last.Version > 0 || f.erased > 0 {
			f.size = int64(len(body))
			if f.made.Op == tiering.OpPut && f.made.Version >= known(key) {
				f.body = append(make([]byte, 0, len(body)), body...)
			}
			out.keys = append(out.keys, f)
		}
		f, body, beyond, limit = found{}, body[:0], false, 0
	}
	for rec, err := range s.Stream() {
		if err != nil {
			return reduced{}, &damagedError{o, err}
		}
		if rec.Key != f.last.Key {
			flush()
			f.last.Key, f.from = rec.Key, o
		}
		if rec.Pos > to {
			beyond = true
			o.taken = o.taken || at.takes(rec) // its bytes are there all the same
			continue
		}
		if at.takes(rec) {
			o.taken = true
			out.erased++
			f.erased = max(f.erased, rec.Version)
			continue
		}
		if rec.At.After(o.lastAt) {
			o.lastAt = rec.At
		}
		if rec.Op.Versioned() {
			out.versions++
			body = append(body[:0], rec.Body...) // the record's holds for this turn only
			limit, rec.Body = rec.Version, nil
			f.made = rec
		}
		f.last = rec
	}
	flush()
	return out, nil
}

// taker asks the erase orders about the records of one segment. Records of a
// key come one after the other, so the costly part is done once a key and
// owner.
type taker struct {
	lineage *Lineage
	epoch   string
	orders  []Order
	key     tiering.Key
	user    string
	match   []Order // those of the key and owner
	asked   bool
}

func (t *taker) takes(rec cold.Record) bool {
	if len(t.orders) == 0 {
		return false
	}
	if !t.asked || rec.Key != t.key || rec.User != t.user {
		t.key, t.user, t.match, t.asked = rec.Key, rec.User, t.match[:0], true
		for _, o := range t.orders {
			if o.Matches(rec.Key, rec.User) {
				t.match = append(t.match, o)
			}
		}
	}
	for _, o := range t.match {
		if o.Reaches(t.lineage, t.epoch, rec.Pos, rec.At) {
			return true
		}
	}
	return false
}

// asDamaged tells a damaged segment from other errors.
func asDamaged(err error) *damagedError {
	var d *damagedError
	if errors.As(err, &d) {
		return d
	}
	return nil
}
