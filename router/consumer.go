package router

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A consumer is a document of a namespace of its own: it is committed, shared by
// daemons, archived, rebuilt and erased like any other, and its position moves by
// compare-and-set. Of its versions only the last matters.

// consumerDoc is the document of a consumer.
type consumerDoc struct {
	Namespace string         `json:"namespace,omitempty"`
	Prefix    string         `json:"prefix,omitempty"`
	ID        string         `json:"id,omitempty"`
	User      string         `json:"user,omitempty"`
	Session   string         `json:"session,omitempty"`
	Limits    consumerLimits `json:"limits,omitzero"`
	Position  string         `json:"position"`
}

// consumerLimits are what the maker's API key is limited to, besides verbs. A key
// of other limits sees other events: what it acknowledged would be lost to this
// one.
type consumerLimits struct {
	Namespaces []string `json:"namespaces,omitempty"`
	Prefixes   []string `json:"prefixes,omitempty"`
	User       string   `json:"user,omitempty"`
}

func (r *Router) consumerLimits() consumerLimits {
	sorted := func(l []string) []string {
		l = slices.Clone(l)
		slices.Sort(l)
		return slices.Compact(l)
	}
	s := r.who.Scope
	return consumerLimits{sorted(s.Namespaces), sorted(s.Prefixes), s.User}
}

func (l consumerLimits) equal(o consumerLimits) bool {
	return slices.Equal(l.Namespaces, o.Namespaces) && slices.Equal(l.Prefixes, o.Prefixes) && l.User == o.User
}

func (l consumerLimits) none() bool { return l.equal(consumerLimits{}) }

// consumer is a document of one as it was read.
type consumer struct {
	consumerDoc
	head warm.Head
}

func consumerDocOf(o tiering.WatchOptions, limits consumerLimits, position string) consumerDoc {
	return consumerDoc{o.Namespace, o.Prefix, o.ID, o.User, o.Session, limits, position}
}

// watches reports whether the consumer watches what o asks for.
func (c *consumer) watches(o tiering.WatchOptions) bool {
	return c.Namespace == o.Namespace && c.Prefix == o.Prefix && c.ID == o.ID && c.User == o.User && c.Session == o.Session
}

func (r *Router) consumerKey(name string) tiering.Key {
	return r.key(tiering.ConsumerNamespace, name)
}

func validateConsumer(name string) error {
	if err := tiering.ValidatePartName(name); err != nil {
		return tiering.Invalidf("consumer: %s", tiering.DetailOf(err))
	}
	return nil
}

func noConsumer(name string) error {
	return tiering.Errorf(tiering.CodeNotFound, "there is no consumer %q: a watch with consumer=%s makes it", name, name)
}

// loadConsumer reads a consumer from warm; nil when there is none.
func (r *Router) loadConsumer(ctx context.Context, name string) (*consumer, error) {
	got, err := r.load(ctx, r.consumerKey(name), reservedPolicy(), 0)
	if err != nil || got.body == nil {
		return nil, err
	}
	c := &consumer{head: got.head}
	return c, c.decode(got.body)
}

func (c *consumer) decode(body []byte) error {
	if err := json.Unmarshal(body, &c.consumerDoc); err != nil {
		return &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "a stored consumer cannot be read"}
	}
	return nil
}

// storeConsumer commits a consumer where version stands, 0 for none.
func (r *Router) storeConsumer(ctx context.Context, name string, d consumerDoc, version int64) (*tiering.Receipt, error) {
	no := false
	p, err := r.policyForKind(ctx, tiering.ConsumerNamespace, tiering.Policy{
		Kind: tiering.KindState, Query: &no, KeepVersions: 1, KeepFor: tiering.Duration(time.Hour),
	})
	if err != nil {
		return nil, err
	}
	body, err := encodeDoc(d)
	if err != nil {
		return nil, err
	}
	m := &mutation{key: r.consumerKey(name), cond: tiering.IfVersion(version), row: warm.Row{
		Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body), User: d.User,
	}}
	return r.write(ctx, "put", p, m)
}

