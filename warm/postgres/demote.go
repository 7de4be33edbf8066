package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/rules"
)

// Demote implements warm.Mover.
func (s *Store) Demote(ctx context.Context, key tiering.Key, version int64, idle time.Time) (bool, error) {
	done, err := s.DemoteAll(ctx, []warm.Demotion{{Key: key, Version: version, Idle: idle}})
	return err == nil && done[0], err
}

// DemoteAll implements warm.Mover: a handful of statements, however many keys.
func (s *Store) DemoteAll(ctx context.Context, of []warm.Demotion) (done []bool, err error) {
	if len(of) == 0 {
		return nil, ctx.Err()
	}
	err = s.write(ctx, func(t *txn) error {
		done = make([]bool, len(of))
		d, err := t.demotable(of)
		if err == nil && len(d.kids) > 0 {
			err = t.held(&d)
		}
		if err != nil || len(d.kids) == 0 {
			return orRollback(err)
		}
		if err := t.demote(&d); err != nil {
			return err
		}
		for _, at := range d.at {
			done[at] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// demotions are rows to demote: where they were asked for, and what they are.
type demotions struct {
	at             []int
	keys           []tiering.Key
	kids, versions []int64
	queries        []bool
}

// demotable locks the heads, in key order as every transaction does, and returns
// those that still stand as they were when they were looked at.
func (t *txn) demotable(of []warm.Demotion) (d demotions, err error) {
	order := make([]int, len(of))
	for i := range of {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return of[a].Key.Compare(of[b].Key) })
	keys := make([]tiering.Key, len(of))
	for i, at := range order {
		keys[i] = of[at].Key
	}
	tenants, names, ids := keyArrays(keys)
	err = t.each(`SELECT t.i, `+headColumns+` FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY t(tenant, name, key, i)
		JOIN namespace n ON n.tenant = t.tenant AND n.name = t.name JOIN head h ON h.nid = n.nid AND h.id = t.key AND h.version > 0 ORDER BY t.i FOR UPDATE OF h`,
		[]any{tenants, names, ids}, func(row pgx.Rows) error {
			var i int64
			var scanned headRow
			if err := row.Scan(append([]any{&i}, scanned.into()...)...); err != nil {
				return err
			}
			at := order[i-1]
			asked, e := of[at], scanned.entry(keys[i-1])
			if !rules.Demotable(e.head, asked, t.now) {
				return nil
			}
			d.at, d.keys, d.kids = append(d.at, at), append(d.keys, keys[i-1]), append(d.kids, e.kid)
			d.versions, d.queries = append(d.versions, asked.Version), append(d.queries, e.query)
			return nil
		})
	return d, err
}

// held keeps those versions that a finished segment with two verified copies
// holds: the only thing that lets bytes leave warm.
func (t *txn) held(d *demotions) error {
	tenants, names, ids := keyArrays(d.keys)
	var kept demotions
	err := t.each(`SELECT t.i FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY t(tenant, name, id, version, i)
		WHERE EXISTS (SELECT 1 FROM location l JOIN segment g ON g.name = l.segment
			WHERE l.tenant = t.tenant AND l.namespace = t.name AND l.id = t.id AND t.version BETWEEN l.min_version AND l.max_version
			AND g.state = 'finished' AND g.copy0 = 'verified' AND g.copy1 = 'verified')`,
		[]any{tenants, names, ids, d.versions}, func(row pgx.Rows) error {
			var n int64
			if err := row.Scan(&n); err != nil {
				return err
			}
			i := n - 1
			kept.at, kept.keys, kept.kids = append(kept.at, d.at[i]), append(kept.keys, d.keys[i]), append(kept.kids, d.kids[i])
			kept.versions, kept.queries = append(kept.versions, d.versions[i]), append(kept.queries, d.queries[i])
			return nil
		})
	*d = kept
	return err
}

// demote drops the bytes. Documents stay queryable where their rows asked for it:
// what has no projection of its version keeps its bytes in the projection's place.
func (t *txn) demote(d *demotions) error {
	asleep, err := t.memoriesOf(d.kids)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	// Nobody waits for it, and a crash that takes it back loses nothing: the bytes are
	// in warm again.
	b.Queue(`SET LOCAL synchronous_commit = off`)
	if slices.Contains(d.queries, true) {
		b.Queue(`INSERT INTO projection AS p (kid, nid, version, coding, body) SELECT v.kid, h.nid, v.version, v.coding, v.body
			FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) t(kid, version, query) JOIN version v ON v.kid = t.kid AND v.version = t.version JOIN head h ON h.kid = t.kid WHERE t.query
			ON CONFLICT (kid) DO UPDATE SET version = excluded.version, coding = excluded.coding, body = excluded.body, doc = NULL WHERE p.doc IS NULL OR p.version IS DISTINCT FROM excluded.version`, d.kids, d.versions, d.queries)
	}
	b.Queue(`DELETE FROM version v USING unnest($1::bigint[], $2::bigint[]) t(kid, version) WHERE v.kid = t.kid AND v.version = t.version`, d.kids, d.versions)
	if len(asleep) > 0 {
		t.s.queueSleep(b, asleep)
	}
	b.Queue(`UPDATE head SET flags = flags & 5 WHERE kid = ANY($1)`, d.kids)
	return t.conn.SendBatch(t.ctx, b).Close()
}
