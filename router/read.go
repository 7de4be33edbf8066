package router

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/internal/soundness"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Get returns the current document, or the version that o asks for.
func (r *Router) Get(ctx context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Document, error) {
	began := time.Now()
	d, err := r.get(ctx, ns, id, orZero(o))
	tier := tiering.Warm
	if d != nil {
		tier = d.Tier
	}
	r.Recorder.Load(tier, time.Since(began), err)
	return d, tiering.Wrap(err, "get", "", r.key(ns, id))
}

// Head is Get without the bytes.
func (r *Router) Head(ctx context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Meta, error) {
	d, err := r.Get(ctx, ns, id, o)
	if err != nil {
		return nil, err
	}
	return &d.Meta, nil
}

func (r *Router) get(ctx context.Context, ns, id string, o tiering.GetOptions) (*tiering.Document, error) {
	key, err := r.admit(tiering.VerbRead, ns, id)
	if err != nil {
		return nil, err
	}
	if err := checkGet(o); err != nil {
		return nil, err
	}
	p, err := r.policyOf(ctx, key.Tenant, ns)
	if err != nil && !errors.Is(err, tiering.ErrUnavailable) {
		return nil, err
	}
	if err != nil { // warm is down: hot may still serve, under the default policy
		p = &policy{Policy: tiering.Policy{}.WithDefaults()}
	}
	if p.known && p.KeepsAll() {
		return nil, wrongKind(ns, p.Kind, tiering.KindState)
	}
	d, err := r.find(ctx, key, p, o)
	if err != nil {
		return nil, err
	}
	if o.Pointer == "" {
		return d, nil
	}
	part := *d
	part.Body, err = jsondoc.Lookup(d.Body, o.Pointer)
	return &part, err
}

// checkGet refuses options that contradict each other.
func checkGet(o tiering.GetOptions) error {
	switch {
	case o.Version < 0 || o.MinVersion < 0:
		return tiering.Invalidf("a version is a positive number")
	case o.Version > 0 && !o.AsOf.IsZero():
		return tiering.Invalidf("version and as_of name two versions: use one")
	case (o.Version > 0 || !o.AsOf.IsZero()) && o.MinVersion > 0:
		return tiering.Invalidf("min_version goes with the current document, not with version or as_of")
	case len(o.Default) > 0:
		if _, err := jsondoc.Compact(o.Default); err != nil {
			return tiering.Invalidf("default is not JSON: %s", tiering.DetailOf(err))
		}
	}
	return nil
}

// find dispatches a read: history, ephemeral, strong, or cached.
func (r *Router) find(ctx context.Context, key tiering.Key, p *policy, o tiering.GetOptions) (*tiering.Document, error) {
	past := o.Version > 0 || !o.AsOf.IsZero()
	switch {
	case !p.Durable() && (past || o.Strong):
		return nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it has no history and no strong reads", key.Namespace)
	case !p.Durable():
		d, err := r.ephemeral(ctx, key)
		return r.orDefault(key, d, err, p, o)
	case past:
		d, err := r.past(ctx, key, o)
		return r.visible(d, err)
	case o.Strong:
		d, err := r.strong(ctx, key, p, o.MinVersion)
		d, err = r.ownFloor(ctx, key, o.MinVersion, d, err)
		return r.orDefault(key, d, err, nil, o)
	}
	deadline := p.LoadDeadline.Std()
	if deadline == 0 || len(defaultOf(p, o)) == 0 {
		d, err := r.cached(ctx, key, p, o.MinVersion)
		d, err = r.ownFloor(ctx, key, o.MinVersion, d, err)
		return r.orDefault(key, d, err, p, o)
	}
	quick, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	d, err := r.cached(quick, key, p, o.MinVersion)
	if err != nil && ctx.Err() == nil && errors.Is(quick.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return defaultDocument(key, defaultOf(p, o), "deadline"), nil
	}
	d, err = r.ownFloor(ctx, key, o.MinVersion, d, err)
	return r.orDefault(key, d, err, p, o)
}

func defaultOf(p *policy, o tiering.GetOptions) json.RawMessage {
	switch {
	case len(o.Default) > 0:
		return o.Default
	case o.NoDefault || p == nil:
		return nil
	}
	return p.Default
}

// visible answers a document that is not the principal's to see like one that
// does not exist.
func (r *Router) visible(d *tiering.Document, err error) (*tiering.Document, error) {
	if err == nil && !r.mayRead(d.User) {
		return nil, tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
	}
	return d, err
}

