package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/mention"
	"github.com/tierd/tierd/warm/internal/rules"
)

// The phases of an order. No index says who owned a key in the past, and
// changes and results know keys only inside their bytes; so a user's order
// first collects keys, from version rows and heads, and every order reads all
// batches and requests and takes the mentions out. One transaction reads a
// window. It keeps the tenant's commits out meanwhile, so that all of its
// batches up to the window's end are there to be read.
//
// Of a user only what is his is taken on the way: whether a key goes with what
// others had there is known when its head is looked at, in the transaction that
// takes it. A key may have come to another owner by then.
//
// The order's row says how far it has come: any daemon goes on with it.
const (
	phaseOwned int16 = 0 // batches counts keys
	phaseClean int16 = 1
)

// eraseWindow is how many rows of each kind one transaction reads.
const eraseWindow = 2000

// EraseKeys implements warm.Eraser. A call may take no key and say that there
// are more: it has looked for mentions then.
func (s *Store) EraseKeys(ctx context.Context, id string, limit int) (e warm.Erasure, more bool, err error) {
	var pos int64
	err = s.write(ctx, func(t *txn) error {
		more, pos = false, 0
		o, err := t.ownOrder(id)
		if err != nil {
			return err
		}
		if e = o.Erasure; e.Pos > 0 {
			return errRollback
		}
		if _, err := t.exec(lockSpace, s.lockClass+1, tenantLock(o.Selector.Tenant)); err != nil {
			return err
		}
		if more, err = t.erase(&o, max(limit, 1)); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE erasure SET pos = $2, keys = $3, versions = $4, bytes = $5, phase = $6, batches = $7, requests = $8 WHERE seq = $1`,
			o.seq, o.Pos, o.Keys, o.Versions, o.Bytes, o.phase, o.batches, o.requests); err != nil {
			return err
		}
		pos = o.Pos
		o, err = t.ownOrder(id)
		e = o.Erasure
		return err
	})
	if err != nil {
		return warm.Erasure{}, false, err
	}
	s.published(pos)
	return e, more, nil
}

// erase does one step of an order.
func (t *txn) erase(o *order, limit int) (more bool, err error) {
	if o.phase == phaseOwned {
		return true, t.collectOwned(o)
	}
	cleaned, atEnd, err := t.clean(o)
	if err != nil {
		return false, err
	}
	taken := 0
	if atEnd {
		if taken, err = t.takeSome(o, limit); err != nil {
			return false, err
		}
	}
	if cleaned || taken > 0 {
		if err := t.fence(o.seq); err != nil {
			return false, err
		}
	}
	if !atEnd || taken >= limit {
		return true, nil
	}
	return false, t.erased(o)
}

// takeSome takes up to limit keys, whole or in part. Their heads are locked
// before anything of them is read or removed: who moves a key without the
// tenant's lock holds its head until it commits.
func (t *txn) takeSome(o *order, limit int) (taken int, err error) {
	keys, seen, err := t.erasable(o, limit)
	if err != nil {
		return 0, err
	}
	if err := t.ownHeads(keys); err != nil {
		return 0, err
	}
	prints := make([]rules.Footprint, len(keys))
	var drop memoryDrops
	whole := mention.New(warm.Selector{Tenant: o.Selector.Tenant})
	for i, k := range keys {
		if prints[i], err = readFootprint(t.ctx, t.conn, o.Selector, k); err != nil {
			return 0, err
		}
		if prints[i].Whole && !seen[i] {
			whole.Add(k)
		}
		if prints[i].Whole && prints[i].Kid != 0 {
			drop.add(prints[i].Kid, []byte{}, 0)
		}
	}
	if o.Selector.User != "" {
		if err := t.cleanWhole(whole); err != nil {
			return 0, err
		}
	}
	if err := t.dropMemories(&drop); err != nil {
		return 0, err
	}
	for i, k := range keys {
		if err := t.take(o, k, prints[i]); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// ownHeads locks the heads of keys in their order, as every transaction does.
func (t *txn) ownHeads(keys []tiering.Key) error {
	if t.s.seams.looseErase {
		return nil
	}
	keys = slices.SortedFunc(slices.Values(keys), tiering.Key.Compare)
	tenants, names, ids := keyArrays(keys)
	_, err := t.exec(`SELECT 1 FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY t(tenant, name, id, n)
		JOIN namespace s ON s.tenant = t.tenant AND s.name = t.name JOIN head h ON h.nid = s.nid AND h.id = t.id ORDER BY t.n FOR UPDATE OF h`, tenants, names, ids)
	return err
}

// collect keeps keys of which a user's order takes something.
func (t *txn) collect(o *order, keys map[tiering.Key]struct{}, watched bool) error {
	var names []string
	var ids [][]byte
	for k := range keys {
		names, ids = append(names, k.Namespace), append(ids, []byte(k.ID))
	}
	if names == nil {
		return nil
	}
	_, err := t.exec(`INSERT INTO erasure_key (erasure, watched, namespace, id) SELECT $1, $2, t.* FROM unnest($3::text[], $4::bytea[]) t ON CONFLICT DO NOTHING`, o.seq, watched, names, ids)
	return err
}

// ownedWindow finds the keys of which a version row, of keys in ($3, $4], is a
// user's.
const ownedWindow = `SELECT DISTINCT n.tenant, n.name, h.id FROM version v JOIN head h ON h.kid = v.kid JOIN namespace n ON n.nid = h.nid
	WHERE v.kid > $3 AND v.kid <= $4 AND v.owner = $2 AND n.tenant = $1 AND n.name NOT LIKE '\_%'`

// collectOwned looks at a window of keys, and at the end at all heads.
func (t *txn) collectOwned(o *order) error {
	next, err := t.number(`SELECT min(kid) FROM version WHERE kid > $1`, o.batches)
	if err != nil {
		return err
	}
	if next == 0 {
		o.phase, o.batches = phaseClean, 0
		return t.collectHeads(o, true)
	}
	end := next + walkWindow
	met := map[tiering.Key]struct{}{}
	err = t.each(ownedWindow, []any{o.Selector.Tenant, o.Selector.User, o.batches, end}, func(row pgx.Rows) error {
		k, err := scanKey(row)
		met[k] = struct{}{}
		return err
	})
	o.batches = end
	if err != nil {
		return err
	}
	return t.collect(o, met, true)
}

// batches reads a window of batches behind at, and moves it.
func (t *txn) batches(at *int64, fn func(seq int64, changes []made, results []byte) error) (n int, err error) {
	err = t.each(`SELECT seq, changes, results FROM batch WHERE seq > $1 ORDER BY seq LIMIT $2`, []any{*at, eraseWindow}, func(row pgx.Rows) error {
		n++
		return scanBatch(row, at, fn)
	})
	return n, err
}

func scanBatch(row pgx.Rows, seq *int64, fn func(seq int64, changes []made, results []byte) error) error {
	var packed, results []byte
	if err := row.Scan(seq, &packed, &results); err != nil {
		return err
	}
	var changes []made
	if packed != nil {
		var err error
		if changes, err = decodeChanges(packed); err != nil {
			return err
		}
	}
	return fn(*seq, changes, results)
}

// headsOf finds the keys whose head is a user's.
const headsOf = `SELECT n.tenant, n.name, h.id FROM namespace n JOIN head h ON h.nid = n.nid
	WHERE n.tenant = $1 AND n.name NOT LIKE '\_%' AND h.owner = $2 AND h.owner <> '' AND h.version > 0`

// collectHeads keeps the keys that are the user's now.
func (t *txn) collectHeads(o *order, watched bool) error {
	_, err := t.exec(`INSERT INTO erasure_key (erasure, watched, namespace, id) SELECT $3, $4, h.name, h.id FROM (`+headsOf+`) h ON CONFLICT DO NOTHING`,
		o.Selector.Tenant, o.Selector.User, o.seq, watched)
	return err
}

// erasable finds up to limit keys of which something is to be taken. seen says
// that no mention of the key is left but, perhaps, the user's: there was none.
func (t *txn) erasable(o *order, limit int) (keys []tiering.Key, seen []bool, err error) {
	if o.Selector.User == "" {
		keys, err = selected(t.ctx, t.conn, o.Selector, "", limit)
		return keys, make([]bool, len(keys)), err
	}
	if err := t.collectHeads(o, false); err != nil {
		return nil, nil, err
	}
	err = t.each(`DELETE FROM erasure_key e USING (SELECT namespace, id FROM erasure_key WHERE erasure = $1 ORDER BY namespace, id LIMIT $2) k
		WHERE e.erasure = $1 AND e.namespace = k.namespace AND e.id = k.id RETURNING e.namespace, e.id, e.watched AND NOT e.shared`, []any{o.seq, limit}, func(row pgx.Rows) error {
		k := tiering.Key{Tenant: o.Selector.Tenant}
		var id []byte
		var alone bool
		err := row.Scan(&k.Namespace, &id, &alone)
		k.ID = string(id)
		keys, seen = append(keys, k), append(seen, alone)
		return err
	})
	return keys, seen, err
}

// take removes a key, but for its mentions, and counts it. Of a key that stays
// it removes the user's version rows: the locations stay with the others', and
// lose the user's when their segments are rewritten. Its index entry is gone
// already.
func (t *txn) take(o *order, key tiering.Key, f rules.Footprint) error {
	if f.Empty() {
		return nil
	}
	if err := t.raise(key.Tenant, key.Namespace, f.Top); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO erasure_segment (erasure, segment) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING`, o.seq, f.Segments)
	b.Queue(`DELETE FROM version WHERE kid = $1 AND ($2 OR owner = $3)`, f.Kid, f.Whole, o.Selector.User)
	f.Count(&o.Erasure)
	if !f.Whole {
		// It may be of what the user had there.
		b.Queue(emptyProjection+` WHERE p.kid = $1 AND EXISTS (SELECT FROM head h WHERE h.kid = p.kid AND h.flags & 2 = 2 AND p.version IS DISTINCT FROM h.version)`, f.Kid)
	}
	if f.Whole {
		b.Queue(`DELETE FROM head WHERE kid = $1`, f.Kid)
		b.Queue(`DELETE FROM projection WHERE kid = $1`, f.Kid)
		b.Queue(`DELETE FROM location WHERE tenant = $1 AND namespace = $2 AND id = $3`, key.Tenant, key.Namespace, []byte(key.ID))
	}
	return t.conn.SendBatch(t.ctx, b).Close()
}

// erased ends an order's work in warm. Besides the segments that held a key,
// those may hold something of the subject whose locations are gone, and those
// whose writers may have read it: the fenced ones. Everything committed gets
// its place in the feed first: what was taken has none behind Pos.
func (t *txn) erased(o *order) error {
	if _, err := t.exec(`INSERT INTO erasure_segment (erasure, segment) SELECT e.seq, g.name FROM erasure e JOIN segment g ON g.tenant = e.tenant
		WHERE e.seq = $1 AND (g.state = 'deleting' OR g.state = 'started' AND g.fence < e.fence) ON CONFLICT DO NOTHING`, o.seq); err != nil {
		return err
	}
	for range 2 {
		if err := t.sequenceAll(); err != nil {
			return err
		}
		var err error
		if o.Pos, err = t.number(`SELECT last FROM sequencer`); err != nil || o.Pos > 0 {
			return err
		}
		// Nothing was ever committed, as after a rebuild: an entry without
		// changes makes a position.
		if _, err := t.exec(insertBatch, column.Micros(t.now), uuid.New(), encodeResults(nil, true), encodeChanges(nil)); err != nil {
			return err
		}
	}
	return nil
}

// sequenceAll gives everything that is visible its place in the feed.
func (t *txn) sequenceAll() error {
	if _, err := t.exec(lockSequencer, t.s.life()); err != nil {
		return err
	}
	for {
		if n, err := t.exec(moveOutbox, sequenceStep); err != nil || n == 0 {
			return err
		}
	}
}
