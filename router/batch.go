package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// batchParallel bounds the keys of one batch that are worked on at once.
const batchParallel = 32

// Batch runs many operations. When atomic they commit in one transaction or
// not at all; else each stands alone, and those of one key run in order.
func (r *Router) Batch(ctx context.Context, b *tiering.Batch) (*tiering.BatchResult, error) {
	res, err := r.batch(ctx, orZero(b))
	return res, tiering.Wrap(err, "batch", "", tiering.Key{})
}

func (r *Router) batch(ctx context.Context, b tiering.Batch) (*tiering.BatchResult, error) {
	if len(b.Ops) == 0 || len(b.Ops) > tiering.MaxBatchOps {
		return nil, tiering.Unprocessablef("/ops", "a batch of %d operations: use 1 to %d", len(b.Ops), tiering.MaxBatchOps)
	}
	if err := checkIdempotencyKey(b.IdempotencyKey); err != nil {
		return nil, err
	}
	for i, op := range b.Ops {
		if !knownOp(op.Op) {
			e := unknownOp(op.Op)
			e.Pointer = fmt.Sprintf("/ops/%d/op", i)
			return nil, e
		}
	}
	if b.Atomic {
		return r.atomicBatch(ctx, b)
	}
	byKey := map[tiering.Key][]int{}
	var order []tiering.Key
	for i, op := range b.Ops {
		k := r.key(op.Namespace, op.ID)
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	out := &tiering.BatchResult{Results: make([]tiering.OpResult, len(b.Ops))}
	var g errgroup.Group
	g.SetLimit(batchParallel)
	for _, k := range order {
		g.Go(func() error {
			for _, i := range byKey[k] {
				out.Results[i] = r.runOp(ctx, b.Ops[i], opKey(b.IdempotencyKey, i))
			}
			return nil
		})
	}
	err := g.Wait()
	out.Replayed = replayedAll(b.Ops, out.Results)
	return out, err
}

// replayedAll reports whether every mutation of a batch had been done before.
func replayedAll(ops []tiering.BatchOp, results []tiering.OpResult) bool {
	mutations := 0
	for i, op := range ops {
		if op.Op == "get" || op.Op == "check" {
			continue
		}
		if rc := results[i].Receipt; rc == nil || !rc.Replayed {
			return false
		}
		mutations++
	}
	return mutations > 0
}

// opKey derives the idempotency key of one operation from its batch's.
func opKey(key string, i int) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("batch:%s:%d", hex.EncodeToString(sum[:]), i)
}

// runOp runs one operation of a batch that is not atomic, as the same call
// alone would.
func (r *Router) runOp(ctx context.Context, op tiering.BatchOp, idem string) tiering.OpResult {
	o, err := writeOptions(op, idem)
	if err != nil {
		return failedOp(err)
	}
	switch op.Op {
	case "remember":
		if err := r.makeMemoryNamespace(ctx, op.Namespace); err != nil {
			return failedOp(err)
		}
		fallthrough
	case "put":
		rc, err := r.Put(ctx, op.Namespace, op.ID, op.Data, &tiering.PutOptions{WriteOptions: o, User: op.User})
		return wroteOp(rc, nil, err)
	case "patch":
		rc, err := r.Patch(ctx, op.Namespace, op.ID, patchKind(op.Data), op.Data, &o)
		return wroteOp(rc, nil, err)
	case "edit":
		e, err := r.Apply(ctx, op.Namespace, op.ID, op.Ops, &o)
		if err != nil {
			return failedOp(err)
		}
		return wroteOp(&e.Receipt, e.Values, nil)
	case "delete":
		rc, err := r.Delete(ctx, op.Namespace, op.ID, &o)
		res := wroteOp(rc, nil, err)
		if err == nil {
			res.Status = http.StatusNoContent
		}
		return res
	case "append":
		return r.appendOp(ctx, op, o)
	case "get", "check":
		d, err := r.Get(ctx, op.Namespace, op.ID, &tiering.GetOptions{Strong: op.Op == "check", NoDefault: true})
		return readOp(op, o.If, d, err)
	}
	return failedOp(unknownOp(op.Op))
}

func knownOp(op string) bool {
	switch op {
	case "put", "patch", "edit", "delete", "get", "check", "append", "remember":
		return true
	}
	return false
}

// unknownOp refuses an operation that there is none of.
func unknownOp(op string) *tiering.Error {
	return tiering.Unprocessablef("/op", "unknown operation %q: use put, patch, edit, delete, append, get, check or remember", op)
}

// writeOptions reads what all operations share.
func writeOptions(op tiering.BatchOp, idem string) (tiering.WriteOptions, error) {
	o := tiering.WriteOptions{IdempotencyKey: idem}
	if op.IfVersion != nil {
		if *op.IfVersion < 0 {
			return o, tiering.Unprocessablef("/if_version", "if_version %d: use a version, or 0 for absent", *op.IfVersion)
		}
		o.If = tiering.IfVersion(*op.IfVersion)
	}
	if op.TTL != "" {
		ttl, err := tiering.ParseTTL(op.TTL)
		if err != nil {
			return o, err
		}
		o.TTL = ttl
	}
	return o, nil
}

// patchKind: a JSON patch is an array, a merge patch is not (one that were
// would replace the whole document: that is a put).
func patchKind(patch []byte) tiering.PatchKind {
	if jsondoc.KindOf(patch) == jsondoc.Array {
		return tiering.JSONPatch
	}
	return tiering.MergePatch
}

func wroteOp(rc *tiering.Receipt, values []json.RawMessage, err error) tiering.OpResult {
	if err != nil {
		return failedOp(err)
	}
	res := tiering.OpResult{Status: http.StatusOK, Receipt: rc, Values: values}
	if rc.Created {
		res.Status = http.StatusCreated
	}
	return res
}

// readOp answers a get, or a check: of a version, or of anything standing.
func readOp(op tiering.BatchOp, cond tiering.Condition, d *tiering.Document, err error) tiering.OpResult {
	absent := tiering.CodeOf(err) == tiering.CodeNotFound
	if err != nil && (!absent || op.IfVersion == nil) {
		return failedOp(err)
	}
	var version int64
	if !absent {
		version = d.Version
	}
	if op.IfVersion != nil && !cond.Holds(version) {
		return failedOp(&tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: version, Detail: "another version stands"})
	}
	if op.Op == "check" || absent {
		return tiering.OpResult{Status: http.StatusOK}
	}
	return tiering.OpResult{Status: http.StatusOK, Document: d}
}

func failedOp(err error) tiering.OpResult {
	p := tiering.ProblemOf(err)
	return tiering.OpResult{Status: p.Status, Error: p}
}
