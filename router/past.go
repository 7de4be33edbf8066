package router

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// stored is one version, wherever it was found.
type stored struct {
	version   int64
	op        tiering.Op
	at        time.Time
	created   time.Time
	expiresAt time.Time
	user      string
	digest    tiering.Digest
	body      []byte
	tier      tiering.Tier
}

func (s stored) document(key tiering.Key) *tiering.Document {
	return &tiering.Document{Body: s.body, Tier: s.tier, Meta: tiering.Meta{
		Namespace: key.Namespace, ID: key.ID, Version: s.version, Digest: s.digest, Size: int64(len(s.body)),
		CreatedAt: s.created, UpdatedAt: s.at, ExpiresAt: s.expiresAt, User: s.user,
	}}
}

// ownVersion is version where the principal may see it. One of another owner is
// answered like one that never was, also once it is gone: that it was there says
// how far the key's versions have come.
func (r *Router) ownVersion(ctx context.Context, key tiering.Key, version int64) (stored, error) {
	v, err := r.version(ctx, key, version)
	if err == nil && !r.mayRead(v.user) {
		return stored{}, noVersion(version)
	}
	if r.who.Scope.User != "" && tiering.CodeOf(err) == tiering.CodeGone {
		head, herr := r.Warm.Head(ctx, key)
		switch {
		case herr != nil:
			return stored{}, tiering.Wrap(herr, "", tiering.Warm, key)
		case !r.mayRead(head.Head.User):
			return stored{}, noVersion(version)
		}
	}
	return v, err
}

// past reads history: a version by number, or the one that stood at a time.
func (r *Router) past(ctx context.Context, key tiering.Key, o tiering.GetOptions) (*tiering.Document, error) {
	var v stored
	var err error
	if o.Version > 0 {
		v, err = r.ownVersion(ctx, key, o.Version)
	} else {
		v, err = r.asOf(ctx, key, o.AsOf)
		if err == nil && !r.mayRead(v.user) {
			err = tiering.Errorf(tiering.CodeNotFound, "nothing stood under the key then")
		}
	}
	if err != nil {
		return nil, err
	}
	if v.op.Deleting() {
		return nil, tiering.Errorf(tiering.CodeNotFound, "version %d is a deletion", v.version)
	}
	if o.Version == 0 && !v.expiresAt.IsZero() && !o.AsOf.Before(v.expiresAt) {
		return nil, tiering.Errorf(tiering.CodeNotFound, "the document had expired by then")
	}
	return v.document(key), nil
}

// version reads one version from warm, else from cold. A version that was
// there and was collected is gone; one that never was is not found.
func (r *core) version(ctx context.Context, key tiering.Key, version int64) (stored, error) {
	v, ok, locs, err := warm.Find(ctx, r.Warm, key, version)
	if err != nil {
		return stored{}, tiering.Wrap(err, "", tiering.Warm, key)
	}
	if ok {
		s := fromRow(v)
		if v.Op.Deleting() || tiering.DigestOf(v.Body) == v.Digest {
			return s, nil
		}
		r.Recorder.Corrupt(tiering.Warm)
		r.Logger.Error("damaged bytes in warm", "key", key, "version", version)
	}
	s, err := r.versionFromCold(ctx, key, version, locs)
	if ok && err == nil {
		r.mend(ctx, key, version, s.body)
	}
	if tiering.CodeOf(err) != tiering.CodeNotFound {
		return s, err
	}
	if ok {
		return stored{}, &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Detail: "the stored bytes do not match their digest and no other copy is left"}
	}
	head, herr := r.Warm.Head(ctx, key)
	if herr != nil {
		return stored{}, tiering.Wrap(herr, "", tiering.Warm, key)
	}
	if version < head.Head.Version {
		return stored{}, tiering.Errorf(tiering.CodeGone, "version %d is no longer kept", version)
	}
	return stored{}, err
}

func fromRow(v warm.Version) stored {
	return stored{
		version: v.Version, op: v.Op, at: v.At, created: v.CreatedAt, expiresAt: v.ExpiresAt, user: v.User,
		digest: v.Digest, body: v.Body, tier: tiering.Warm,
	}
}

// versionFromCold looks the version up in the locations of finished segments;
// first is where it lies as far as the caller knows, nil when he does not.
func (r *core) versionFromCold(ctx context.Context, key tiering.Key, version int64, first []tiering.Location) (stored, error) {
	var found stored
	err := r.archived(ctx, key, first, func(locs []tiering.Location) error {
		for _, l := range locs {
			if _, ok := l.Block(version); !ok {
				continue
			}
			rec, _, err := r.Archive.Read(ctx, l, version)
			if errors.Is(err, tiering.ErrNotFound) {
				continue // a gap in the location's range
			}
			if err != nil {
				return err
			}
			found = fromRecord(rec)
			return nil
		}
		return nil
	})
	if err == nil && found.version == 0 {
		err = noVersion(version)
	}
	return found, err
}

func noVersion(version int64) error {
	return tiering.Errorf(tiering.CodeNotFound, "there is no version %d", version)
}

// errMoved is a read of bytes that moved while they were looked for: the head
// is not any more what the reader saw.
var errMoved = errors.New("the document moved")

