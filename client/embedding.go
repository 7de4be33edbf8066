package client

import (
	"context"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// Embedding says whose vectors recall searches, and how far a change is.
func (c *Client) Embedding(ctx context.Context) (*tiering.EmbeddingStatus, error) {
	return fetch[tiering.EmbeddingStatus](ctx, c, newCall("embedding", http.MethodGet, "/v1/embedding", "", ""))
}

// MigrateEmbedding begins to make the vectors of another embedder.
func (c *Client) MigrateEmbedding(ctx context.Context, to string) (*tiering.EmbeddingStatus, error) {
	r := newCall("migrate embedding", http.MethodPut, "/v1/embedding", "", "")
	if err := r.json(map[string]string{"embedder": to}); err != nil {
		return nil, err
	}
	return fetch[tiering.EmbeddingStatus](ctx, c, r)
}

// DropVectors removes the vectors of a space that nobody searches.
func (c *Client) DropVectors(ctx context.Context, space string) (int64, error) {
	r := newCall("drop vectors", http.MethodDelete, "/v1/embedding", "", "")
	r.query.Set("space", space)
	out, err := fetch[struct {
		Dropped int64 `json:"dropped"`
	}](ctx, c, r)
	if err != nil {
		return 0, err
	}
	return out.Dropped, nil
}
