package pgvector

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/memoryhash"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/lexical"
)

// budget is how many memories are scored at first. Rare terms come first: what
// has none of them can seldom be among the best, and where it can, more are
// scored.
const budget = 4000

// Words implements vector.Index.
func (x *Index) Words(ctx context.Context, s vector.Scope, q lexical.Query, limit int) ([]vector.Hit, error) {
	if limit <= 0 || len(q.Terms) == 0 {
		return nil, ctx.Err()
	}
	places, err := x.places(ctx, s)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	vocabulary := q.Vocabulary()
	stats, counts, err := x.frequencies(ctx, places, vocabulary)
	if err != nil {
		return nil, err
	}
	df := make(map[string]int64, len(vocabulary))
	for i, t := range vocabulary {
		df[t] = counts[i]
	}
	plan := q.Plan(stats, func(t string) int64 { return df[t] }, lexical.Options{})
	terms := plan.Terms()
	order := make([]int, len(terms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(df[terms[a]], df[terms[b]]) })
	for most := int64(budget); ; most *= 5 {
		n := 0
		for sum := int64(0); n < len(order); n++ {
			if sum += df[terms[order[n]]]; sum > most && n > 0 {
				break
			}
		}
		hits, err := x.score(ctx, s, places, plan, order[:n], limit)
		if err != nil || n == len(order) || len(hits) == limit && (hits[limit-1].Score >= plan.Upper(order[n:]...) || most > budget) {
			return hits, err
		}
	}
}

// score scores the memories that have any of the terms with these numbers.
func (x *Index) score(ctx context.Context, s vector.Scope, places []place, plan *lexical.Plan, some []int, limit int) (out []vector.Hit, err error) {
	if len(some) == 0 {
		return nil, nil
	}
	terms := plan.Terms()
	for _, p := range places {
		number := make(map[int64]int, len(terms))
		for i, t := range terms {
			number[memoryhash.Of(p.nid, memoryhash.Term, t)] = i
		}
		tids := make([]int64, len(some))
		for i, t := range some {
			tids[i] = memoryhash.Of(p.nid, memoryhash.Term, terms[t])
		}
		var a args
		within := x.within(&a, s, p)
		var found []lexical.Hit
		var of []int64
		var freqs []int32
		err := x.each(ctx, `SELECT `+hitColumns+`, m.length, m.tids, m.freqs FROM live_memory m WHERE `+within+` AND m.tids && `+a.add(tids)+`::bigint[]`, a.values, func(rows pgx.Rows) error {
			var r hitRow
			var length int
			if err := rows.Scan(append(r.into(), &length, &of, &freqs)...); err != nil {
				return err
			}
			found = found[:0]
			for i, f := range freqs {
				if n, ok := number[of[i]]; ok {
					found = append(found, lexical.Hit{Term: n, Freq: int(f)})
				}
			}
			if score := plan.Score(found, length); score > 0 {
				out = append(out, r.result(s.Tenant, p, score))
			}
			if len(out) >= 4*limit+1000 {
				out = best(out, limit)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return best(out, limit), nil
}

// Frequencies implements vector.Index.
func (x *Index) Frequencies(ctx context.Context, s vector.Scope, terms []string) (lexical.Stats, []int64, error) {
	places, err := x.places(ctx, s)
	if err != nil {
		return lexical.Stats{}, nil, err
	}
	return x.frequencies(ctx, places, terms)
}

// readCounts are what was counted and every change since, of one state of the
// store. The first row is of the memories, the others of hashes.
const readCounts = `SELECT 0::bigint, coalesce(sum(n), 0)::bigint, coalesce(sum(length), 0)::bigint FROM (SELECT n, length FROM memory_count WHERE nid = ANY ($1::int[])
		UNION ALL SELECT sign, sign * length FROM memory_delta WHERE nid = ANY ($1::int[])) c
	UNION ALL SELECT tid, sum(n)::bigint, 0 FROM (SELECT tid, n FROM memory_frequency WHERE tid = ANY ($2::bigint[])
		UNION ALL SELECT u.tid, d.sign FROM memory_delta d, unnest(d.tids) u(tid) WHERE d.nid = ANY ($1::int[]) AND u.tid = ANY ($2::bigint[])) f GROUP BY tid`

func (x *Index) frequencies(ctx context.Context, places []place, terms []string) (stats lexical.Stats, counts []int64, err error) {
	counts = make([]int64, len(terms))
	if len(places) == 0 {
		return stats, counts, nil
	}
	of := make(map[int64]int, len(terms)*len(places))
	tids := make([]int64, 0, len(terms)*len(places))
	nids := make([]int32, 0, len(places))
	for _, p := range places {
		nids = append(nids, p.nid)
		for i, t := range terms {
			h := memoryhash.Of(p.nid, memoryhash.Term, t)
			if _, twice := of[h]; !twice {
				of[h], tids = i, append(tids, h)
			}
		}
	}
	first := true
	err = x.each(ctx, readCounts, []any{nids, tids}, func(rows pgx.Rows) error {
		var h, n, length int64
		err := rows.Scan(&h, &n, &length)
		if first {
			first, stats = false, lexical.Stats{Documents: n, TotalLength: length}
		} else {
			counts[of[h]] += n
		}
		return err
	})
	return stats, counts, err
}
