package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/mention"
)

// needle is what every stored mention of the subject holds, nil when there is
// no such thing: of a user others' mentions of his keys are looked at too.
func needle(s *mention.Subject) []byte {
	if s.Selector.User != "" {
		return nil
	}
	return []byte(s.Selector.ID + s.Selector.Prefix)
}

// blank encodes a batch's results for its feed entry, with nothing but the
// outcome of those that mention the subject.
func blank(s *mention.Subject, all [][]warm.Result) []byte {
	var e column.Encoder
	e.Byte(codecForm)
	e.Blanked(all, s.InResult)
	return e.B
}

// rewritten is a row with its new content.
type rewritten struct {
	row              int64
	changes, results []byte
}

// cleanFeed takes the mentions of sub out of the feed entries in (after, to].
// The entries stay, without changes if need be, so that positions have no
// gaps. A look, if there is one, learns of the keys.
func (t *txn) cleanFeed(sub *mention.Subject, after, to int64, l *mention.Look) (cleaned bool, err error) {
	var todo []rewritten
	needle := needle(sub)
	err = t.each(context.Background(), `SELECT pos, changes, results FROM feed WHERE pos > ?1 AND pos <= ?2
		AND (?3 IS NULL OR instr(changes, ?3) > 0 OR instr(results, ?3) > 0)`, []any{after, to, orNull(needle)}, func(v []driver.Value) error {
		changes, err := decodeChanges(blob(v[1]))
		if err != nil {
			return err
		}
		results, err := decodeResults(blob(v[2]), changes)
		if err != nil {
			return err
		}
		kept := make([]warm.FeedChange, 0, len(changes))
		for i := range changes {
			if !l.Takes(sub, &changes[i]) {
				kept = append(kept, changes[i])
			}
		}
		l.Results(results)
		if len(kept) < len(changes) || sub.InResults(results) {
			todo = append(todo, rewritten{row: num(v[0]), changes: encodeChanges(kept), results: blank(sub, results)})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, r := range todo {
		if _, err := t.exec(`UPDATE feed SET changes = ?, results = ? WHERE pos = ?`, r.changes, r.results, r.row); err != nil {
			return false, err
		}
	}
	return len(todo) > 0, nil
}

// cleanSettled blanks the mentions of sub in batches without a feed entry.
func (t *txn) cleanSettled(sub *mention.Subject, after, to int64, l *mention.Look) (cleaned bool, err error) {
	var todo []rewritten
	err = t.each(context.Background(), `SELECT seq, results FROM settled WHERE seq > ? AND seq <= ? AND results IS NOT NULL`, []any{after, to},
		func(v []driver.Value) error {
			results, err := decodeResults(blob(v[1]), nil)
			if err != nil {
				return err
			}
			if sub.InResults(results) {
				todo = append(todo, rewritten{row: num(v[0]), results: blank(sub, results)})
			}
			l.Results(results)
			return nil
		})
	if err != nil {
		return false, err
	}
	for _, r := range todo {
		if _, err := t.exec(`UPDATE settled SET results = ? WHERE seq = ?`, r.results, r.row); err != nil {
			return false, err
		}
	}
	return len(todo) > 0, nil
}

// requestsIn reads a window. The plus keeps the index on tenant out of it, which
// a tenant's whole day would be read from.
const requestsIn = `SELECT seq, result FROM idempotency WHERE seq > ? AND seq <= ? AND +tenant = ?`

// cleanIdempotency drops the rows whose results mention sub: such a request,
// sent once more, is a new one.
func (t *txn) cleanIdempotency(sub *mention.Subject, after, to int64, l *mention.Look) (cleaned bool, err error) {
	var todo []int64
	err = t.each(context.Background(), requestsIn, []any{after, to, sub.Selector.Tenant}, func(v []driver.Value) error {
		results, err := decodeStored(blob(v[1]))
		if err != nil || sub.InResults(results) {
			todo = append(todo, num(v[0])) // what can not be read may hold anything
			return nil
		}
		l.Results(results)
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, seq := range todo {
		if _, err := t.exec(`DELETE FROM idempotency WHERE seq = ?`, seq); err != nil {
			return false, err
		}
	}
	return len(todo) > 0, nil
}

// decodeStored reads the results of an idempotency row: those of a
// transaction, or one. The results of one never decode as those of a
// transaction: they would be empty, with bytes left over.
func decodeStored(b []byte) ([][]warm.Result, error) {
	if all, err := decodeResults(b, nil); err == nil {
		return all, nil
	}
	r, err := decodeResult(b)
	return [][]warm.Result{{r}}, err
}

// orNull binds an empty blob as NULL.
func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