// ownFloor keeps min_version from telling a principal limited to a user how far
// another user's key has come: it is answered like a key that never was.
func (r *Router) ownFloor(ctx context.Context, key tiering.Key, minVersion int64, d *tiering.Document, err error) (*tiering.Document, error) {
	code := tiering.CodeOf(err)
	judged := err == nil || code == tiering.CodeNotFound || code == tiering.CodeVersionConflict
	if r.who.Scope.User == "" || minVersion == 0 || !judged || d != nil && r.mayRead(d.User) {
		return d, err
	}
	if d == nil {
		head, herr := r.Warm.Head(ctx, key)
		if herr != nil {
			return nil, tiering.Wrap(herr, "", tiering.Warm, key)
		}
		if r.mayRead(head.Head.User) {
			return nil, err
		}
	}
	return nil, &tiering.Error{Code: tiering.CodeVersionConflict, Detail: "min_version is above the version that stands"}
}

// orDefault answers the default where nothing stands that the principal may
// see: never for any other error.
func (r *Router) orDefault(key tiering.Key, d *tiering.Document, err error, p *policy, o tiering.GetOptions) (*tiering.Document, error) {
	d, err = r.visible(d, err)
	def := defaultOf(p, o)
	if err == nil || len(def) == 0 || tiering.CodeOf(err) != tiering.CodeNotFound {
		return d, err
	}
	return defaultDocument(key, def, "absent"), nil
}

// defaultDocument is a default in a document's place: it has no version.
func defaultDocument(key tiering.Key, body json.RawMessage, why string) *tiering.Document {
	return &tiering.Document{Meta: tiering.Meta{Namespace: key.Namespace, ID: key.ID}, Body: body, Default: why}
}

// sound reports whether hot's entry of a durable document may be served: it is
// intact, and its life is not over on warm's clock.
func (r *core) sound(l hot.Lookup) bool {
	if l.State != hot.Present {
		return false
	}
	if m := l.Entry.Meta; !m.ExpiresAt.IsZero() && !m.Pinned {
		if now, ok := r.warmTime.read(r.Clock()); ok && !now.Before(m.ExpiresAt) {
			return false
		}
	}
	return r.intact(l)
}

// intact reports whether hot's entry is a value whose bytes match their digest.
func (r *core) intact(l hot.Lookup) bool {
	if l.State != hot.Present {
		return false
	}
	if tiering.DigestOf(l.Entry.Body) != l.Entry.Meta.Digest {
		r.Recorder.Corrupt(tiering.Hot)
		if r.hotJudge.Corrupt(l.Entry.Meta.Namespace + "/" + l.Entry.Meta.ID) {
			r.Logger.Error("too much of what hot holds is corrupt: durable documents are read from warm for a while", "rest", soundness.DefaultRest)
		}
		return false
	}
	r.hotJudge.Sound()
	return true
}

// fromHot makes the document that hot holds.
func fromHot(key tiering.Key, e hot.Entry) *tiering.Document {
	d := &tiering.Document{Meta: e.Meta, Body: e.Body, Tier: tiering.Hot}
	d.Namespace, d.ID = key.Namespace, key.ID
	return d
}

// errHotCorrupt keeps reads away from hot; writes go on telling it.
var errHotCorrupt = tiering.Errorf(tiering.CodeCorrupt, "too much of what hot holds is corrupt")

// lookDurable is look for what warm holds too.
func (r *core) lookDurable(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	if r.hotJudge.Open() {
		return hot.Lookup{}, errHotCorrupt
	}
	return r.look(ctx, key, lease)
}

// cached serves from hot, else loads: once, however many ask.
func (r *core) cached(ctx context.Context, key tiering.Key, p *policy, minVersion int64) (*tiering.Document, error) {
	l, err := r.lookDurable(ctx, key, true)
	if err == nil {
		r.Recorder.HotLookup(l.State == hot.Present)
		if r.sound(l) && l.Entry.Meta.Version >= minVersion {
			d := fromHot(key, l.Entry)
			d.Stale = r.warmAway()
			r.slide(key, p, d.Meta)
			return d, nil
		}
		// While warm is away nothing is said not to be there.
		if l.State == hot.Deleted && l.Entry.Meta.Version >= minVersion && !r.warmAway() {
			return nil, tiering.Errorf(tiering.CodeNotFound, "the document was deleted")
		}
		if l.State == hot.Present { // damaged, expired here, or too old: out of the way of the fill
			r.dropHot(ctx, key, l)
		}
	}
	got, err := r.share(key, p, l, minVersion > 0).wait(ctx)
	if err != nil {
		return nil, err
	}
	return r.answer(got, p, minVersion)
}

