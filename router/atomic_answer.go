package router

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func (r *Router) markAll(ctx context.Context, ops []*atomicOp) map[tiering.Key]hotMark {
	marks := map[tiering.Key]hotMark{}
	for _, op := range ops {
		if _, ok := marks[op.key]; ok || !op.writes() || op.mutation.warmOnly {
			continue
		}
		marks[op.key] = r.markHot(ctx, op.key)
	}
	return marks
}

// unmarkAll lifts the marks of a batch that did not commit. Where that is not
// known they lapse.
func (r *core) unmarkAll(marks map[tiering.Key]hotMark, err error) {
	if errors.Is(err, warm.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	for _, m := range marks {
		_ = r.unmark(m) // a mark that stays lapses by itself
	}
}

// finishAtomic turns the transaction's outcome into the answer.
func (r *Router) finishAtomic(ctx context.Context, t *atomicRun, results [][]warm.Result, committed bool, marks map[tiering.Key]hotMark) (*tiering.BatchResult, error) {
	if replayed, err := replayedBatch(t, results); replayed != nil || err != nil {
		r.unmarkAll(marks, nil)
		return replayed, err
	}
	if !committed {
		r.unmarkAll(marks, nil)
		return nil, r.atomicRefusal(ctx, t, results)
	}
	settled := map[tiering.Key]bool{}
	for i, op := range t.ops {
		if op.change < 0 {
			continue
		}
		row := results[op.change][op.row]
		row.Created = results[op.change][op.row-len(op.mutation.more)].Created
		last := op.row == len(results[op.change])-1
		m := &mutation{key: op.key, row: t.changes[op.change].Rows[op.row], more: op.mutation.more, warmOnly: op.mutation.warmOnly, result: row}
		if last && !settled[op.key] {
			settled[op.key] = true
			m.hotOK = r.settle(ctx, op.policy, m, marks[op.key])
		}
		rc, err := r.receipt(ctx, op.policy, m, m.hotOK)
		if err != nil {
			return nil, atOp(err, i)
		}
		op.answer(&t.results[i], m, rc)
		if rc.Created && t.results[i].Status == http.StatusOK {
			t.results[i].Status = http.StatusCreated
		}
	}
	t.readOwn(t.results, results)
	t.hideValues(t.results)
	return &tiering.BatchResult{Results: t.results}, nil
}

// rows are the results of each key that the batch writes: the changes are in
// key order, the rows of each as they were sent.
func (t *atomicRun) rows(results [][]warm.Result) map[tiering.Key][]warm.Result {
	var written []tiering.Key
	for _, op := range t.ops {
		if op.writes() {
			written = append(written, op.key)
		}
	}
	slices.SortFunc(written, tiering.Key.Compare)
	rows := map[tiering.Key][]warm.Result{}
	for i, key := range slices.Compact(written) {
		if i < len(results) {
			rows[key] = results[i]
		}
	}
	return rows
}

// readOwn names the versions that gets saw because the batch had just made
// them: only the commit told their numbers.
func (t *atomicRun) readOwn(answers []tiering.OpResult, results [][]warm.Result) {
	rows := t.rows(results)
	done := map[tiering.Key]int{}
	for i, op := range t.ops {
		n := done[op.key]
		switch {
		case op.writes():
			done[op.key] += op.mutation.rows()
		case n > 0 && n <= len(rows[op.key]) && i < len(answers) && answers[i].Document != nil:
			d := *answers[i].Document
			d.Meta = rows[op.key][n-1].Head.Meta()
			answers[i].Document = &d
		}
	}
}

// hideValues takes the values of edits from a caller who may not read them. They
// are stored with an Idempotency-Key all the same: who repeats the batch may.
func (t *atomicRun) hideValues(answers []tiering.OpResult) {
	for i, op := range t.ops {
		if i < len(answers) && op.mutation.blind {
			answers[i].Values = nil
		}
	}
}

func (op *atomicOp) writes() bool { return op.Op != "get" && op.Op != "check" && !op.nothing }

// replayedBatch answers a batch that was committed before.
func replayedBatch(t *atomicRun, results [][]warm.Result) (*tiering.BatchResult, error) {
	if len(results) == 0 || len(results[0]) == 0 {
		return nil, nil
	}
	switch results[0][0].Status {
	case warm.Mismatch:
		return nil, tiering.Errorf(tiering.CodeIdempotencyMismatch, "this Idempotency-Key came with another request before")
	case warm.Replayed:
	default:
		return nil, nil
	}
	out := &tiering.BatchResult{Replayed: true}
	if err := json.Unmarshal(results[0][0].Answer, &out.Results); err != nil {
		return nil, &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "the stored answer cannot be read"}
	}
	for i, op := range t.ops { // as it was then: only a delete of nothing was stored with its receipt
		op.nothing = i < len(out.Results) && out.Results[i].Receipt != nil
	}
	t.readOwn(out.Results, results)
	// Receipts are made from the stored heads.
	rows := t.rows(results)
	for i, op := range t.ops {
		if i >= len(out.Results) || !op.writes() || len(rows[op.key]) == 0 {
			continue
		}
		n := min(op.mutation.rows(), len(rows[op.key]))
		res := rows[op.key][n-1]
		res.Created = rows[op.key][0].Created
		rows[op.key] = rows[op.key][n:]
		rc := &tiering.Receipt{Meta: res.Head.Meta(), Created: res.Created, Replayed: true}
		rc.Namespace, rc.ID = op.key.Namespace, op.key.ID
		op.answer(&out.Results[i], op.mutation, rc)
		if res.Created && out.Results[i].Status == http.StatusOK {
			out.Results[i].Status = http.StatusCreated
		}
	}
	t.hideValues(out.Results)
	return out, nil
}

// atomicRefusal says which operation warm refused.
func (r *Router) atomicRefusal(ctx context.Context, t *atomicRun, results [][]warm.Result) error {
	for i, op := range t.ops {
		if op.change < 0 || op.change >= len(results) {
			continue
		}
		m := &mutation{key: op.key, cond: tiering.IfVersion(1), limit: t.owner, row: warm.Row{Op: tiering.OpPut}, result: results[op.change][op.row]}
		if s := m.result.Status; s == warm.Done || s == warm.NoChange {
			continue
		}
		if _, err := r.receipt(ctx, op.policy, m, false); err != nil {
			return atOp(err, i)
		}
	}
	return tiering.Errorf(tiering.CodeUnavailable, "the batch was not committed: try again")
}
