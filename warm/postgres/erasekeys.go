package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The phases of an order. No index says who owned a key in the past, and
// changes and results know keys only inside their bytes; so a user's order
// first collects keys, from version rows and then from changes, and every order
// reads all batches and requests and takes the mentions out. One transaction
// reads a window. It keeps the tenant's commits out meanwhile, so that all of
// its batches up to the window's end are there to be read.
//
// The order's row says how far it has come: any daemon goes on with it.
const (
	phaseOwned   int16 = 0 // by version rows; batches counts keys
	phaseChanged int16 = 1 // by changes
	phaseClean   int16 = 2
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
	sub, err := t.subject(o)
	if err != nil {
		return false, err
	}
	switch o.phase {
	case phaseOwned:
		return true, t.collectOwned(o, sub)
	case phaseChanged:
		return true, t.collectChanged(o, sub)
	}
	cleaned, atEnd, err := t.clean(o, sub)
	if err != nil {
		return false, err
	}
	var keys []tiering.Key
	if atEnd {
		if atEnd, err = t.collectHeads(o, sub); err != nil {
			return false, err
		}
	}
	if atEnd {
		if keys, err = t.erasable(o, sub, limit); err != nil {
			return false, err
		}
		for _, k := range keys {
			if err := t.take(o, k); err != nil {
				return false, err
			}
		}
	}
	if cleaned || len(keys) > 0 {
		if err := t.fence(o.seq); err != nil {
			return false, err
		}
	}
	if more = !atEnd || len(keys) >= limit; more {
		return true, nil
	}
	return false, t.erased(o)
}

// subject reads what an order looks for.
func (t *txn) subject(o *order) (*subject, error) {
	sub := newSubject(o.Selector)
	return sub, t.each(`SELECT $2::text, namespace, id FROM erasure_key WHERE erasure = $1`, []any{o.seq, o.Selector.Tenant}, func(row pgx.Rows) error {
		k, err := scanKey(row)
		sub.add(k)
		return err
	})
}

// collect keeps keys that turned out to be the subject's.
func (t *txn) collect(o *order, keys map[tiering.Key]struct{}) error {
	var names []string
	var ids [][]byte
	for k := range keys {
		names, ids = append(names, k.Namespace), append(ids, []byte(k.ID))
	}
	if names == nil {
		return nil
	}
	_, err := t.exec(`INSERT INTO erasure_key (erasure, namespace, id) SELECT $1, t.* FROM unnest($2::text[], $3::bytea[]) t ON CONFLICT DO NOTHING`, o.seq, names, ids)
	return err
}

// ownedWindow finds the keys of which a version row, of keys in ($3, $4], is a
// user's.
const ownedWindow = `SELECT DISTINCT n.tenant, n.name, h.id FROM version v JOIN head h ON h.kid = v.kid JOIN namespace n ON n.nid = h.nid
	WHERE v.kid > $3 AND v.kid <= $4 AND v.owner = $2 AND n.tenant = $1 AND n.name NOT LIKE '\_%'`

// collectOwned looks at a window of keys.
func (t *txn) collectOwned(o *order, sub *subject) error {
	next, err := t.number(`SELECT min(kid) FROM version WHERE kid > $1`, o.batches)
	if err != nil {
		return err
	}
	if next == 0 {
		o.phase, o.batches = phaseChanged, 0
		return nil
	}
	end := next + walkWindow
	met := map[tiering.Key]struct{}{}
	err = t.each(ownedWindow, []any{sub.selector.Tenant, sub.selector.User, o.batches, end}, func(row pgx.Rows) error {
		k, err := scanKey(row)
		met[k] = struct{}{}
		return err
	})
	o.batches = end
	if err != nil {
		return err
	}
	return t.collect(o, met)
}

