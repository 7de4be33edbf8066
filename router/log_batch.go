package router

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// entriesOfOp are the entries of an append in a batch: the elements of an array,
// or the one value.
func entriesOfOp(data json.RawMessage) ([]json.RawMessage, error) {
	if jsondoc.KindOf(data) != jsondoc.Array {
		return []json.RawMessage{data}, nil
	}
	var out []json.RawMessage
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, tiering.Invalidf("the entries cannot be read: %v", err)
	}
	return out, nil
}

// appendOptions are those of an append in a batch.
func appendOptions(op tiering.BatchOp, o tiering.WriteOptions) tiering.AppendOptions {
	return tiering.AppendOptions{ExpectSeq: op.IfVersion, IdempotencyKey: o.IdempotencyKey, TTL: o.TTL, User: op.User}
}

// appendOp runs an append of a batch that is not atomic.
func (r *Router) appendOp(ctx context.Context, op tiering.BatchOp, o tiering.WriteOptions) tiering.OpResult {
	entries, err := entriesOfOp(op.Data)
	if err != nil {
		return failedOp(err)
	}
	ao := appendOptions(op, o)
	a, err := r.Append(ctx, op.Namespace, op.ID, entries, &ao)
	if err != nil {
		return failedOp(err)
	}
	return appendedOp(a)
}

// appendedOp answers an append of a batch.
func appendedOp(a *tiering.Appended) tiering.OpResult {
	res := tiering.OpResult{Status: http.StatusOK, Appended: a}
	if a.Created {
		res.Status = http.StatusCreated
	}
	return res
}

// prepareAppend checks an append of an atomic batch.
func (r *Router) prepareAppend(ctx context.Context, op tiering.BatchOp, o tiering.WriteOptions) (*policy, *mutation, error) {
	if _, err := r.admit(tiering.VerbWrite, op.Namespace, op.ID); err != nil {
		return nil, nil, err
	}
	entries, err := entriesOfOp(op.Data)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.policyForKind(ctx, op.Namespace, tiering.Policy{Kind: tiering.KindLog})
	if err != nil {
		return nil, nil, err
	}
	p, m, err := r.appendMutation(ctx, p, op.Namespace, op.ID, entries, appendOptions(op, o))
	if m != nil {
		m.warmOnly = true
	}
	return p, m, err
}

// appendsTo reports whether the batch appends to key: then what stands there is
// not needed.
func (t *atomicRun) appendsTo(key tiering.Key) bool {
	return slices.ContainsFunc(t.ops, func(op *atomicOp) bool { return op.key == key && op.Op == "append" })
}

// append puts the rows of an append behind those of its log.
func (t *atomicRun) append(op *atomicOp, s *standing) error {
	for _, row := range op.mutation.run() {
		if err := t.add(op, s, row); err != nil {
			return err
		}
		if !s.live {
			s.user = row.User
		}
		s.base = base{version: s.head.Version + int64(op.row) + 1, body: row.Body, user: s.user}
		s.live = true
	}
	return nil
}

// answer puts the receipt of an operation into its result.
func (op *atomicOp) answer(res *tiering.OpResult, m *mutation, rc *tiering.Receipt) {
	if op.Op == "append" {
		res.Appended = m.appended(rc)
		return
	}
	res.Receipt = rc
}
