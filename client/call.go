package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// call is one request, as often as it has to be sent.
type call struct {
	op     string // for errors
	key    tiering.Key
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	body   []byte // nil: none
	write  bool
	idem   string // the Idempotency-Key of a write; "": none
}

// answer is a whole 2xx answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// newCall starts a call on a key, or on a namespace when id is "".
func newCall(op, method, root, ns, id string) *call {
	r := &call{op: op, key: tiering.Key{Namespace: ns, ID: id}, method: method, path: root, query: url.Values{}, header: http.Header{}}
	if ns != "" {
		r.path += "/" + escape(ns)
	}
	if id != "" {
		r.path += "/" + escape(id)
	}
	return r
}

// keyed is newCall after the key's names were checked: one with an empty or dot
// segment would be rewritten on its way and reach another key.
func keyed(op, method, root, ns, id string) (*call, error) {
	r := newCall(op, method, root, ns, id)
	if err := tiering.ValidateNamespace(ns); err != nil {
		return nil, r.wrap(err)
	}
	if err := tiering.ValidateID(id); err != nil {
		return nil, r.wrap(err)
	}
	return r, nil
}

// spaced is newCall on a namespace whose name was checked.
func spaced(op, method, root, ns string) (*call, error) {
	r := newCall(op, method, root, ns, "")
	if err := tiering.ValidateNamespace(ns); err != nil {
		return nil, r.wrap(err)
	}
	return r, nil
}

func (r *call) wrap(err error) error { return tiering.Wrap(err, r.op, "", r.key) }

// json makes v the body, as encoding/json writes it but without HTML escapes,
// which would change the bytes of the documents inside.
func (r *call) json(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return r.wrap(&tiering.Error{Code: tiering.CodeInvalid, Detail: "the request cannot be written as JSON", Err: err})
	}
	r.body = b.Bytes()
	r.header.Set("Content-Type", "application/json")
	return nil
}

// escape writes an id into a path: everything but [A-Za-z0-9_-] and slashes is
// encoded, also what RFC 3986 lets stand, so that no hop has a form of its own
// for it.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '/' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// do sends r until it has a definite answer, tries run out or ctx ends.
func (c *Client) do(ctx context.Context, r *call) (*answer, error) {
	unknown := false // some try may have happened without our hearing of it
	for try := 1; ; try++ {
		ans, maybe, err := c.try(ctx, r)
		if err == nil {
			return ans, nil
		}
		unknown = unknown || maybe
		again := tiering.Retryable(err) && ctx.Err() == nil && (!r.write || r.idem != "") && try < c.retry.Attempts
		if again && c.retry.wait(ctx, try, retryAfter(err)) {
			continue
		}
		if r.write && unknown && tiering.Retryable(err) {
			err = r.unknown(err)
		}
		return nil, r.wrap(err)
	}
}

// unknown says that the write may have happened, and how to find out.
func (r *call) unknown(err error) error {
	e := *asError(err)
	if e.Detail != "" {
		e.Detail += "; "
	}
	e.Detail += "whether the write happened is not known"
	if r.idem != "" {
		e.Detail += ": send it again with Idempotency-Key " + r.idem + " to make sure"
	}
	return &e
}

// try sends r once. maybe reports that the node may have done r although err
// says nothing about it.
func (c *Client) try(ctx context.Context, r *call) (ans *answer, maybe bool, err error) {
	tryCtx := ctx
	if c.timeout > 0 {
		var cancel context.CancelFunc
		tryCtx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	req, err := c.request(tryCtx, r)
	if err != nil {
		return nil, false, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, !neverSent(err), transportError(ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	if err != nil {
		return nil, true, transportError(ctx, err)
	}
	if len(body) > MaxAnswer {
		return nil, true, tiering.Errorf(tiering.CodeTooLarge, "the answer is larger than %d bytes: ask for less at a time", MaxAnswer)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		err := errorOf(res, body)
		return nil, err.Code == tiering.CodeUnavailable, err
	}
	return &answer{status: res.StatusCode, header: res.Header, body: body}, false, nil
}

func (c *Client) request(ctx context.Context, r *call) (*http.Request, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body) // http.NewRequest can rewind it
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, &tiering.Error{Code: tiering.CodeInvalid, Detail: "no request can be made", Err: err}
	}
	maps.Copy(req.Header, r.header)
	req.Header.Set("Accept", "application/json, application/problem+json")
	if r.idem != "" {
		req.Header.Set("Idempotency-Key", r.idem)
	}
	if c.apiKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	return req, nil
}

// write sends a mutation. One without an Idempotency-Key of the caller's gets a
// random one, so that it can be sent again.
//
// Ephemeral namespaces refuse the key (nothing durable could remember it), and
// the client cannot know which they are: on that answer, which says that
// nothing was done, the call is sent once more without the key, and the
// namespace is remembered.
func (c *Client) write(ctx context.Context, r *call, given string) (*answer, error) {
	r.write, r.idem = true, given
	ns := r.key.Namespace
	if given != "" {
		return c.do(ctx, r)
	}
	if _, refuses := c.keyless.get(ns); refuses {
		return c.do(ctx, r)
	}
	r.idem = rand.Text()
	ans, err := c.do(ctx, r)
	if !errors.Is(err, tiering.ErrUnsupported) {
		return ans, err
	}
	r.idem = ""
	ans, err = c.do(ctx, r)
	if ns != "" && !errors.Is(err, tiering.ErrUnsupported) {
		c.keyless.set(ns, struct{}{}, nil)
	}
	return ans, err
}

// decode reads a JSON answer into v. What is not tierd's JSON comes from
// something in between, whatever its status.
func (a *answer) decode(r *call, v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		e := foreign(a.status, a.header, a.body)
		e.Err = err
		if r.write {
			return r.wrap(r.unknown(e))
		}
		return r.wrap(e)
	}
	return nil
}

// wait sleeps before the next try. It returns false at once when ctx would end
// first or the node asked for more patience than r has.
func (r Retry) wait(ctx context.Context, try int, after time.Duration) bool {
	d := r.delay(try)
	if after > r.MaxRetryAfter {
		return false
	}
	d = max(d, after)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	return sleep(ctx, d)
}

// delay is the backoff behind try, counted from 1.
func (r Retry) delay(try int) time.Duration {
	d := r.MinDelay
	for range try - 1 {
		if d >= r.MaxDelay/2 {
			d = r.MaxDelay
			break
		}
		d *= 2
	}
	d = min(d, r.MaxDelay)
	return d - mathrand.N(d/2+1)
}

// sleep waits for d and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// neverSent reports whether err means that no byte of the request left.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