// collectChanged looks at a window of batches.
func (t *txn) collectChanged(o *order, sub *subject) error {
	met := map[tiering.Key]struct{}{}
	n, err := t.batches(&o.batches, func(_ int64, changes []made, _ []byte) error {
		for i := range changes {
			if c := &changes[i]; sub.selector.Takes(c.Key, c.User) {
				met[c.Key] = struct{}{}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n < eraseWindow {
		o.phase, o.batches = phaseClean, 0
	}
	return t.collect(o, met)
}

// batches reads a window of batches behind at, and moves it.
func (t *txn) batches(at *int64, fn func(seq int64, changes []made, results []byte) error) (n int, err error) {
	err = t.each(`SELECT seq, changes, results FROM batch WHERE seq > $1 ORDER BY seq LIMIT $2`, []any{*at, eraseWindow}, func(row pgx.Rows) error {
		var packed, results []byte
		if err := row.Scan(at, &packed, &results); err != nil {
			return err
		}
		n++
		var changes []made
		if packed != nil {
			var err error
			if changes, err = decodeChanges(packed); err != nil {
				return err
			}
		}
		return fn(*at, changes, results)
	})
	return n, err
}

// headsOf finds the keys whose head is a user's.
const headsOf = `SELECT n.tenant, n.name, h.id FROM namespace n JOIN head h ON h.nid = n.nid
	WHERE n.tenant = $1 AND n.name NOT LIKE '\_%' AND h.owner = $2 AND h.owner <> '' AND h.version > 0`

// collectHeads finds keys that are a user's by now and were not known. Then
// the look for mentions begins anew: there may be some of the time before.
func (t *txn) collectHeads(o *order, sub *subject) (none bool, err error) {
	if sub.selector.User == "" {
		return true, nil
	}
	met := map[tiering.Key]struct{}{}
	err = t.each(headsOf+` AND NOT EXISTS (SELECT 1 FROM erasure_key e WHERE e.erasure = $3 AND e.namespace = n.name AND e.id = h.id) LIMIT $4`,
		[]any{sub.selector.Tenant, sub.selector.User, o.seq, eraseWindow}, func(row pgx.Rows) error {
			k, err := scanKey(row)
			met[k] = struct{}{}
			return err
		})
	if err != nil || len(met) == 0 {
		return true, err
	}
	o.batches, o.requests = 0, 0
	return false, t.collect(o, met)
}

// erasable finds up to limit keys that are to be taken. A user's are all
// collected by now.
func (t *txn) erasable(o *order, sub *subject, limit int) (keys []tiering.Key, err error) {
	if sub.selector.User == "" {
		return selected(t.ctx, t.conn, sub.selector, "", limit)
	}
	err = t.each(`DELETE FROM erasure_key e USING (SELECT namespace, id FROM erasure_key WHERE erasure = $1 ORDER BY namespace, id LIMIT $2) k
		WHERE e.erasure = $1 AND e.namespace = k.namespace AND e.id = k.id RETURNING $3::text, e.namespace, e.id`, []any{o.seq, limit, sub.selector.Tenant}, func(row pgx.Rows) error {
		k, err := scanKey(row)
		keys = append(keys, k)
		return err
	})
	return keys, err
}

// take removes a key, but for its mentions, and counts it.
func (t *txn) take(o *order, key tiering.Key) error {
	f, err := readFootprint(t.ctx, t.conn, key)
	if err != nil || f.empty() {
		return err
	}
	if err := t.raise(key.Tenant, key.Namespace, f.top); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO erasure_segment (erasure, segment) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING`, o.seq, f.segments)
	for _, q := range []string{`DELETE FROM head WHERE kid = $1`, `DELETE FROM version WHERE kid = $1`, `DELETE FROM projection WHERE kid = $1`} {
		b.Queue(q, f.kid)
	}
	b.Queue(`DELETE FROM location WHERE tenant = $1 AND namespace = $2 AND id = $3`, key.Tenant, key.Namespace, []byte(key.ID))
	o.Keys++
	o.Versions += f.versions
	o.Bytes += f.bytes
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
		if _, err := t.exec(insertBatch, micros(t.now), uuid.New(), encodeResults(nil, true), encodeChanges(nil)); err != nil {
			return err
		}
	}
	return nil
}

// sequenceAll gives everything that is visible its place in the feed.
func (t *txn) sequenceAll() error {
	if _, err := t.exec(lockSequencer); err != nil {
		return err
	}
	for {
		if n, err := t.exec(moveOutbox, sequenceStep); err != nil || n == 0 {
			return err
		}
	}
}
