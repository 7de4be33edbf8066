package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Append adds entries to a log, in one commit.
func (c *Client) Append(ctx context.Context, ns, id string, entries []json.RawMessage, o *tiering.AppendOptions) (*tiering.Appended, error) {
	r, err := keyed("append", http.MethodPost, "/v1/logs", ns, id)
	if err != nil {
		return nil, err
	}
	r.carry("application/json", arrayOf(entries))
	if o == nil {
		o = &tiering.AppendOptions{}
	}
	r.set("user", o.User)
	if o.ExpectSeq != nil {
		r.set("expect_seq", strconv.FormatInt(*o.ExpectSeq, 10))
	}
	r.ttl(&tiering.WriteOptions{TTL: o.TTL})
	r.fence(o.Fence)
	return write[tiering.Appended](ctx, c, r, o.IdempotencyKey)
}

// arrayOf writes values as a JSON array, each byte for byte.
func arrayOf(values []json.RawMessage) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// write sends a mutation and reads its answer.
func write[T any](ctx context.Context, c *Client, r *call, idempotencyKey string) (*T, error) {
	ans, err := c.write(ctx, r, idempotencyKey)
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, ans.decode(r, out)
}

// Entries returns entries of a log.
func (c *Client) Entries(ctx context.Context, ns, id string, o *tiering.EntriesOptions) (*tiering.EntryPage, error) {
	r, err := keyed("entries", http.MethodGet, "/v1/logs", ns, id)
	if err != nil {
		return nil, err
	}
	r.entries(o)
	return fetch[tiering.EntryPage](ctx, c, r)
}

// entries asks for a part of a log.
func (r *call) entries(o *tiering.EntriesOptions) {
	if o == nil {
		return
	}
	for name, n := range map[string]int64{"after": o.After, "before": o.Before, "limit": int64(o.Limit)} {
		if n != 0 {
			r.set(name, strconv.FormatInt(n, 10))
		}
	}
	for name, t := range map[string]time.Time{"since": o.Since, "until": o.Until} {
		if !t.IsZero() {
			r.set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if o.Descending {
		r.set("order", "desc")
	}
}
