package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/entry"
	"github.com/tierd/tierd/vector/lexical"
	"github.com/tierd/tierd/vector/rank"
	"github.com/tierd/tierd/warm"
)

// Memories is what a router indexes and finds memories with. The zero value
// keeps none.
type Memories struct {
	Index vector.Index
	// Entries makes what the index keeps of a memory, when it is written.
	Entries *entry.Maker
	// Embedders tells whose vectors are searched by text; nil: nobody's.
	Embedders Embedders
	// Expander knows words of like meaning; nil: none.
	Expander lexical.Expander
	Rank     rank.Options
}

// Embedders knows the embedder whose vectors recall searches by text, and those
// that may take its place.
type Embedders interface {
	// Own is the URL that this daemon is configured with.
	Own() string
	// Plan returns the URLs that the store names.
	Plan(ctx context.Context) warm.Embedding
	// Open returns the embedder of a URL.
	Open(url string) (vector.Embedder, error)
	// Migrate makes url the one that is to take over.
	Migrate(ctx context.Context, url string) error
	// Searched returns it, nil for none; an error where this daemon cannot embed
	// in the space of the vectors that are there.
	Searched(ctx context.Context) (vector.Embedder, error)
}

// The bounds of a recall.
const (
	defaultRecall = 10
	recallDepth   = 100  // of the answer at first
	recallGrowth  = 8    // times that, while too few of what was found may be answered
	recallKeys    = 2000 // what a filter lets through, up to which the arms look at it alone
	maxNamespaces = 100
)

// Recall finds memories by meaning and by words.
func (r *Router) Recall(ctx context.Context, q *tiering.Recall) (*tiering.Recalled, error) {
	began := time.Now()
	out, err := r.recall(ctx, orZero(q), nil)
	r.Recorder.Load(tiering.Vector, time.Since(began), err)
	return out, tiering.Wrap(err, "recall", "", tiering.Key{})
}

// recall searches. of, which may be nil, says whose memories may be read.
func (r *Router) recall(ctx context.Context, q tiering.Recall, of func(owner string) bool) (*tiering.Recalled, error) {
	if err := checkRecall(&q); err != nil {
		return nil, err
	}
	if _, err := r.memories(); err != nil {
		return nil, err
	}
	s, err := r.recallScope(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &tiering.Recalled{Matches: []tiering.Match{}}
	if len(s.Namespaces) == 0 {
		return out, nil
	}
	filter, err := warm.ParseFilterOf(q.Filter, "metadata")
	if err != nil {
		return nil, err
	}
	if filter != nil {
		if s.Keys, err = r.filtered(ctx, s, filter); err != nil {
			return nil, err
		}
	}
	a, err := r.newArms(ctx, q, s)
	if err != nil {
		return nil, err
	}
	out.Partial, out.Reason = a.partial(), strings.Join(a.missing, "; ")
	for depth := recallDepth; ; depth *= recallGrowth {
		found, more, err := a.search(ctx, depth)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Vector, tiering.Key{})
		}
		if of != nil {
			found = slices.DeleteFunc(found, func(f ranked) bool { return !of(f.hit.User) })
		}
		lost := 0
		if out.Matches, lost, err = r.readMatches(ctx, found, q.K, filter); err != nil {
			return nil, err
		}
		if lost > 0 {
			out.Partial = true
			out.Reason = strings.Join(append(a.missing, fmt.Sprintf("%d memories could not be read from cold", lost)), "; ")
		}
		if len(out.Matches) == q.K || !more {
			return out, nil
		}
	}
}

// checkRecall refuses what cannot be searched for, and fills in defaults.
func checkRecall(q *tiering.Recall) error {
	if q.K == 0 {
		q.K = defaultRecall
	}
	switch {
	case len(q.Namespaces) == 0 || len(q.Namespaces) > maxNamespaces:
		return tiering.Unprocessablef("/namespaces", "%d namespaces: use 1 to %d", len(q.Namespaces), maxNamespaces)
	case q.K < 0 || q.K > tiering.MaxRecall:
		return tiering.Unprocessablef("/k", "k is %d: use 1 to %d", q.K, tiering.MaxRecall)
	case strings.TrimSpace(q.Query) == "" && q.Embedding == nil:
		return tiering.Unprocessablef("/query", "a recall needs a query or an embedding")
	case len(q.Query) > tiering.MaxMemoryText:
		return tiering.Unprocessablef("/query", "the query is %d bytes long: use at most %d", len(q.Query), tiering.MaxMemoryText)
	case !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until):
		return tiering.Unprocessablef("/until", "until does not lie behind since")
	}
	if err := checkTypes(q.Types); err != nil {
		return err
	}
	switch q.Mode {
	case "":
		q.Mode = tiering.RecallHybrid
	case tiering.RecallHybrid, tiering.RecallVector:
	case tiering.RecallLexical:
		if strings.TrimSpace(q.Query) == "" {
			return tiering.Unprocessablef("/query", "a lexical recall needs a query")
		}
	default:
		return tiering.Unprocessablef("/mode", "unknown mode %q: use hybrid, vector or lexical", q.Mode)
	}
	return (tiering.MemoryBody{Text: "t", Embedding: q.Embedding}).Validate()
}

