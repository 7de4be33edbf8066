// Package pgvector is an index of memories inside the warm tier's PostgreSQL:
// vectors in columns of pgvector, terms in a GIN index. Any number of daemons
// search it.
//
// New vectors lie in memory_fresh, which has no index of vectors and is searched
// one by one. Where a namespace has few in a space that is all. Where it has
// many, background work moves them to memory_vector, on which the namespace has
// an HNSW index of its own; so a search in one never wades through another's.
// The index is of half vectors, and what it finds is put in order by the whole
// ones. What is idle lies in memory_dormant, in half the size.
//
// Which way a search goes is decided here and not by the planner, which knows
// nothing of what an HNSW scan costs behind a filter. How wide a search through
// an index has to be is measured on it (see tune).
package pgvector

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/vector"
)

// Options shape an Index. The zero value works.
type Options struct {
	// Clock, for tests, is what memories expire by; nil: the server's.
	Clock func() time.Time
	// ExactUpTo is how many vectors that filters let through are compared one by
	// one, although there is an index; 0: 2,000.
	ExactUpTo int
	// IndexFrom is from how many vectors on a namespace has an index of its own
	// in a space; 0: 2,500.
	IndexFrom int
	// Search is hnsw.ef_search, how many candidates a search keeps: one with a
	// filter at least, and one in an index that was not tuned yet; 0: 100. It is
	// raised for more matches.
	Search int
}

// Index is a vector.Index. It is safe for concurrent use.
type Index struct {
	pool   *pgxpool.Pool
	walks  *pgxpool.Pool // for searches through indexes; nil behind a pooler, which knows no settings of a session
	opts   Options
	schema string            // where pgvector lies, quoted
	names  *strings.Replacer // of what lies there
	known  known
}

var _ vector.Index = (*Index)(nil)

// Open searches the memories of the store that pool leads to: a pool of package
// warm/postgres, which the index closes.
func Open(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Index, error) {
	x := &Index{pool: pool}
	if o != nil {
		x.opts = *o
	}
	for _, d := range []struct {
		to        *int
		otherwise int
	}{{&x.opts.ExactUpTo, 2000}, {&x.opts.IndexFrom, 2500}, {&x.opts.Search, 100}} {
		if *d.to <= 0 {
			*d.to = d.otherwise
		}
	}
	var schema string
	err := pool.QueryRow(ctx, `SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`).Scan(&schema)
	if err != nil {
		return nil, fmt.Errorf("look for pgvector in the database: %w", err)
	}
	x.schema = pgx.Identifier{schema}.Sanitize()
	x.names = strings.NewReplacer("{{vector}}", x.schema+".vector", "{{halfvec}}", x.schema+".halfvec", "{{near}}", "OPERATOR("+x.schema+".<=>)",
		"{{dims}}", x.schema+".vector_dims", "{{schema}}", x.schema)
	config := pool.Config()
	if pooled(config.ConnConfig) {
		return x, nil
	}
	maps.Copy(config.ConnConfig.RuntimeParams, walking)
	if x.walks, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	return x, nil
}

// pooled reports whether a pooler hands out a connection a transaction, as
// package warm/postgres tells by the same sign.
func pooled(c *pgx.ConnConfig) bool { return c.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement }

// Close implements vector.Index.
func (x *Index) Close() error {
	if x.walks != nil {
		x.walks.Close()
	}
	x.pool.Close()
	return nil
}

// sql puts the schema of pgvector into a statement: it need not be in the search
// path. {{near}} is the operator of cosine distance.
func (x *Index) sql(text string) string { return x.names.Replace(text) }

// now is the clock in a statement.
func (x *Index) now(a *args) string {
	if x.opts.Clock == nil {
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	}
	return a.add(x.opts.Clock().UTC().UnixMicro()) + "::bigint"
}

// args are the parameters of a statement.
type args struct{ values []any }

// add returns the place of a parameter.
func (a *args) add(v any) string {
	a.values = append(a.values, v)
	return "$" + strconv.Itoa(len(a.values))
}

// mostKnown is how many numbers of namespaces, and of spaces, are kept.
const mostKnown = 10_000

// known are numbers that were looked up. Those of namespaces and spaces stay
// true; which indexes there are is looked at again now and then.
type known struct {
	mu     sync.Mutex
	nids   map[[2]string]int32
	sids   map[string]int32
	hnsw   map[of]hnsw
	looked time.Time
}

// of names the vectors of a namespace in a space.
type of struct{ nid, sid int32 }

// place is a namespace of a scope.
type place struct {
	nid  int32
	name string
}

// places returns a scope's namespaces, each once; those that are not there have
// none.
func (x *Index) places(ctx context.Context, s vector.Scope) (out []place, err error) {
	var missing []string
	seen := map[string]bool{}
	x.known.mu.Lock()
	for _, name := range s.Namespaces {
		if nid := x.known.nids[[2]string{s.Tenant, name}]; nid != 0 && !seen[name] {
			out = append(out, place{nid, name})
		} else if !seen[name] {
			missing = append(missing, name)
		}
		seen[name] = true
	}
	x.known.mu.Unlock()
	if missing == nil {
		return out, nil
	}
	rows, err := x.pool.Query(ctx, `SELECT name, nid FROM namespace WHERE tenant = $1 AND name = ANY ($2::text[]) AND kind = 'memory'`, s.Tenant, missing)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.name, &p.nid); err != nil {
			return nil, err
		}
		x.known.mu.Lock()
		x.known.nids = noted(x.known.nids, [2]string{s.Tenant, p.name}, p.nid)
		x.known.mu.Unlock()
		out = append(out, p)
	}
	return out, rows.Err()
}

// sid returns the number of a space, 0 for one that nobody has a vector in.
func (x *Index) sid(ctx context.Context, space string) (sid int32, err error) {
	x.known.mu.Lock()
	sid = x.known.sids[space]
	x.known.mu.Unlock()
	if sid != 0 {
		return sid, nil
	}
	err = x.pool.QueryRow(ctx, `SELECT coalesce((SELECT sid FROM memory_space WHERE name = $1), 0)`, space).Scan(&sid)
	if err != nil || sid == 0 {
		return 0, err
	}
	x.known.mu.Lock()
	defer x.known.mu.Unlock()
	x.known.sids = noted(x.known.sids, space, sid)
	return sid, nil
}

// noted is m with a number more; one that is full begins again.
func noted[K comparable](m map[K]int32, k K, n int32) map[K]int32 {
	if m == nil || len(m) >= mostKnown {
		m = map[K]int32{}
	}
	m[k] = n
	return m
}
