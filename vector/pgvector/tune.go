package pgvector

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/vector"
)

// How wide an index has to be searched depends on its vectors: where they lie in
// clusters a fifth of what others need finds as much. So it is measured, on the
// index as it is, against comparing all.
const (
	// tunedFor is how many matches are looked for.
	tunedFor = 10
	// tunedTo is the share of them that has to be found: more than the 0.95 that
	// is promised, for a sample tells it within 0.02. One of tunedBy queries may
	// find nothing: in vectors that lie in clusters, those that miss miss all.
	tunedTo = 0.97
	// tunedBy is how many queries are asked.
	tunedBy = 40
	// mostTuned is above how many memories an index stays as it is tuned: to
	// compare them all takes seconds of a processor by then.
	mostTuned = 400_000
)

// widths are what is tried, the least first.
var widths = []int{40, 60, 80, 100, 140, 200, 300, 400}

// tuning is what was measured on an index. The zero value is nothing.
type tuning struct {
	search   int   // candidates that a search keeps
	memories int64 // how many the namespace had
}

// tuningForm is how a tuning stands in the comment of its index, where every
// daemon and every operator finds it.
const tuningForm = "ef_search %d, measured at %d memories"

func readTuning(comment string) (t tuning) {
	if n, _ := fmt.Sscanf(comment, tuningForm, &t.search, &t.memories); n != 2 {
		return tuning{}
	}
	return t
}

// due reports whether it is time to measure at n memories.
func (t tuning) due(n int64) bool {
	return t.search == 0 || n > 2*t.memories && t.memories*2 < mostTuned || n*2 < t.memories
}

// tune measures one index that is due.
func (x *Index) tune(ctx context.Context, valid map[of]hnsw) (more bool, err error) {
	nids, _ := numbers(valid)
	count := map[int32]int64{}
	if err := x.each(ctx, `SELECT nid, n FROM memory_count WHERE nid = ANY ($1::int[])`, []any{nids}, func(rows pgx.Rows) error {
		var nid int32
		var n int64
		err := rows.Scan(&nid, &n)
		count[nid] = n
		return err
	}); err != nil {
		return false, err
	}
	for o, is := range valid {
		if !is.due(count[o.nid]) {
			continue
		}
		is.search, is.memories = x.opts.Search, max(1, count[o.nid])
		if is.memories <= mostTuned {
			if is.search, err = x.measure(ctx, o, is.dims); err != nil {
				return false, err
			}
		}
		err = x.alone(ctx, fmt.Sprintf(`COMMENT ON INDEX `+nameOf(o, is.dims)+` IS '`+tuningForm+`'`, is.search, is.memories))
		if code(err) == "42P01" { // another daemon dropped it
			err = nil
		}
		x.lookAgain()
		return err == nil, err
	}
	return false, nil
}

// measure returns the least width that finds enough. The queries lie beside a
// vector each, towards another: those of a user are none of the vectors either,
// and one that is would find itself with the links that it was given.
func (x *Index) measure(ctx context.Context, o of, dims int) (wide int, err error) {
	var sample [][]float32
	if err := x.each(ctx, `SELECT v.v::real[] FROM memory_vector v WHERE `+x.condition(o, dims, "v.")+` ORDER BY hashint8(v.kid) LIMIT $1`, []any{2 * tunedBy}, func(rows pgx.Rows) error {
		var v []float32
		err := rows.Scan(&v)
		sample = append(sample, v)
		return err
	}); err != nil {
		return 0, err
	}
	var asked []search
	var best [][]vector.Hit
	for ; len(sample) >= 2; sample = sample[2:] {
		q := sample[0]
		for i, f := range sample[1] {
			q[i] += f / 4
		}
		if q = vector.Normalise(q); q == nil {
			continue
		}
		s := search{scope: vector.Scope{Superseded: true}, of: o, q: q, limit: tunedFor}
		hits, err := x.exact(ctx, s)
		if err != nil {
			return 0, err
		}
		if len(hits) > 0 {
			asked, best = append(asked, s), append(best, hits)
		}
	}
	for _, wide = range widths {
		found, all := 0, 0
		for i, s := range asked {
			hits, err := x.through(ctx, s, wide)
			if err != nil {
				return 0, err
			}
			for _, h := range hits {
				if h.Score >= best[i][len(best[i])-1].Score-1e-6 {
					found++
				}
			}
			all += len(best[i])
		}
		if float64(found) >= tunedTo*float64(all) {
			break
		}
	}
	return wide, nil
}