// checkTypes refuses what is no type of a memory.
func checkTypes(types []tiering.MemoryType) error {
	for i, t := range types {
		if t == "" {
			return tiering.Unprocessablef(fmt.Sprintf("/types/%d", i), "a type is fact, knowledge, event or experience")
		}
		if err := (tiering.MemoryBody{Text: "t", Type: t}).Validate(); err != nil {
			return tiering.Unprocessablef(fmt.Sprintf("/types/%d", i), "%s", tiering.DetailOf(err))
		}
	}
	return nil
}

// recallScope is where the principal may look. A namespace that nobody made
// holds nothing.
func (r *Router) recallScope(ctx context.Context, q tiering.Recall) (vector.Scope, error) {
	s := vector.Scope{Tenant: r.who.Tenant, Prefixes: r.who.Scope.Prefixes, Agent: q.Agent, App: q.App, Session: q.Session,
		Types: q.Types, Since: q.Since, Until: q.Until, Superseded: q.Superseded}
	seen := map[string]bool{}
	for _, ns := range q.Namespaces {
		if err := r.admitNamespace(tiering.VerbRead, ns); err != nil {
			return s, err
		}
		p, err := r.policyOf(ctx, r.who.Tenant, ns)
		if err != nil {
			return s, err
		}
		if !p.known || seen[ns] {
			continue
		}
		if err := memoriesOnly(ns, p); err != nil {
			return s, err
		}
		seen[ns] = true
		s.Namespaces = append(s.Namespaces, ns)
	}
	var err error
	s.User, err = r.ownerOf(q.User)
	return s, err
}

// filtered returns the keys that a filter lets through, if they are few: then
// the arms look at nothing else. Otherwise nil: what they find is filtered, and
// there is enough of it.
func (r *Router) filtered(ctx context.Context, s vector.Scope, filter *warm.Filter) ([]tiering.Key, error) {
	keys := []tiering.Key{}
	for _, ns := range s.Namespaces {
		p, err := r.policyOf(ctx, s.Tenant, ns)
		if err != nil {
			return nil, err
		}
		if !*p.Query {
			return nil, nil
		}
		q := warm.Query{Tenant: s.Tenant, Namespace: ns, Prefixes: s.Prefixes, User: s.User, Filter: filter, Limit: maxLimit}
		for {
			rows, next, err := r.Warm.Query(ctx, q)
			if err != nil {
				return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
			}
			for _, cur := range rows {
				keys = append(keys, cur.Head.Key)
			}
			if len(keys) > recallKeys {
				return nil, nil
			}
			if next == "" {
				break
			}
			q.Cursor = next
		}
	}
	return keys, nil
}

// readMatches reads what was found, best first, until k of it may be answered.
// What was forgotten, or does not pass the filter, takes no place. lost counts
// what could not be read.
func (r *Router) readMatches(ctx context.Context, found []ranked, k int, filter *warm.Filter) (out []tiering.Match, lost int, err error) {
	out = []tiering.Match{}
	for len(found) > 0 && len(out) < k {
		n := min(len(found), max(k-len(out), 16))
		read := make([]*tiering.Match, n)
		failed := make([]bool, n)
		var g errgroup.Group
		g.SetLimit(batchParallel)
		for i, f := range found[:n] {
			g.Go(func() error {
				m, err := r.readMatch(ctx, f, filter)
				read[i], failed[i] = m, errors.Is(err, tiering.ErrUnavailable) && ctx.Err() == nil
				if failed[i] {
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, 0, err
		}
		for i, m := range read {
			if failed[i] {
				lost++
			}
			if m != nil && len(out) < k {
				out = append(out, *m)
			}
		}
		found = found[n:]
	}
	return out, lost, nil
}

// readMatch reads one memory; nil when it does not stand any more as it was
// found, or the filter does not let it through.
func (r *Router) readMatch(ctx context.Context, f ranked, filter *warm.Filter) (*tiering.Match, error) {
	d, err := r.get(ctx, f.hit.Key.Namespace, f.hit.Key.ID, tiering.GetOptions{MinVersion: f.hit.Version, NoDefault: true})
	switch code := tiering.CodeOf(err); {
	case code == tiering.CodeNotFound || code == tiering.CodeVersionConflict || code == tiering.CodeForbidden:
		return nil, nil
	case err != nil:
		return nil, err
	case d.Version != f.hit.Version:
		return nil, nil // written since: what it says now was not what was found
	}
	if filter != nil {
		if ok, err := filter.Match(d.Body); err != nil || !ok {
			return nil, err
		}
	}
	m, err := memoryOf(d.Meta, d.Body)
	if err != nil {
		return nil, err
	}
	m.IndexStatus = tiering.IndexIndexed
	if f.score.VectorRank == 0 {
		m.IndexStatus = ""
	}
	return &tiering.Match{Memory: *m, Tier: d.Tier, Score: f.score}, nil
}
