package sqlite

import (
	"bytes"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// recall returns the stored result of a request, ok false when it is new. A
// request with another hash is a Mismatch.
func (t *txn) recall(i *warm.Idempotency) (stored []byte, same, ok bool, err error) {
	row, ok, err := t.one(`SELECT hash, result FROM idempotency WHERE tenant = ? AND key = ?`, i.Tenant, []byte(i.Key))
	if err != nil || !ok {
		return nil, false, false, err
	}
	return blob(row[1]), bytes.Equal(blob(row[0]), i.Hash[:]), true, nil
}

// remember keeps the result of a request.
func (t *txn) remember(i *warm.Idempotency, result []byte) error {
	t.wrote = true
	_, err := t.exec(`INSERT INTO idempotency (at, tenant, key, hash, result) VALUES (?, ?, ?, ?, ?)`,
		column.Micros(t.now), i.Tenant, []byte(i.Key), i.Hash[:], result)
	return err
}

// replay fills results and reports true when any of rows is known: then the
// change is not applied, and the rows that are new have to come again.
func (t *txn) replay(rows []warm.Row, results []warm.Result) (known bool, err error) {
	for i := range rows {
		results[i] = warm.Result{Status: warm.Again}
		idem := rows[i].Idempotency
		if idem == nil {
			continue
		}
		stored, same, ok, err := t.recall(idem)
		switch {
		case err != nil:
			return false, err
		case !ok:
			continue
		case !same:
			results[i] = warm.Result{Status: warm.Mismatch}
		default:
			if results[i], err = decodeResult(stored); err != nil {
				return false, err
			}
			results[i].Status = warm.Replayed
		}
		known = true
	}
	return known, nil
}

// once keeps the result of a row that was carried out.
func (t *txn) once(i *warm.Idempotency, r warm.Result) error {
	r.Answer = i.Answer
	return t.remember(i, encodeResult(r))
}

// onceAll keeps the results of a whole transaction.
func (t *txn) onceAll(i *warm.Idempotency, results [][]warm.Result) error {
	return t.remember(i, encodeResults(rules.Remembered(i, results), false))
}

// replayAll is replay for a transaction that one request covers. A known one
// has one result at least, which says whether it was the same request.
func (t *txn) replayAll(i *warm.Idempotency) (results [][]warm.Result, known bool, err error) {
	if i == nil {
		return nil, false, nil
	}
	stored, same, ok, err := t.recall(i)
	switch {
	case err != nil || !ok:
		return nil, false, err
	case !same:
		return [][]warm.Result{{{Status: warm.Mismatch}}}, true, nil
	}
	if results, err = decodeResults(stored, nil); err != nil {
		return nil, false, err
	}
	return rules.Replayed(results), true, nil
}