// fromCold reads the current bytes of a head that are not in warm.
func (r *core) fromCold(ctx context.Context, h warm.Head) ([]byte, error) {
	s, err := r.versionFromCold(ctx, h.Key, h.Version, nil)
	code := tiering.CodeOf(err)
	if code != tiering.CodeNotFound && code != tiering.CodeCorrupt {
		return s.body, err
	}
	cur, again := r.Warm.Head(ctx, h.Key)
	switch {
	case again != nil:
		return nil, tiering.Wrap(again, "", tiering.Warm, h.Key)
	case cur.Head.Version != h.Version || cur.Head.InWarm != h.InWarm:
		return nil, errMoved
	case code == tiering.CodeNotFound:
		return nil, &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Cold, Detail: "the catalog names no copy of the current version"}
	}
	return nil, err
}

// asOf reads the version that stood at t: the newest one committed at or before
// it, whether warm still holds it or cold alone. A deletion counts: nothing
// stood then.
func (r *core) asOf(ctx context.Context, key tiering.Key, t time.Time) (stored, error) {
	var at int64
	v, ok, err := r.Warm.AsOf(ctx, key, t)
	if err != nil {
		return stored{}, tiering.Wrap(err, "", tiering.Warm, key)
	}
	if ok {
		at = v.Version
	}
	err = r.archived(ctx, key, nil, func(locs []tiering.Location) error {
		for _, l := range locs {
			if l.MaxVersion <= at || l.MinTime.After(t) {
				continue
			}
			if !l.MaxTime.After(t) {
				at = l.MaxVersion
				continue
			}
			entries, _, err := r.Archive.Versions(ctx, l)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if e.Op.Versioned() && !e.At.After(t) {
					at = max(at, e.Version)
				}
			}
		}
		return nil
	})
	if err != nil {
		return stored{}, err
	}
	if at == 0 {
		return stored{}, tiering.Errorf(tiering.CodeNotFound, "nothing stood under the key then")
	}
	return r.version(ctx, key, at)
}

// archived calls look with where the key lies in cold. Segments are rewritten
// while they are read, and after an erase the old ones are gone at once: what
// was not found where it lay is looked for once more where it lies by now. first
// is what was asked for already, nil for nothing.
func (r *core) archived(ctx context.Context, key tiering.Key, first []tiering.Location, look func([]tiering.Location) error) error {
	if r.Archive == nil {
		return nil
	}
	var failed error
	var before []tiering.Location
	for range moveTries {
		locs := first
		if first = nil; locs == nil {
			var err error
			if locs, err = r.Warm.Locations(ctx, key); err != nil {
				return tiering.Wrap(err, "", tiering.Warm, key)
			}
		}
		if failed != nil && stillThere(before, locs) {
			return failed
		}
		err := look(locs)
		if !errors.Is(err, tiering.ErrCorrupt) {
			return coldFailed(err, key)
		}
		failed, before = tiering.Wrap(err, "", tiering.Cold, key), locs
	}
	return failed
}

// coldFailed says of a read that was tried on both copies that neither served.
func coldFailed(err error, key tiering.Key) error {
	var e *tiering.Error
	if !errors.As(tiering.Wrap(err, "", tiering.Cold, key), &e) {
		return nil
	}
	asked := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if e.Code == tiering.CodeUnavailable && !asked {
		c := *e
		c.Detail = "neither cold copy can be reached: try again when the object storage answers"
		e = &c
	}
	return e
}

// stillThere reports whether every segment that was looked at is in the catalog
// yet: what failed there would fail again. locs may name more, of other versions.
func stillThere(before, locs []tiering.Location) bool {
	return !slices.ContainsFunc(before, func(was tiering.Location) bool {
		return !slices.ContainsFunc(locs, func(l tiering.Location) bool { return l.Segment == was.Segment })
	})
}

// readable admits a read of a key's history: the key must have been, and be
// the principal's to see.
func (r *Router) readable(ctx context.Context, ns, id string) (tiering.Key, error) {
	key, err := r.admit(tiering.VerbRead, ns, id)
	if err != nil {
		return key, err
	}
	p, err := r.policyOf(ctx, key.Tenant, ns)
	if err != nil {
		return key, err
	}
	if !p.Durable() {
		return key, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it has no history", ns)
	}
	cur, err := r.Warm.Head(ctx, key)
	if err != nil {
		return key, tiering.Wrap(err, "", tiering.Warm, key)
	}
	if cur.Head.Version == 0 || !r.mayRead(cur.Head.User) {
		return key, tiering.Errorf(tiering.CodeNotFound, "the key never was")
	}
	return key, nil
}

// Diff returns the JSON patch (RFC 6902) that turns version from into to.
func (r *Router) Diff(ctx context.Context, ns, id string, from, to int64) (json.RawMessage, error) {
	d, err := r.diff(ctx, ns, id, from, to)
	return d, tiering.Wrap(err, "diff", "", r.key(ns, id))
}

func (r *Router) diff(ctx context.Context, ns, id string, from, to int64) (json.RawMessage, error) {
	if from <= 0 || to <= 0 {
		return nil, tiering.Invalidf("from and to are versions of the document")
	}
	key, err := r.readable(ctx, ns, id)
	if err != nil {
		return nil, err
	}
	var bodies [2][]byte
	for i, n := range []int64{from, to} {
		v, err := r.ownVersion(ctx, key, n) // the key may have had another owner before it was deleted
		if err != nil {
			return nil, err
		}
		if v.op.Deleting() {
			return nil, tiering.Unprocessablef("", "version %d is a deletion: it has no content to compare", n)
		}
		bodies[i] = v.body
	}
	return jsondoc.Diff(bodies[0], bodies[1])
}