func (r *core) dropHot(ctx context.Context, key tiering.Key, l hot.Lookup) {
	// Best effort: an entry that stays is refused again at the next read.
	_ = r.onHot(ctx, func(ctx context.Context) error {
		return r.Hot.Drop(ctx, key, l.Entry.Meta.Version, l.Entry.Meta.Revision)
	})
}

// strong asks warm for the head, after the call began, and serves hot's bytes
// where they are of that version.
func (r *core) strong(ctx context.Context, key tiering.Key, p *policy, minVersion int64) (*tiering.Document, error) {
	l, err := r.lookDurable(ctx, key, true)
	if err == nil && r.sound(l) {
		cur, err := r.Warm.Head(ctx, key)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, key)
		}
		m := l.Entry.Meta
		if cur.Head.Live(cur.Now) && cur.Head.Version == m.Version && cur.Head.Revision == m.Revision && cur.Head.Version >= minVersion {
			d := fromHot(key, l.Entry)
			r.slide(key, p, d.Meta)
			return d, nil
		}
	}
	got, err := r.share(key, p, l, true).wait(ctx)
	if err != nil {
		return nil, err
	}
	return r.answer(got, p, minVersion)
}

// answer turns what warm said into the caller's answer.
func (r *core) answer(got loaded, p *policy, minVersion int64) (*tiering.Document, error) {
	if got.head.Version < minVersion {
		return nil, &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: got.head.Standing(got.now),
			Detail: "min_version is above the version that stands"}
	}
	if !got.head.Live(got.now) {
		return nil, tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
	}
	d := &tiering.Document{Meta: got.head.Meta(), Body: got.body, Tier: got.tier}
	r.slide(got.head.Key, p, d.Meta)
	return d, nil
}

// loaded is what a load found: a head and, when it lives, its bytes.
type loaded struct {
	head warm.Head
	body []byte
	now  time.Time // warm's clock
	tier tiering.Tier
}

func (l loaded) base() *base {
	if !l.head.Live(l.now) {
		return &base{}
	}
	return &base{version: l.head.Version, body: l.body, user: l.head.User}
}

// load reads warm, and cold where the bytes lie there, and fills hot if the
// lease still lives.
func (r *core) load(ctx context.Context, key tiering.Key, p *policy, lease hot.Token) (loaded, error) {
	cur, err := r.loadWarm(ctx, key)
	if err != nil {
		return loaded{}, err
	}
	got := loaded{head: cur.Head, body: cur.Body, now: cur.Now, tier: tiering.Warm}
	if got.head.Key == (tiering.Key{}) {
		got.head.Key = key
	}
	if !got.head.Live(got.now) {
		return got, nil
	}
	damaged := got.head.InWarm && tiering.DigestOf(got.body) != got.head.Digest
	if damaged {
		r.Recorder.Corrupt(tiering.Warm)
		r.Logger.Error("damaged bytes in warm", "key", key, "version", got.head.Version)
		got.body = nil
	}
	if got.body == nil {
		if got.body, err = r.fromCold(ctx, got.head); errors.Is(err, errMoved) {
			return r.load(ctx, key, p, lease)
		}
		if err != nil {
			return loaded{}, err
		}
		got.tier = tiering.Cold
		if damaged {
			r.mend(ctx, key, got.head.Version, got.body)
		} else {
			r.promote(ctx, p, got)
		}
	}
	r.fill(ctx, key, p, lease, got)
	return got, nil
}

func (r *core) fill(ctx context.Context, key tiering.Key, p *policy, lease hot.Token, got loaded) {
	life := hotLife(p, got.head, got.now)
	if lease == 0 || life <= 0 {
		return
	}
	// A fill that fails costs the next reader a load, nothing else.
	_ = r.onHot(ctx, func(ctx context.Context) error {
		_, err := r.Hot.Fill(ctx, key, lease, hot.Entry{Meta: got.head.Meta(), Body: got.body}, life)
		return err
	})
}

// mend puts bytes that cold served in the place of damaged ones in warm.
func (r *core) mend(ctx context.Context, key tiering.Key, version int64, body []byte) {
	if _, err := r.Warm.Mend(ctx, key, version, body); err != nil {
		r.Logger.Warn("damaged bytes in warm could not be mended; the version was served from cold", "key", key, "version", version, "err", err)
	}
}

// promote brings bytes read from cold back to warm, if the policy says so and
// the head still stands there.
func (r *core) promote(ctx context.Context, p *policy, got loaded) {
	if !*p.Promote {
		return
	}
	if _, err := r.Warm.Promote(ctx, got.head.Key, got.head.Version, got.body); err != nil {
		r.Logger.Warn("promote failed; the document was served from cold", "key", got.head.Key, "err", err)
	}
}
