package router

import (
	"context"
	"errors"
	"slices"

	"github.com/tierd/tierd/tiering"
)

// defaultDepth is how many links far a walk goes unless it is told.
const defaultDepth = 2

// Walk follows links from a memory, nearest first. Cycles end.
func (r *Router) Walk(ctx context.Context, ns, id string, o *tiering.WalkOptions) (*tiering.Graph, error) {
	g, err := r.walk(ctx, ns, id, orZero(o))
	return g, tiering.Wrap(err, "walk", "", r.key(ns, id))
}

func (r *Router) walk(ctx context.Context, ns, id string, o tiering.WalkOptions) (*tiering.Graph, error) {
	if o.Depth == 0 {
		o.Depth = defaultDepth
	}
	if o.Depth < 0 || o.Depth > tiering.MaxWalkDepth {
		return nil, tiering.Invalidf("depth %d: use 1 to %d", o.Depth, tiering.MaxWalkDepth)
	}
	limit, err := pageLimit(o.Limit)
	if err != nil {
		return nil, err
	}
	store, err := r.memories()
	if err != nil {
		return nil, err
	}
	start, err := r.memory(ctx, ns, id)
	if err != nil {
		return nil, err
	}
	g := &tiering.Graph{Nodes: []tiering.GraphNode{{Memory: *start}}, Edges: []tiering.GraphEdge{}}
	reached, nowhere := map[string]bool{id: true}, map[string]bool{}
	at := []string{id}
	for depth := 1; depth <= o.Depth && len(at) > 0; depth++ {
		links, err := store.Linked(ctx, r.who.Tenant, ns, at, false)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		at = nil
		for _, l := range links {
			if o.Relation != "" && l.Relation != o.Relation {
				continue
			}
			if nowhere[l.To] || !reached[l.To] && g.Truncated {
				continue
			}
			if !reached[l.To] {
				if len(nowhere) == maxLimit {
					g.Truncated = true
					continue
				}
				m, err := r.memory(ctx, ns, l.To)
				if hidden(err) {
					nowhere[l.To] = true
					continue
				}
				if err != nil {
					return nil, err
				}
				if len(g.Nodes) == limit { // known only now: a link that leads nowhere cuts nothing off
					g.Truncated = true
					continue
				}
				reached[l.To] = true
				g.Nodes = append(g.Nodes, tiering.GraphNode{Memory: *m, Depth: depth})
				at = append(at, l.To)
			}
			g.Edges = append(g.Edges, tiering.GraphEdge{From: l.From, Link: l.Link})
		}
		slices.Sort(at)
	}
	return g, nil
}

// hidden reports whether a memory that a link leads to is not there, or not for
// the caller to see: the link then leads nowhere.
func hidden(err error) bool {
	return errors.Is(err, tiering.ErrNotFound) || tiering.CodeOf(err) == tiering.CodeForbidden
}
