package tierd

import (
	"context"

	"github.com/tierd/tierd/internal/memories"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/embed"
	"github.com/tierd/tierd/vector/embed/static"
	"github.com/tierd/tierd/vector/entry"
	"github.com/tierd/tierd/vector/flat"
	"github.com/tierd/tierd/vector/pgvector"
	"github.com/tierd/tierd/vector/text"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
)

// recall is what a node indexes and finds memories with. The zero value is that
// of a warm store that keeps none.
type recall struct {
	index     vector.Index
	entries   *entry.Maker
	embedders *lifecycle.Embedders
	expander  *static.Embedder
	store     warm.Memories
}

// openRecall opens the index of memories over w, and the embedder.
func (t *tiers) openRecall(ctx context.Context, c Config, w warm.Store) (*recall, error) {
	store, ok := warm.As[warm.Memories](w)
	if !ok {
		return &recall{}, nil
	}
	analyzer := &text.Analyzer{}
	r := &recall{store: store, expander: static.New(analyzer)}
	url := c.Embed
	if url == "" {
		url = "static:"
	}
	var err error
	r.embedders, err = lifecycle.NewEmbedders(ctx, store, url, func(url string) (vector.Embedder, error) { return embed.Open(url, analyzer) })
	if err != nil {
		return nil, tiering.Wrap(err, "open", tiering.Vector, tiering.Key{})
	}
	if plan := r.embedders.Plan(ctx); plan.Active != url {
		c.Logger.Warn("the store has vectors of another embedder, and goes on with that: migrate to change it", "configured", url, "in_force", plan.Active)
	}
	r.entries = &entry.Maker{Analyzer: analyzer, Embedder: r.embedders.Current}
	if r.index, err = t.openIndex(ctx, c, w); err != nil {
		return nil, err
	}
	t.closers = append(t.closers, r.index.Close)
	return r, nil
}

// recallConns is how many searches run at once in a shared warm store.
const recallConns = 8

// openIndex opens the index by the scheme of its URL: the default is that of the
// warm store.
func (t *tiers) openIndex(ctx context.Context, c Config, w warm.Store) (vector.Index, error) {
	otherwise := "flat:"
	if t.shared {
		otherwise = "pgvector:"
	}
	name, _ := scheme(c.Vector, otherwise)
	t.drivers.Vector = name
	switch {
	case name == "flat" && t.shared:
		return nil, tiering.Invalidf("flat: is an index in one process, and several daemons may use this warm store: use pgvector:")
	case name == "flat":
		source, _ := memories.Source(w)
		index, err := flat.Open(ctx, source, nil)
		if err != nil {
			return nil, tiering.Wrap(err, "open", tiering.Vector, tiering.Key{})
		}
		return index, nil
	case name == "pgvector":
		database, ok := warm.As[*postgres.Store](w)
		if !ok {
			return nil, tiering.Invalidf("pgvector: is in the warm store's PostgreSQL, and this one is none: use flat:")
		}
		pool, err := database.Pool(ctx, recallConns)
		if err != nil {
			return nil, tiering.Wrap(err, "open", tiering.Vector, tiering.Key{})
		}
		index, err := pgvector.Open(ctx, pool, &pgvector.Options{Clock: c.Clock})
		if err != nil {
			pool.Close()
			return nil, tiering.Wrap(err, "open", tiering.Vector, tiering.Key{})
		}
		return index, nil
	}
	return nil, unknownScheme("vector", c.Vector, "flat: or pgvector:")
}

// ofRouter is r as the request path uses it.
func (r *recall) ofRouter() router.Memories {
	if r.store == nil {
		return router.Memories{}
	}
	return router.Memories{Index: r.index, Entries: r.entries, Embedders: r.embedders, Expander: r.expander}
}

// ofEngine is r as the index worker uses it.
func (r *recall) ofEngine() lifecycle.Memories {
	return lifecycle.Memories{Store: r.store, Index: r.index, Entries: r.entries, Embedders: r.embedders}
}
