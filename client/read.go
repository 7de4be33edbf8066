package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Get returns the current version, or the one that o asks for. The bytes are
// checked against their digest; corrupt when they do not match.
func (c *Client) Get(ctx context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Document, error) {
	var doc *tiering.Document
	err := c.ownWrites(ns, id, o, func(o tiering.GetOptions) (err error) {
		doc, err = c.get(ctx, ns, id, o)
		return err
	})
	return doc, err
}

// Head is Get without the bytes.
func (c *Client) Head(ctx context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Meta, error) {
	var m *tiering.Meta
	err := c.ownWrites(ns, id, o, func(o tiering.GetOptions) (err error) {
		m, err = c.head(ctx, ns, id, o)
		return err
	})
	return m, err
}

// ownWrites calls read so that it sees what this client wrote last: a plain get
// takes the version of the own write as its min_version. After an own delete
// that version is the tombstone's, so the node answers not_found and never the
// value before it.
//
// version_conflict then means that warm's own head is lower than a write it had
// acknowledged: warm was restored from an earlier state. What the client
// remembers is void, so it is forgotten and warm is asked.
func (c *Client) ownWrites(ns, id string, o *tiering.GetOptions, read func(tiering.GetOptions) error) error {
	var opts tiering.GetOptions
	if o != nil {
		opts = *o
	}
	k := docKey{ns, id}
	own, _ := c.own.get(k)
	plain := opts.Version == 0 && opts.AsOf.IsZero() && !opts.Strong
	if !plain || own <= opts.MinVersion {
		return read(opts)
	}
	asked := opts.MinVersion
	opts.MinVersion = own
	err := read(opts)
	if !errors.Is(err, tiering.ErrVersionConflict) {
		return err
	}
	c.own.drop(k, func(v int64) bool { return v <= own })
	opts.MinVersion, opts.Strong = asked, true
	return read(opts)
}

// wrote remembers the version of an own write, unless a newer one is known.
func (c *Client) wrote(ns, id string, version int64) {
	if version > 0 {
		c.own.set(docKey{ns, id}, version, func(old int64) bool { return old >= version })
	}
}

func (c *Client) get(ctx context.Context, ns, id string, o tiering.GetOptions) (*tiering.Document, error) {
	r, err := readCall(http.MethodGet, ns, id, o)
	if err != nil {
		return nil, err
	}
	ans, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	m, ok := metaOf(ns, id, ans.header)
	doc := &tiering.Document{
		Meta: m, Body: ans.body, Tier: tiering.Tier(ans.header.Get("Tierd-Tier")),
		Stale: ans.header.Get("Tierd-Stale") == "true", Default: ans.header.Get("Tierd-Default"),
	}
	if !ok || m.Version == 0 && doc.Default == "" {
		return nil, r.wrap(foreign(ans.status, ans.header, ans.body))
	}
	if doc.Size == 0 {
		doc.Size = int64(len(ans.body))
	}
	whole := o.Pointer == "" && doc.Default == ""
	if whole && doc.Digest != (tiering.Digest{}) && doc.Digest != tiering.DigestOf(ans.body) {
		return nil, r.wrap(tiering.Errorf(tiering.CodeCorrupt, "version %d arrived with other bytes than its digest says", doc.Version))
	}
	return doc, nil
}

func (c *Client) head(ctx context.Context, ns, id string, o tiering.GetOptions) (*tiering.Meta, error) {
	r, err := readCall(http.MethodHead, ns, id, o)
	if err != nil {
		return nil, err
	}
	ans, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	m, ok := metaOf(ns, id, ans.header)
	if !ok || m.Version == 0 && ans.header.Get("Tierd-Default") == "" {
		return nil, r.wrap(foreign(ans.status, ans.header, nil))
	}
	if m.Size == 0 {
		m.Size, _ = strconv.ParseInt(ans.header.Get("Content-Length"), 10, 64)
	}
	return &m, nil
}

