package router

import (
	"context"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// dropPage is how many vectors are removed in one statement.
const dropPage = 1000

// Embedding says whose vectors recall searches, and how far a change is.
func (r *Router) Embedding(ctx context.Context) (*tiering.EmbeddingStatus, error) {
	s, err := r.embedding(ctx)
	return s, tiering.Wrap(err, "embedding", tiering.Vector, tiering.Key{})
}

func (r *Router) embedding(ctx context.Context) (*tiering.EmbeddingStatus, error) {
	if err := r.operator(); err != nil {
		return nil, err
	}
	store, err := r.memories()
	if err != nil {
		return nil, err
	}
	plan := r.Memories.Embedders.Plan(ctx)
	out := &tiering.EmbeddingStatus{Active: plan.Active, Target: plan.Target, Configured: r.Memories.Embedders.Own(), Spaces: []tiering.EmbeddedSpace{}}
	active, err := r.spaceOf(plan.Active)
	if err != nil {
		out.Problem = tiering.DetailOf(err)
	}
	target, err := r.spaceOf(plan.Target)
	if err != nil && out.Problem == "" {
		out.Problem = tiering.DetailOf(err)
	}
	spaces, err := store.Spaces(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	for _, s := range spaces {
		use := "idle"
		switch {
		case s.Space == active:
			use = "active"
		case s.Space == target:
			use = "target"
		case strings.HasPrefix(s.Space, "own:"):
			use = "own"
		}
		out.Spaces = append(out.Spaces, tiering.EmbeddedSpace{Space: s.Space, Vectors: s.Count, Use: use})
	}
	stats, err := r.Memories.Index.Stats(ctx)
	out.Memories = stats.Memories
	return out, err
}

// spaceOf is the space of the embedder of a URL; "" while it is not known.
func (r *core) spaceOf(url string) (string, error) {
	if url == "" {
		return "", nil
	}
	e, err := r.Memories.Embedders.Open(url)
	if err != nil {
		return "", err
	}
	return e.Space().ID(), nil
}

// MigrateEmbedding begins to make the vectors of another embedder.
func (r *Router) MigrateEmbedding(ctx context.Context, to string) (*tiering.EmbeddingStatus, error) {
	err := r.migrateEmbedding(ctx, to)
	if err != nil {
		return nil, tiering.Wrap(err, "migrate embedding", tiering.Vector, tiering.Key{})
	}
	return r.Embedding(ctx)
}

func (r *Router) migrateEmbedding(ctx context.Context, to string) error {
	if err := r.operator(); err != nil {
		return err
	}
	if _, err := r.memories(); err != nil {
		return err
	}
	if to == "" {
		return tiering.Unprocessablef("/embedder", "name the embedder to change to, such as static: or openai+https://HOST/v1?model=NAME")
	}
	return r.Memories.Embedders.Migrate(ctx, to)
}

// DropVectors removes the vectors of a space that nobody searches.
func (r *Router) DropVectors(ctx context.Context, space string) (int64, error) {
	n, err := r.dropVectors(ctx, space)
	return n, tiering.Wrap(err, "drop vectors", tiering.Vector, tiering.Key{})
}

func (r *Router) dropVectors(ctx context.Context, space string) (dropped int64, err error) {
	s, err := r.embedding(ctx)
	if err != nil {
		return 0, err
	}
	if s.Problem != "" {
		return 0, tiering.Errorf(tiering.CodeUnavailable, "whose vectors are searched cannot be told now: %s", s.Problem)
	}
	use := ""
	for _, one := range s.Spaces {
		if one.Space == space {
			use = one.Use
		}
	}
	switch use {
	case "":
		return 0, tiering.Errorf(tiering.CodeNotFound, "there are no vectors of a space %q", space)
	case "active", "target":
		return 0, tiering.Errorf(tiering.CodeWrongKind, "the space %q is in use: change the embedder first", space)
	case "own":
		return 0, tiering.Errorf(tiering.CodeWrongKind, "the vectors of space %q are callers' own: nobody could make them again", space)
	}
	store, err := r.memories()
	if err != nil {
		return 0, err
	}
	for {
		n, err := store.DropSpace(ctx, space, dropPage)
		dropped += int64(n)
		if err != nil {
			return dropped, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		if n == 0 {
			return dropped, r.Memories.Index.Forget(ctx)
		}
	}
}
