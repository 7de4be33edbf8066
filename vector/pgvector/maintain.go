package pgvector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tierd/tierd/internal/longstatement"
	"github.com/tierd/tierd/vector"
)

const (
	// lookEvery is for how long what is known of indexes counts.
	lookEvery = 2 * time.Second
	// foldStep is how many changes of counts one transaction folds.
	foldStep = 2000
	// mergeStep is how many vectors one transaction puts into an HNSW index: at
	// some 500 a second, so few that a writer of one of them hardly waits.
	mergeStep = 64
	// moveStep is how many it moves where there is no index yet.
	moveStep = 1000
	// maxIndexes is how many namespaces have an index, the largest first: every
	// insert into the table looks at the condition of each.
	maxIndexes = 256
	// mostDims is how many dimensions HNSW takes of half vectors.
	mostDims = 4000
)

// hnsw is an index. The zero value is none.
type hnsw struct {
	dims int
	tuning
}

// An index is named by what it is of: namespace, space, dimensions. Of those of
// whole vectors, which there were once, none is of use.
var indexName = regexp.MustCompile(`^memory_half_(\d+)_(\d+)_(\d+)$`)

func nameOf(o of, dims int) string { return fmt.Sprintf("memory_half_%d_%d_%d", o.nid, o.sid, dims) }

// condition is that of vectors of a namespace in a space, word by word the same
// for an index and for a search through it.
func (x *Index) condition(o of, dims int, table string) string {
	return x.sql(fmt.Sprintf(`%snid = %d AND %ssid = %d AND {{dims}}(%sv) = %d`, table, o.nid, table, o.sid, table, dims))
}

// indexedColumn is what an index is of: half vectors, of which a page holds twice
// as many.
func (x *Index) indexedColumn(dims int, column string) string {
	return x.sql(fmt.Sprintf(`((%s::{{vector}})::{{halfvec}}(%d))`, column, dims))
}

// indexed returns the index of a namespace in a space.
func (x *Index) indexed(ctx context.Context, o of) (hnsw, error) {
	x.known.mu.Lock()
	is, fresh := x.known.hnsw[o], time.Since(x.known.looked) < lookEvery
	x.known.mu.Unlock()
	if fresh {
		return is, nil
	}
	valid, _, err := x.indexes(ctx)
	return valid[o], err
}

const theIndexes = `SELECT c.relname, i.indisvalid, coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE i.indrelid = 'memory_vector'::regclass AND c.relname ~ '^memory_(half|hnsw)_'`