// readCall is a get, or the same without the bytes.
func readCall(method, ns, id string, o tiering.GetOptions) (*call, error) {
	r, err := keyed("get", method, "/v1/state", ns, id)
	if err != nil {
		return nil, err
	}
	q := r.query
	if o.Version != 0 {
		q.Set("version", strconv.FormatInt(o.Version, 10))
	}
	if !o.AsOf.IsZero() {
		q.Set("as_of", o.AsOf.UTC().Format(time.RFC3339Nano))
	}
	if o.Pointer != "" {
		q.Set("pointer", o.Pointer)
	}
	if o.Strong {
		q.Set("consistency", "strong")
	}
	if o.MinVersion != 0 {
		q.Set("min_version", strconv.FormatInt(o.MinVersion, 10))
	}
	switch {
	case o.Default != nil: // it stands in place of the policy's
		q.Set("default", string(o.Default))
	case o.NoDefault:
		q.Set("no_default", "true")
	}
	return r, nil
}

// List returns documents in id order.
func (c *Client) List(ctx context.Context, ns string, o *tiering.ListOptions) (*tiering.Page, error) {
	r, err := spaced("list", http.MethodGet, "/v1/state", ns)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &tiering.ListOptions{}
	}
	r.set("prefix", o.Prefix)
	r.set("user", o.User)
	r.page(o.Limit, o.Cursor)
	if o.Data {
		r.query.Set("include", "data")
	}
	return fetch[tiering.Page](ctx, c, r)
}

// Query returns the documents that match a filter.
func (c *Client) Query(ctx context.Context, ns string, q *tiering.Query) (*tiering.Page, error) {
	r, err := spaced("query", http.MethodPost, "/v1/query", ns)
	if err != nil {
		return nil, err
	}
	if q == nil {
		q = &tiering.Query{}
	}
	if err := r.json(q); err != nil {
		return nil, err
	}
	return fetch[tiering.Page](ctx, c, r)
}

// History returns versions, newest first.
func (c *Client) History(ctx context.Context, ns, id string, o *tiering.HistoryOptions) (*tiering.History, error) {
	r, err := keyed("versions", http.MethodGet, "/v1/versions", ns, id)
	if err != nil {
		return nil, err
	}
	if o != nil {
		r.page(o.Limit, o.Cursor)
	}
	return fetch[tiering.History](ctx, c, r)
}

// Diff returns the JSON patch that turns version from into version to.
func (c *Client) Diff(ctx context.Context, ns, id string, from, to int64) (json.RawMessage, error) {
	r, err := keyed("diff", http.MethodGet, "/v1/diff", ns, id)
	if err != nil {
		return nil, err
	}
	r.query.Set("from", strconv.FormatInt(from, 10))
	r.query.Set("to", strconv.FormatInt(to, 10))
	patch, err := fetch[json.RawMessage](ctx, c, r)
	if err != nil {
		return nil, err
	}
	return *patch, nil
}

// Explain says where each copy is and what happens next.
func (c *Client) Explain(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	r, err := keyed("explain", http.MethodGet, "/v1/explain", ns, id)
	if err != nil {
		return nil, err
	}
	return fetch[tiering.Explanation](ctx, c, r)
}

// set adds a parameter that is not empty.
func (r *call) set(name, value string) {
	if value != "" {
		r.query.Set(name, value)
	}
}

// page adds limit and cursor. A negative limit goes to the node, which refuses it.
func (r *call) page(limit int, cursor string) {
	if limit != 0 {
		r.query.Set("limit", strconv.Itoa(limit))
	}
	r.set("cursor", cursor)
}

// fetch sends a read and decodes its JSON answer.
func fetch[T any](ctx context.Context, c *Client, r *call) (*T, error) {
	ans, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := ans.decode(r, out); err != nil {
		return nil, err
	}
	return out, nil
}
