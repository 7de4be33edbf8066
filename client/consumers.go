package client

import (
	"context"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// named begins a call on a named consumer.
func named(op, method, name, below string) (*call, error) {
	r := newCall(op, method, "/v1/consumers/"+escape(name)+below, "", "")
	r.key = tiering.Key{Namespace: tiering.ConsumerNamespace, ID: name}
	return r, r.wrap(tiering.ValidatePartName(name))
}

// Consumers lists named consumers.
func (c *Client) Consumers(ctx context.Context) ([]tiering.Consumer, error) {
	out, err := fetch[items[tiering.Consumer]](ctx, c, newCall("list consumers", http.MethodGet, "/v1/consumers", "", ""))
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// Consumer returns one.
func (c *Client) Consumer(ctx context.Context, name string) (*tiering.Consumer, error) {
	r, err := named("consumer", http.MethodGet, name, "")
	if err != nil {
		return nil, err
	}
	return fetch[tiering.Consumer](ctx, c, r)
}

// Acknowledge moves a consumer to an event. It is tried as reads are: a second
// time it changes nothing.
func (c *Client) Acknowledge(ctx context.Context, name, event string) (*tiering.Consumer, error) {
	r, err := named("acknowledge", http.MethodPost, name, "/acknowledge")
	if err == nil {
		err = r.json(map[string]string{"event": event})
	}
	if err != nil {
		return nil, err
	}
	return fetch[tiering.Consumer](ctx, c, r)
}

// DeleteConsumer forgets one.
func (c *Client) DeleteConsumer(ctx context.Context, name string) error {
	r, err := named("delete consumer", http.MethodDelete, name, "")
	if err != nil {
		return err
	}
	_, err = c.do(ctx, r) // a repeated delete finds nothing to do
	return err
}