// join is the consumer that a watch goes on with; nil when the watch makes it. It
// sets where the watch begins.
func (r *Router) join(ctx context.Context, o *tiering.WatchOptions) (*consumer, error) {
	if o.Consumer == "" {
		return nil, nil
	}
	if err := validateConsumer(o.Consumer); err != nil {
		return nil, err
	}
	c, err := r.loadConsumer(ctx, o.Consumer)
	switch {
	case err != nil || c == nil:
		return nil, err
	case !c.Limits.equal(r.consumerLimits()):
		return nil, tiering.Errorf(tiering.CodeForbidden, "the consumer %q belongs to API keys of other limits", o.Consumer)
	case !c.watches(*o):
		return nil, tiering.Errorf(tiering.CodeWrongKind, "the consumer %q watches something else: delete it first, or take another name", o.Consumer)
	}
	if o.After == "" {
		o.After = c.Position
	}
	return c, nil
}

// errConsumerMade says that another watch of the same name made the consumer first.
var errConsumerMade = errors.New("the consumer was made meanwhile")

// makeConsumer keeps where the first watch of a name begins.
func (r *Router) makeConsumer(ctx context.Context, o tiering.WatchOptions, position string) error {
	_, err := r.storeConsumer(ctx, o.Consumer, consumerDocOf(o, r.consumerLimits(), position), 0)
	if errors.Is(err, tiering.ErrVersionConflict) {
		return errConsumerMade
	}
	return err
}

// goneConsumer tells a watch that the feed passed by how to go on.
func goneConsumer(name string, err error) error {
	var e *tiering.Error
	if !errors.As(err, &e) || e.Code != tiering.CodeGone {
		return err
	}
	c := *e
	c.Detail += "; delete the consumer " + name + " before, so that it begins anew"
	return &c
}

// visibleConsumer reads a consumer that the principal may see.
func (r *Router) visibleConsumer(ctx context.Context, verb tiering.Verb, name string) (*consumer, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := validateConsumer(name); err != nil {
		return nil, err
	}
	if err := r.allow(verb, ""); err != nil {
		return nil, err
	}
	c, err := r.loadConsumer(ctx, name)
	if err != nil {
		return nil, err
	}
	if c == nil || !r.sees(c) {
		return nil, noConsumer(name)
	}
	return c, nil
}

func (r *Router) sees(c *consumer) bool {
	mine := r.consumerLimits()
	return mine.none() || mine.equal(c.Limits)
}

// Consumers lists the consumers that the principal may see, by name.
func (r *Router) Consumers(ctx context.Context) ([]tiering.Consumer, error) {
	out, err := r.listConsumers(ctx)
	return out, tiering.Wrap(err, "list consumers", "", tiering.Key{})
}

func (r *Router) listConsumers(ctx context.Context) ([]tiering.Consumer, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.allow(tiering.VerbRead, ""); err != nil {
		return nil, err
	}
	at, err := r.feedNow(ctx)
	if err != nil {
		return nil, err
	}
	out := []tiering.Consumer{}
	l := warm.List{Tenant: r.who.Tenant, Namespace: tiering.ConsumerNamespace, Limit: maxLimit, Bodies: true}
	for {
		page, err := r.Warm.List(ctx, l)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		for _, cur := range page {
			l.After = cur.Head.Key.ID
			c := &consumer{head: cur.Head}
			if cur.Body != nil {
				err = c.decode(cur.Body)
			} else {
				c, err = r.loadConsumer(ctx, l.After)
			}
			if err != nil {
				return nil, err
			}
			if c != nil && r.sees(c) {
				out = append(out, *at.describe(l.After, c))
			}
		}
		if len(page) < l.Limit {
			return out, nil
		}
	}
}

// Consumer returns one.
func (r *Router) Consumer(ctx context.Context, name string) (*tiering.Consumer, error) {
	out, err := r.consumer(ctx, name)
	return out, tiering.Wrap(err, "consumer", "", r.consumerKey(name))
}

