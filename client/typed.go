package client

import (
	"context"
	"iter"

	"github.com/tierd/tierd/tiering"
)

// GetAs reads a document into a T and returns its version, the one to hand to
// tiering.Update. It is tiering.GetAs, under the name where it is looked for.
func GetAs[T any](ctx context.Context, c *Client, ns, id string, o *tiering.GetOptions) (value T, version int64, err error) {
	return tiering.GetAs[T](ctx, c, ns, id, o)
}

// Events is Watch as an iterator, see tiering.Events: it reconnects by
// Last-Event-ID, without gap or repeat, until the loop is left, ctx ends, or an
// error that stays was yielded.
func (c *Client) Events(ctx context.Context, o *tiering.WatchOptions) iter.Seq2[tiering.Event, error] {
	return tiering.Events(ctx, c, o)
}
