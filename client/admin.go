package client

import (
	"context"
	"net/http"
	"time"

	"github.com/tierd/tierd/tiering"
)

// items is the shape of a list that has no pages.
type items[T any] struct {
	Items []T `json:"items"`
}

// Namespaces lists the tenant's namespaces.
func (c *Client) Namespaces(ctx context.Context) ([]tiering.NamespaceInfo, error) {
	out, err := fetch[items[tiering.NamespaceInfo]](ctx, c, newCall("list namespaces", http.MethodGet, "/v1/namespaces", "", ""))
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// Namespace returns one namespace with the policy in force.
func (c *Client) Namespace(ctx context.Context, ns string) (*tiering.NamespaceInfo, error) {
	r, err := spaced("get namespace", http.MethodGet, "/v1/namespaces", ns)
	if err != nil {
		return nil, err
	}
	return fetch[tiering.NamespaceInfo](ctx, c, r)
}

// SetNamespace creates or replaces a policy.
func (c *Client) SetNamespace(ctx context.Context, ns string, p tiering.Policy, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	r, err := spaced("set namespace", http.MethodPut, "/v1/namespaces", ns)
	if err != nil {
		return nil, err
	}
	if err := r.json(p); err != nil {
		return nil, err
	}
	return c.namespace(ctx, r, o)
}

// PatchNamespace applies a merge patch to a policy.
func (c *Client) PatchNamespace(ctx context.Context, ns string, patch []byte, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	r, err := spaced("patch namespace", http.MethodPatch, "/v1/namespaces", ns)
	if err != nil {
		return nil, err
	}
	r.carry(string(tiering.MergePatch), patch)
	return c.namespace(ctx, r, o)
}

// DeleteNamespace removes an empty namespace.
func (c *Client) DeleteNamespace(ctx context.Context, ns string, o *tiering.WriteOptions) error {
	r, err := spaced("delete namespace", http.MethodDelete, "/v1/namespaces", ns)
	if err != nil {
		return err
	}
	_, err = c.guarded(ctx, r, o, nil)
	return err
}

func (c *Client) namespace(ctx context.Context, r *call, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	var out tiering.NamespaceInfo
	if _, err := c.guarded(ctx, r, o, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// CreateKey makes an API key; its secret is in the answer and nowhere else. It
// is tried once: a node keeps no secret that it could answer a second time.
func (c *Client) CreateKey(ctx context.Context, k tiering.APIKey) (*tiering.APIKey, error) {
	r := newCall("create key", http.MethodPost, "/v1/keys", "", "")
	body := struct {
		Name      string        `json:"name,omitempty"`
		Scope     tiering.Scope `json:"scope,omitzero"`
		ExpiresAt time.Time     `json:"expires_at,omitzero"`
	}{k.Name, k.Scope, k.ExpiresAt}
	if err := r.json(body); err != nil {
		return nil, err
	}
	r.write = true
	return fetch[tiering.APIKey](ctx, c, r)
}

// APIKeys lists the tenant's API keys, without their secrets.
func (c *Client) APIKeys(ctx context.Context) ([]tiering.APIKey, error) {
	out, err := fetch[items[tiering.APIKey]](ctx, c, newCall("list keys", http.MethodGet, "/v1/keys", "", ""))
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// RevokeKey makes an API key worthless. It is tried once.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	r := newCall("revoke key", http.MethodDelete, "/v1/keys/"+escape(id), "", "")
	if err := tiering.ValidateID(id); err != nil {
		return r.wrap(err)
	}
	r.write = true
	_, err := c.do(ctx, r)
	return err
}

// Status returns the state of the node.
func (c *Client) Status(ctx context.Context) (*tiering.NodeStatus, error) {
	return fetch[tiering.NodeStatus](ctx, c, newCall("status", http.MethodGet, "/v1/status", "", ""))
}

// Ready returns nil when the node can serve, and unavailable with the reason
// when it cannot. It takes no API key, and is tried as other reads are.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, newCall("ready", http.MethodGet, "/readyz", "", ""))
	return err
}