// indexes looks which indexes there are; broken are those that a build left
// that died, or that is under way.
func (x *Index) indexes(ctx context.Context) (valid map[of]hnsw, broken []string, err error) {
	valid = map[of]hnsw{}
	err = x.each(ctx, theIndexes, nil, func(rows pgx.Rows) error {
		var name, tuned string
		var ok bool
		if err := rows.Scan(&name, &ok, &tuned); err != nil {
			return err
		}
		m := indexName.FindStringSubmatch(name)
		if m == nil || !ok {
			broken = append(broken, name)
			return nil
		}
		nid, _ := strconv.Atoi(m[1]) // digits, as the expression says
		sid, _ := strconv.Atoi(m[2])
		dims, _ := strconv.Atoi(m[3])
		valid[of{int32(nid), int32(sid)}] = hnsw{dims, readTuning(tuned)}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	x.known.mu.Lock()
	defer x.known.mu.Unlock()
	x.known.hnsw, x.known.looked = valid, time.Now()
	return valid, broken, nil
}

// Maintain implements vector.Index: it folds counts, drops the indexes of what
// shrank, builds those that large namespaces lack, merges what is fresh into
// them and measures how wide they have to be searched. It is for one daemon at a time; two do no harm.
func (x *Index) Maintain(ctx context.Context) (more bool, err error) {
	if more, err = x.fold(ctx); err != nil || more {
		return more, err
	}
	valid, broken, err := x.indexes(ctx)
	if err != nil {
		return false, err
	}
	if len(broken) > 0 {
		if done, err := x.mend(ctx); err != nil || !done {
			return false, err
		}
		return true, nil
	}
	for _, look := range []func(context.Context, map[of]hnsw) (bool, error){x.dropSpare, x.buildMissing} {
		if more, err := look(ctx, valid); err != nil || more {
			return more, err
		}
	}
	for o := range valid {
		n, err := x.merge(ctx, o, mergeStep)
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return x.tune(ctx, valid)
}

const foldCounts = `WITH gone AS (DELETE FROM memory_delta WHERE seq IN (SELECT seq FROM memory_delta ORDER BY seq LIMIT $1) RETURNING nid, length, sign, tids),
	c AS (INSERT INTO memory_count AS t (nid, n, length) SELECT nid, sum(sign), sum(sign * length) FROM gone GROUP BY nid
		ON CONFLICT (nid) DO UPDATE SET n = t.n + excluded.n, length = t.length + excluded.length),
	f AS (INSERT INTO memory_frequency AS t (tid, nid, n) SELECT u.tid, g.nid, sum(g.sign) FROM gone g, unnest(g.tids) u(tid) GROUP BY u.tid, g.nid HAVING sum(g.sign) <> 0 ORDER BY u.tid
		ON CONFLICT (tid) DO UPDATE SET n = t.n + excluded.n RETURNING tid, n)
	SELECT (SELECT count(*) FROM gone), ARRAY(SELECT tid FROM f WHERE n <= 0)`

// fold adds changes to the counts. Whoever does holds a lock, so that one does.
func (x *Index) fold(ctx context.Context) (more bool, err error) {
	err = pgx.BeginFunc(ctx, x.pool, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtext('tierd.memories.' || current_schema()), 0)`).Scan(&mine); err != nil || !mine {
			return err
		}
		var n int
		var none []int64
		if err := tx.QueryRow(ctx, foldCounts, foldStep).Scan(&n, &none); err != nil {
			return err
		}
		more = n == foldStep
		if len(none) == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, `DELETE FROM memory_frequency WHERE tid = ANY ($1::bigint[]) AND n <= 0`, none)
		return err
	})
	return more && err == nil, err
}

// group is many vectors of a namespace in a space.
type group struct {
	of
	dims int
}

// theMissing are the groups that should have an index, those of the largest
// namespaces first. Namespaces are told by their counts, spaces are skipped
// through, and no more vectors are counted than make a group large: it is asked
// before every merge.
const theMissing = `WITH RECURSIVE g (nid, n, sid) AS (
		SELECT c.nid, c.n, least((SELECT min(v.sid) FROM memory_fresh v WHERE v.nid = c.nid), (SELECT min(v.sid) FROM memory_vector v WHERE v.nid = c.nid)) FROM memory_count c WHERE c.n >= $1
		UNION ALL SELECT g.nid, g.n, least((SELECT min(v.sid) FROM memory_fresh v WHERE v.nid = g.nid AND v.sid > g.sid), (SELECT min(v.sid) FROM memory_vector v WHERE v.nid = g.nid AND v.sid > g.sid))
			FROM g WHERE g.sid IS NOT NULL)
	SELECT g.nid, g.sid, x.dims FROM g,
		LATERAL (SELECT count(*) AS n FROM (SELECT FROM memory_fresh WHERE nid = g.nid AND sid = g.sid UNION ALL SELECT FROM memory_vector WHERE nid = g.nid AND sid = g.sid LIMIT $1) v) v,
		LATERAL (SELECT {{dims}}(v.v) AS dims FROM (SELECT v FROM memory_fresh WHERE nid = g.nid AND sid = g.sid UNION ALL SELECT v FROM memory_vector WHERE nid = g.nid AND sid = g.sid) v LIMIT 1) x
	WHERE g.sid IS NOT NULL AND (g.nid, g.sid) NOT IN (SELECT * FROM unnest($4::int[], $5::int[])) AND v.n >= $1 AND x.dims <= $2 ORDER BY g.n DESC LIMIT $3`

// buildMissing builds an index that a large group lacks.
func (x *Index) buildMissing(ctx context.Context, valid map[of]hnsw) (built bool, err error) {
	if len(valid) >= maxIndexes {
		return false, nil
	}
	var missing []group
	nids, sids := numbers(valid)
	if err := x.each(ctx, x.sql(theMissing), []any{x.opts.IndexFrom, mostDims, 1, nids, sids}, func(rows pgx.Rows) error {
		var g group
		err := rows.Scan(&g.nid, &g.sid, &g.dims)
		missing = append(missing, g)
		return err
	}); err != nil || len(missing) == 0 {
		return false, err
	}
	return true, x.build(ctx, missing[0])
}

// theSpare are groups whose namespace has fewer memories than half of what makes
// it large, or that have no vector any more.
const theSpare = `SELECT t.nid, t.sid FROM unnest($2::int[], $3::int[]) t(nid, sid) LEFT JOIN memory_count c ON c.nid = t.nid WHERE coalesce(c.n, 0) * 2 < $1
	OR NOT EXISTS (SELECT FROM memory_fresh v WHERE v.nid = t.nid AND v.sid = t.sid) AND NOT EXISTS (SELECT FROM memory_vector v WHERE v.nid = t.nid AND v.sid = t.sid)`

// dropSpare drops the indexes that nobody needs any more; what is left of their
// vectors is compared one by one.
func (x *Index) dropSpare(ctx context.Context, valid map[of]hnsw) (dropped bool, err error) {
	var names []string
	nids, sids := numbers(valid)
	if err := x.each(ctx, theSpare, []any{x.opts.IndexFrom, nids, sids}, func(rows pgx.Rows) error {
		var o of
		err := rows.Scan(&o.nid, &o.sid)
		names = append(names, nameOf(o, valid[o].dims))
		return err
	}); err != nil {
		return false, err
	}
	return len(names) > 0, x.drop(ctx, names)
}

// numbers are those of groups, by column.
func numbers(groups map[of]hnsw) (nids, sids []int32) {
	for o := range groups {
		nids, sids = append(nids, o.nid), append(sids, o.sid)
	}
	return nids, sids
}

// build moves a group's vectors together and makes their index, which no writer
// waits for.
func (x *Index) build(ctx context.Context, g group) error {
	for {
		n, err := x.merge(ctx, g.of, moveStep)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	err := x.alone(ctx, `CREATE INDEX CONCURRENTLY `+nameOf(g.of, g.dims)+` ON memory_vector USING hnsw (`+x.indexedColumn(g.dims, "v")+` `+x.schema+`.halfvec_cosine_ops) WHERE `+x.condition(g.of, g.dims, ""))
	if code(err) == "42P07" { // another daemon builds it
		return nil
	}
	x.lookAgain()
	if err != nil {
		return err
	}
	// What moved left as many entries behind, which every search would step over.
	return x.alone(ctx, `VACUUM (TRUNCATE false) memory_fresh`)
}

// lookAgain forgets which indexes there are.
func (x *Index) lookAgain() {
	x.known.mu.Lock()
	defer x.known.mu.Unlock()
	x.known.looked = time.Time{}
}

// mend drops what a build left that died; done is false while one is under way.
func (x *Index) mend(ctx context.Context) (done bool, err error) {
	var busy bool
	if err := x.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = 'memory_vector'::regclass)`).Scan(&busy); err != nil || busy {
		return false, err
	}
	_, broken, err := x.indexes(ctx) // asked only now: until here a build may have ended well
	if err != nil {
		return false, err
	}
	return true, x.drop(ctx, broken)
}

// drop drops indexes, which no search waits for.
func (x *Index) drop(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := x.alone(ctx, `DROP INDEX CONCURRENTLY IF EXISTS `+pgx.Identifier{name}.Sanitize()); err != nil {
			return err
		}
		x.lookAgain()
	}
	return nil
}

// alone runs a statement on a connection of its own, outside of a transaction
// and for as long as it takes while the server is at work for it.
func (x *Index) alone(ctx context.Context, text string) error {
	return longstatement.Run(ctx, x.lonely(), longstatement.Every, func(ctx context.Context, name string) (at longstatement.Sight, err error) {
		err = x.pool.QueryRow(ctx, longstatement.Look, name).Scan(&at.There, &at.Working)
		return at, err
	}, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	})
}

