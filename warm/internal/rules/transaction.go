package rules

import (
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// ApplyAll has apply carry out the changes of a transaction, by their index, one after
// the other; of a key that is not locked it takes none. ok is false when a row of any
// failed; the others are still evaluated, so that all results say something.
func ApplyAll(locked []tiering.Key, changes []warm.Change, apply func(i int) ([]warm.Result, error)) (results [][]warm.Result, ok bool, err error) {
	allowed := make(map[tiering.Key]bool, len(locked))
	for _, k := range locked {
		allowed[k] = true
	}
	results, ok = make([][]warm.Result, len(changes)), true
	for i := range changes {
		if !allowed[changes[i].Key] {
			return nil, false, tiering.Invalidf("an atomic change of %s, which was not locked", changes[i].Key)
		}
		if results[i], err = apply(i); err != nil {
			return nil, false, err
		}
		for _, r := range results[i] {
			ok = ok && (r.Status == warm.Done || r.Status == warm.NoChange)
		}
	}
	return results, ok, nil
}

// Remembered are the results of a transaction as the request that covers it keeps them:
// each with the request's answer, and one at least. decide may have filled in the answer
// by then.
func Remembered(i *warm.Idempotency, results [][]warm.Result) [][]warm.Result {
	kept := make([][]warm.Result, len(results))
	for c := range results {
		kept[c] = append([]warm.Result(nil), results[c]...)
		for r := range kept[c] {
			kept[c][r].Answer = i.Answer
		}
	}
	if len(kept) == 0 {
		kept = [][]warm.Result{{{Answer: i.Answer}}}
	}
	return kept
}

// Replayed marks what Remembered kept as the results of a request that came again.
func Replayed(kept [][]warm.Result) [][]warm.Result {
	for c := range kept {
		for r := range kept[c] {
			kept[c][r].Status = warm.Replayed
		}
	}
	return kept
}