func (r *Router) consumer(ctx context.Context, name string) (*tiering.Consumer, error) {
	c, err := r.visibleConsumer(ctx, tiering.VerbRead, name)
	if err != nil {
		return nil, err
	}
	at, err := r.feedNow(ctx)
	if err != nil {
		return nil, err
	}
	return at.describe(name, c), nil
}

// Acknowledge moves a consumer to an event.
func (r *Router) Acknowledge(ctx context.Context, name, event string) (*tiering.Consumer, error) {
	out, err := r.acknowledge(ctx, name, event)
	return out, tiering.Wrap(err, "acknowledge", "", r.consumerKey(name))
}

func (r *Router) acknowledge(ctx context.Context, name, event string) (*tiering.Consumer, error) {
	for {
		c, err := r.visibleConsumer(ctx, tiering.VerbRead, name)
		if err != nil {
			return nil, err
		}
		if !c.Limits.equal(r.consumerLimits()) {
			return nil, tiering.Errorf(tiering.CodeForbidden, "the consumer %q belongs to API keys of other limits", name)
		}
		at, err := r.feedNow(ctx)
		if err != nil {
			return nil, err
		}
		newer, err := at.behind(c.Position, event)
		if err != nil {
			return nil, err
		}
		if !newer {
			return at.describe(name, c), nil
		}
		c.Position = event
		rc, err := r.storeConsumer(ctx, name, c.consumerDoc, c.head.Version)
		if err == nil {
			c.head.UpdatedAt = rc.UpdatedAt
			return at.describe(name, c), nil
		}
		if !errors.Is(err, tiering.ErrVersionConflict) {
			return nil, err
		}
		// Another acknowledgement was faster: whose event is the later one is
		// judged anew.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// DeleteConsumer forgets one.
func (r *Router) DeleteConsumer(ctx context.Context, name string) error {
	return tiering.Wrap(r.deleteConsumer(ctx, name), "delete consumer", "", r.consumerKey(name))
}

func (r *Router) deleteConsumer(ctx context.Context, name string) error {
	_, err := r.visibleConsumer(ctx, tiering.VerbDelete, name)
	if errors.Is(err, tiering.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = r.write(ctx, "delete", reservedPolicy(), &mutation{key: r.consumerKey(name), row: warm.Row{Op: tiering.OpDelete}})
	return err
}

// feedNow is where the feed stands.
type feedNow struct {
	epoch       string
	first, last int64
}

func (r *Router) feedNow(ctx context.Context) (f feedNow, err error) {
	if f.epoch, err = r.Warm.Epoch(ctx); err == nil {
		f.first, f.last, err = r.Warm.FeedBounds(ctx)
	}
	return f, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
}

// behind reports whether event lies behind the stored position. A position of an
// earlier life of the store is behind none of this one.
func (f feedNow) behind(stored, event string) (bool, error) {
	pos, index, err := parseEventID(f.epoch, event)
	if err != nil {
		return false, err
	}
	if pos > f.last {
		return false, tiering.Invalidf("event id %q lies in the future", event)
	}
	at, of, err := parseEventID(f.epoch, stored)
	if err != nil {
		return true, nil
	}
	return pos > at || pos == at && wholly(index) > wholly(of), nil
}

// wholly is the index behind which a position with all its events stands.
func wholly(index int) int {
	if index < 0 {
		return math.MaxInt
	}
	return index
}

func (f feedNow) describe(name string, c *consumer) *tiering.Consumer {
	out := &tiering.Consumer{
		Name: name, Namespace: c.Namespace, Prefix: c.Prefix, ID: c.ID, User: c.User, Session: c.Session, Position: c.Position, CreatedAt: c.head.CreatedAt,
	}
	if c.head.UpdatedAt.After(c.head.CreatedAt) {
		out.AcknowledgedAt = c.head.UpdatedAt
	}
	pos, index, err := parseEventID(f.epoch, c.Position)
	next := pos + 1
	if index >= 0 { // the rest of its transaction
		next = pos
	}
	if out.Gone = err != nil || next < f.first; !out.Gone {
		out.Behind = max(f.last-pos, 0)
	}
	return out
}
