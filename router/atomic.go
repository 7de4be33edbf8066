package router

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// atomicOp is one operation of an atomic batch, checked and ready.
type atomicOp struct {
	tiering.BatchOp
	mutation *mutation // shares of all writes; its row is a template
	policy   *policy
	nothing  bool // a delete in a namespace that nobody made
	key      tiering.Key
	patch    func(base) ([]byte, error)
	change   int // where its row went: change and row index, -1 for none
	row      int
}

// atomicBatch runs all operations in one transaction of warm: heads locked in
// key order, conditions judged, then written or rolled back.
func (r *Router) atomicBatch(ctx context.Context, b tiering.Batch) (*tiering.BatchResult, error) {
	ops := make([]*atomicOp, len(b.Ops))
	var keys []tiering.Key
	for i, op := range b.Ops {
		a, err := r.prepareOp(ctx, op)
		if err != nil {
			return nil, atOp(err, i)
		}
		ops[i] = a
		if !a.nothing {
			keys = append(keys, a.key)
		}
	}
	slices.SortFunc(keys, tiering.Key.Compare)
	keys = slices.Compact(keys)

	idem, err := r.batchIdempotency(b)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 { // nothing can be there to lock, to change or to remember
		t := &atomicRun{core: r.core, ops: ops, results: make([]tiering.OpResult, len(ops))}
		_, err := t.decide(nil)
		return &tiering.BatchResult{Results: t.results}, err
	}
	if r.warmAway() {
		return nil, errAway()
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.background.Done()
	marks := r.markAll(ctx, ops)
	t := &atomicRun{core: r.core, keys: keys, ops: ops, results: make([]tiering.OpResult, len(ops)), idem: idem, owner: r.who.Scope.User}
	// A caller that leaves does not undo what may have been committed.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.CommitTimeout)
	defer cancel()
	id := uuid.New()
	results, committed, err := r.Warm.Atomic(dctx, id, keys, idem, t.decide)
	for tries := 0; errors.Is(err, errBaseInCold) && tries < 3; tries++ {
		if err = r.bringUp(dctx, ops); err == nil {
			id = uuid.New()
			results, committed, err = r.Warm.Atomic(dctx, id, keys, idem, t.decide)
		}
	}
	if errors.Is(err, warm.ErrOutcomeUnknown) {
		r.doubtAtomic(id, marks, err)
		return nil, errUnknown(err)
	}
	if err != nil {
		r.unmarkAll(marks, err)
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	return r.finishAtomic(ctx, t, results, committed, marks)
}

// bringUp promotes the documents of a batch whose bytes lie in cold, whatever
// their policy says of reads: an atomic batch computes on warm alone.
func (r *core) bringUp(ctx context.Context, ops []*atomicOp) error {
	yes := true
	for _, op := range ops {
		if op.nothing {
			continue
		}
		p := *op.policy
		p.Promote = &yes
		if _, err := r.load(ctx, op.key, &p, 0); err != nil {
			return err
		}
	}
	return nil
}

// prepareOp checks one operation as far as that needs no document.
func (r *Router) prepareOp(ctx context.Context, op tiering.BatchOp) (*atomicOp, error) {
	o, err := writeOptions(op, "")
	if err != nil {
		return nil, err
	}
	a := &atomicOp{BatchOp: op, change: -1}
	switch op.Op {
	case "get", "check":
		if a.key, err = r.admit(tiering.VerbRead, op.Namespace, op.ID); err != nil {
			return nil, err
		}
		a.policy, err = r.policyOf(ctx, a.key.Tenant, op.Namespace)
		if err == nil && !a.policy.Durable() {
			err = tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it takes no part in atomic batches", op.Namespace)
		}
		if err == nil && op.Op == "get" && a.policy.known && a.policy.KeepsAll() {
			err = wrongKind(op.Namespace, a.policy.Kind, tiering.KindState)
		}
		a.mutation = &mutation{cond: o.If}
		return a, err
	case "put", "patch", "edit", "remember":
		if op.Op == "remember" {
			if err := r.makeMemoryNamespace(ctx, op.Namespace); err != nil {
				return nil, err
			}
		}
		if op.Op == "patch" {
			if err := r.sightless(op.Namespace, patchKind(op.Data), op.Data); err != nil {
				return nil, err
			}
		}
		a.policy, a.mutation, err = r.mutation(ctx, tiering.VerbWrite, op.Namespace, op.ID, o, op.User)
	case "delete":
		if a.key, err = r.admit(tiering.VerbDelete, op.Namespace, op.ID); err != nil {
			return nil, err
		}
		known, kerr := r.namespaceKnown(ctx, op.Namespace)
		if kerr != nil {
			return nil, kerr
		}
		if !known {
			a.nothing, a.mutation = true, &mutation{key: a.key, cond: o.If}
			return a, nil
		}
		a.policy, a.mutation, err = r.mutation(ctx, tiering.VerbDelete, op.Namespace, op.ID, o, "", tiering.KindLog)
	case "append":
		a.policy, a.mutation, err = r.prepareAppend(ctx, op, o)
	default:
		err = unknownOp(op.Op)
	}
	if err != nil {
		return nil, err
	}
	if !a.policy.Durable() {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it takes no part in atomic batches", op.Namespace)
	}
	a.key = a.mutation.key
	switch op.Op {
	case "put", "remember":
		var doc []byte
		if doc, err = jsondoc.Compact(op.Data); err == nil {
			a.patch = func(base) ([]byte, error) { return doc, nil }
		}
	case "patch":
		a.patch, err = patcher(patchKind(op.Data), op.Data)
	case "edit":
		err = jsondoc.ValidateEdit(op.Ops)
	}
	return a, err
}

// atOp says which operation an error belongs to.
func atOp(err error, i int) error {
	var e *tiering.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Batch, c.FailedOp = true, i
	return &c
}

func (r *Router) batchIdempotency(b tiering.Batch) (*warm.Idempotency, error) {
	if b.IdempotencyKey == "" {
		return nil, nil
	}
	asked, err := json.Marshal(b.Ops)
	if err != nil {
		return nil, tiering.Invalidf("the operations cannot be read: %v", err)
	}
	return &warm.Idempotency{Tenant: r.who.Tenant, Key: b.IdempotencyKey, Hash: requestHash("batch", &mutation{row: warm.Row{User: r.who.Scope.User}}, [][]byte{asked})}, nil
}

// atomicRun is one atomic batch under way.
type atomicRun struct {
	core    *core
	keys    []tiering.Key
	ops     []*atomicOp
	results []tiering.OpResult
	idem    *warm.Idempotency
	owner   string
	changes []warm.Change
}

// standing is a key as the batch has made it so far.
type standing struct {
	base
	head    warm.Head
	live    bool
	deleted bool // by this batch
	change  int  // index of its change, -1 for none
}

// decide runs the operations on what stands, in the order they were sent. It
// may be called again, and computes only.
func (t *atomicRun) decide(current []warm.Current) ([]warm.Change, error) {
	t.changes = nil
	at := map[tiering.Key]*standing{}
	for i, cur := range current {
		s := &standing{head: cur.Head, live: cur.Head.Live(cur.Now), change: -1}
		if s.live {
			if cur.Body == nil && !t.appendsTo(t.keys[i]) {
				return nil, errBaseInCold
			}
			s.base = base{version: cur.Head.Version, body: cur.Body, user: cur.Head.User}
		}
		at[t.keys[i]] = s
	}
	for i, op := range t.ops {
		if err := t.step(i, op, at[op.key]); err != nil {
			return nil, atOp(err, i)
		}
	}
	slices.SortStableFunc(t.changes, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
	for i, c := range t.changes {
		for _, op := range t.ops {
			if op.key == c.Key && op.change >= 0 {
				op.change = i
			}
		}
	}
	if t.idem != nil {
		var err error
		if t.idem.Answer, err = json.Marshal(t.results); err != nil {
			return nil, tiering.Invalidf("the answer cannot be kept: %v", err)
		}
	}
	return t.changes, nil
}

// step runs one operation.
func (t *atomicRun) step(i int, op *atomicOp, s *standing) error {
	if op.nothing {
		return t.deleteNothing(i, op)
	}
	// The owner is judged before the condition, whose refusal names a version:
	// to a read, what is another's does not stand.
	visible := t.owner == "" || !s.live || s.user == t.owner
	version := s.version
	switch {
	case !visible && op.writes():
		return tiering.Errorf(tiering.CodeForbidden, "the document belongs to another user: nothing of the batch was done")
	case !visible:
		version = 0
	}
	if !op.mutation.cond.Holds(version) {
		err := &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: version, Detail: "another version stands: nothing of the batch was done"}
		if op.Op == "append" {
			return seqConflict(err)
		}
		return err
	}
	res := &t.results[i]
	*res = tiering.OpResult{Status: http.StatusOK}
	op.change, op.row = -1, -1
	switch op.Op {
	case "check", "get":
		if version == 0 && op.IfVersion == nil {
			return tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key: nothing of the batch was done")
		}
		if op.Op == "get" && version != 0 {
			res.Document = &tiering.Document{Meta: s.head.Meta(), Body: s.body, Tier: tiering.Warm}
		}
		return nil
	case "append":
		return t.append(op, s)
	case "delete":
		res.Status = http.StatusNoContent
		row := op.mutation.row
		row.Op, row.Expiry = tiering.OpDelete, warm.Expiry{}
		if err := t.add(op, s, row); err != nil {
			return err
		}
		s.base, s.live, s.deleted = base{}, false, true
		return nil
	}
	var doc []byte
	var err error
	if op.Op == "edit" {
		doc, res.Values, err = jsondoc.Edit(s.body, op.Ops)
	} else {
		doc, err = op.patch(s.base)
	}
	row := op.mutation.row
	if err == nil {
		err = t.core.setBody(context.Background(), op.policy, &row, doc)
	}
	if err != nil && op.Op != "put" { // what is wrong with a put is its own
		err = op.mutation.told(err)
	}
	if err != nil {
		return err
	}
	if err := t.add(op, s, row); err != nil {
		return err
	}
	owner := s.user
	if !s.live {
		owner = row.User
	}
	s.base = base{version: s.head.Version + int64(op.row) + 1, body: doc, user: owner}
	s.live = true
	return nil
}

// deleteNothing answers a delete in a namespace that does not exist, which must
// not make it.
func (t *atomicRun) deleteNothing(i int, op *atomicOp) error {
	if !op.mutation.cond.Holds(0) {
		return &tiering.Error{Code: tiering.CodeVersionConflict, Detail: "nothing stands under the key: nothing of the batch was done"}
	}
	op.change, op.row = -1, -1
	t.results[i] = tiering.OpResult{Status: http.StatusNoContent, Receipt: &tiering.Receipt{Meta: tiering.Meta{Namespace: op.Namespace, ID: op.ID}}}
	return nil
}

// add puts a row behind the rows of its key. A fold is puts only.
func (t *atomicRun) add(op *atomicOp, s *standing, row warm.Row) error {
	if s.change < 0 {
		cond := tiering.IfVersion(s.version)
		if row.Op == tiering.OpDelete && s.version == 0 {
			cond = tiering.Condition{}
		}
		s.change = len(t.changes)
		t.changes = append(t.changes, op.policy.change(op.key, cond, nil))
	} else if row.Op == tiering.OpDelete || s.deleted {
		return tiering.Unprocessablef("", "an atomic batch deletes a key alone: it has another write of %s", op.key)
	}
	c := &t.changes[s.change]
	op.change, op.row = s.change, len(c.Rows)
	c.Rows = append(c.Rows, row)
	return nil
}
