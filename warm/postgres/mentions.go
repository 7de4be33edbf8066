package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/mention"
)

// blank encodes a batch's results with nothing but the outcome of those that
// mention the subject.
func blank(s *mention.Subject, all [][]warm.Result) []byte {
	var e column.Encoder
	e.Byte(formResults)
	e.Blanked(all, s.InResult)
	return e.B
}

// startLook prepares to learn, for a user's order.
func (t *txn) startLook(o *order) (*mention.Look, error) {
	if o.Selector.User == "" {
		return nil, nil
	}
	l := mention.NewLook(o.Selector)
	return l, t.each(`SELECT $2::text, namespace, id FROM erasure_key WHERE erasure = $1 AND watched`, []any{o.seq, o.Selector.Tenant}, func(row pgx.Rows) error {
		k, err := scanKey(row)
		l.Watched.Add(k)
		return err
	})
}

// endLook keeps what was learned.
func (t *txn) endLook(o *order, l *mention.Look) error {
	if l == nil {
		return nil
	}
	if err := t.collect(o, l.Met, false); err != nil || len(l.Shared) == 0 {
		return err
	}
	ids := make([][]byte, 0, len(l.Shared))
	for id := range l.Shared {
		ids = append(ids, []byte(id))
	}
	_, err := t.exec(`UPDATE erasure_key SET shared = true WHERE erasure = $1 AND id = ANY($2::bytea[]) AND NOT shared`, o.seq, ids)
	return err
}

// clean takes the mentions of an order's subject out of a window of batches
// and of one of requests. atEnd says that there is nothing behind.
func (t *txn) clean(o *order) (cleaned, atEnd bool, err error) {
	sub := mention.New(o.Selector)
	l, err := t.startLook(o)
	if err != nil {
		return false, false, err
	}
	w := &rewrites{sub: sub, look: l}
	n, err := t.batches(&o.batches, w.batch)
	if err != nil {
		return false, false, err
	}
	if err := t.rewrite(w); err != nil {
		return false, false, err
	}
	asked := 0
	err = t.each(`SELECT seq, tenant, result FROM request WHERE seq > $1 ORDER BY seq LIMIT $2`, []any{o.requests, eraseWindow}, func(row pgx.Rows) error {
		asked++
		var err error
		o.requests, err = w.request(row)
		return err
	})
	if err != nil {
		return false, false, err
	}
	if err := t.forget(w); err != nil {
		return false, false, err
	}
	return len(w.seqs)+len(w.requests) > 0, n < eraseWindow && asked < eraseWindow, t.endLook(o, l)
}

// cleanWhole takes what is left to mention those of a user's keys that go
// whole: what others had there. The server picks out what may.
func (t *txn) cleanWhole(whole *mention.Subject) error {
	if len(whole.Keys) == 0 {
		return nil
	}
	ids := make([][]byte, 0, len(whole.IDs))
	for id := range whole.IDs {
		ids = append(ids, []byte(id))
	}
	w := &rewrites{sub: whole}
	err := t.each(`SELECT b.seq, b.changes, b.results FROM batch b WHERE EXISTS (SELECT 1 FROM unnest($1::bytea[]) n WHERE position(n IN b.changes) > 0 OR position(n IN b.results) > 0)`,
		[]any{ids}, func(row pgx.Rows) error {
			var seq int64
			return scanBatch(row, &seq, w.batch)
		})
	if err != nil {
		return err
	}
	if err := t.rewrite(w); err != nil {
		return err
	}
	// An answer may write an id in another way, so requests are all read.
	err = t.each(`SELECT seq, tenant, result FROM request WHERE tenant = $1`, []any{whole.Selector.Tenant}, func(row pgx.Rows) error {
		_, err := w.request(row)
		return err
	})
	if err != nil {
		return err
	}
	return t.forget(w)
}

// rewrites are the rows that mention sub, as they are to be.
type rewrites struct {
	sub              *mention.Subject
	look             *mention.Look
	seqs             []int64
	changes, results [][]byte
	requests         []int64
}

// batch looks into a batch. Its changes stay, without any if need be, so that
// the feed's positions have no gaps.
func (w *rewrites) batch(seq int64, all []made, stored []byte) error {
	if stored == nil {
		return nil // a batch that never was
	}
	answers, err := decodeResults(stored, all)
	if err != nil {
		return err
	}
	kept := make([]warm.FeedChange, 0, len(all))
	for i := range all {
		if c := &all[i].FeedChange; !w.look.Takes(w.sub, c) {
			kept = append(kept, *c)
		}
	}
	w.look.Results(answers)
	if len(kept) == len(all) && !w.sub.InResults(answers) {
		return nil
	}
	var packed []byte
	if all != nil {
		packed = encodeChanges(kept)
	}
	w.seqs, w.changes, w.results = append(w.seqs, seq), append(w.changes, packed), append(w.results, blank(w.sub, answers))
	return nil
}

// request looks into a request. One whose results mention sub, or can not be
// read, is dropped: sent once more, it is a new one.
func (w *rewrites) request(row pgx.Rows) (seq int64, err error) {
	var tenant string
	var result []byte
	if err := row.Scan(&seq, &tenant, &result); err != nil || tenant != w.sub.Selector.Tenant {
		return seq, err
	}
	if answers, err := decodeStored(result); err == nil && !w.sub.InResults(answers) {
		w.look.Results(answers)
	} else {
		w.requests = append(w.requests, seq)
	}
	return seq, nil
}

func (t *txn) rewrite(w *rewrites) error {
	if w.seqs == nil {
		return nil
	}
	_, err := t.exec(`UPDATE batch b SET changes = t.changes, results = t.results FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) t(seq, changes, results) WHERE b.seq = t.seq`,
		w.seqs, w.changes, w.results)
	return err
}

func (t *txn) forget(w *rewrites) error {
	if w.requests == nil {
		return nil
	}
	_, err := t.exec(`DELETE FROM request WHERE seq = ANY($1::bigint[])`, w.requests)
	return err
}