// lonely is how alone connects. Settings are made with the session: one that a
// pooler hands on keeps none of them, and has the server's own.
func (x *Index) lonely() *pgx.ConnConfig {
	config := x.pool.Config().ConnConfig.Copy()
	delete(config.RuntimeParams, "statement_timeout")
	config.DialFunc = new(net.Dialer).DialContext // that of the pool bounds answers
	if !pooled(config) {
		config.RuntimeParams["maintenance_work_mem"] = "256MB"
	}
	return config
}

// merge moves up to limit fresh vectors of a group to where its index is. Their
// memories are locked, so that nobody who writes one misses its vector.
func (x *Index) merge(ctx context.Context, o of, limit int) (n int64, err error) {
	err = pgx.BeginFunc(ctx, x.pool, func(tx pgx.Tx) error {
		var kids []int64
		rows, err := tx.Query(ctx, `SELECT m.kid FROM memory m WHERE m.kid IN (SELECT kid FROM memory_fresh WHERE nid = $1 AND sid = $2 LIMIT $3) ORDER BY m.kid FOR UPDATE SKIP LOCKED`, o.nid, o.sid, limit)
		if err != nil {
			return err
		}
		if err := drain(rows, func(rows pgx.Rows) error {
			var kid int64
			err := rows.Scan(&kid)
			kids = append(kids, kid)
			return err
		}); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `WITH m AS (DELETE FROM memory_fresh WHERE sid = $1 AND kid = ANY ($2::bigint[]) RETURNING kid, sid, nid, owner, v)
			INSERT INTO memory_vector (kid, sid, nid, owner, v) SELECT kid, sid, nid, owner, v FROM m ON CONFLICT (kid, sid) DO UPDATE SET v = excluded.v, owner = excluded.owner`, o.sid, kids)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Forget implements vector.Index: hashes of terms that nobody has any more go
// with the counts.
func (x *Index) Forget(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = x.fold(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stats implements vector.Index.
func (x *Index) Stats(ctx context.Context) (st vector.Stats, err error) {
	valid, _, err := x.indexes(ctx)
	if err != nil {
		return st, err
	}
	nids, sids := numbers(valid)
	err = x.pool.QueryRow(ctx, `SELECT (SELECT coalesce(sum(n), 0) FROM memory_count)::bigint + (SELECT coalesce(sum(sign), 0) FROM memory_delta),
		(SELECT count(*) FROM memory_fresh) + (SELECT count(*) FROM memory_vector), (SELECT count(*) FROM memory_dormant),
		(SELECT count(*) FROM unnest($1::int[], $2::int[]) t(nid, sid) JOIN memory_fresh f ON f.nid = t.nid AND f.sid = t.sid)`, nids, sids).Scan(&st.Memories, &st.Vectors, &st.Dormant, &st.Fresh)
	st.Vectors += st.Dormant
	return st, err
}
