package jsondoc

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cockroachdb/apd/v3"

	"github.com/tierd/tierd/tiering"
)

// MaxEditOps is how many operations one Edit takes, at least one.
const MaxEditOps = tiering.MaxEditOps

// The edit operations.
const (
	opSet           = "set"
	opRemove        = "remove"
	opIncrement     = "increment"
	opAppend        = "append"
	opAddToSet      = "add_to_set"
	opRemoveFromSet = "remove_from_set"
	opMax           = "max"
	opMin           = "min"
)

// ValidateEdit checks what can be checked without the document: the number of
// operations, their names, pointers and values. A fault is invalid (422) with
// the pointer into the request, such as /ops/3/op.
func ValidateEdit(ops []tiering.EditOp) error {
	_, err := parseEdit(ops)
	return err
}

// Edit applies ops to doc, a compacted document, in order: all of them, or
// none. A nil doc is absent and starts as {}. values are parts of next or doc: what
// stands under each operation's pointer at the end, null where nothing does.
//
//   - set stores the value; in an array, at an index, or behind the end ("-").
//   - remove takes a value out; removing what is not there does nothing.
//   - increment adds by (default 1), exactly, as decimals; nothing counts as 0.
//   - append adds the value to the end of an array.
//   - add_to_set appends unless an equal element is there; remove_from_set
//     removes every equal element.
//   - max and min store the value when it is the larger or smaller number.
//
// Missing parents are made as objects, a missing array as an empty one. A
// value of the wrong type is invalid (422) with the pointer into the document;
// faults of the request itself are those of ValidateEdit.
func Edit(doc []byte, ops []tiering.EditOp) (next []byte, values []json.RawMessage, err error) {
	edits, err := parseEdit(ops)
	if err != nil {
		return nil, nil, err
	}
	t := newTree(orEmpty(doc))
	for i := range edits {
		if err := t.edit(&edits[i]); err != nil {
			return nil, nil, inOp(err, i, edits[i].op, edits[i].at)
		}
	}
	next = t.bytes()
	values = make([]json.RawMessage, len(edits))
	for i, e := range edits {
		values[i] = json.RawMessage("null")
		if n, steps := t.find(e.at); steps == len(e.at) {
			values[i] = n.valueIn(next)
		}
	}
	return next, values, nil
}

// edit is a checked operation. operand is compacted: the value, or what an
// increment adds.
type edit struct {
	op      string
	at      Pointer
	operand []byte
}

func parseEdit(ops []tiering.EditOp) ([]edit, error) {
	if len(ops) == 0 || len(ops) > MaxEditOps {
		return nil, tiering.Unprocessablef("/ops", "%d operations: send 1 to %d", len(ops), MaxEditOps)
	}
	edits := make([]edit, len(ops))
	for i, op := range ops {
		e, err := parseEditOp(op, fmt.Sprintf("/ops/%d", i))
		if err != nil {
			return nil, err
		}
		edits[i] = e
	}
	return edits, nil
}

func parseEditOp(op tiering.EditOp, at string) (edit, error) {
	e := edit{op: op.Op}
	member, raw, unwanted := "value", op.Value, op.By
	switch op.Op {
	case opSet, opAppend, opAddToSet, opRemoveFromSet, opMax, opMin:
	case opIncrement:
		member, raw, unwanted = "by", op.By, op.Value
		if raw == nil {
			raw = json.RawMessage("1")
		}
	case opRemove:
	default:
		return e, tiering.Unprocessablef(at+"/op", "unknown operation %q: use set, remove, increment, append, add_to_set, remove_from_set, max or min", op.Op)
	}
	var err error
	if e.at, err = patchPointer(op.Pointer, at+"/pointer"); err != nil {
		return e, err
	}
	if unwanted != nil || op.Op == opRemove && raw != nil {
		return e, tiering.Unprocessablef(at, "%s does not take both value and by, and remove takes neither", op.Op)
	}
	if op.Op == opRemove {
		if len(e.at) == 0 {
			return e, tiering.Unprocessablef(at+"/pointer", "the whole document cannot be removed: delete it")
		}
		return e, nil
	}
	if len(raw) == 0 {
		return e, tiering.Unprocessablef(at, "%s needs %s", op.Op, member)
	}
	if e.operand, err = Compact(raw); err != nil {
		return e, tiering.Below(err, at+"/"+member)
	}
	if kind := KindOf(e.operand); kind != Number && (op.Op == opIncrement || op.Op == opMax || op.Op == opMin) {
		return e, tiering.Unprocessablef(at+"/"+member, "%s takes a number, not %s", op.Op, kind)
	}
	return e, nil
}

// edit applies one operation.
func (t *tree) edit(e *edit) error {
	switch e.op {
	case opRemove:
		return t.removeAt(e.at)
	case opRemoveFromSet:
		n, steps := t.find(e.at)
		if steps < len(e.at) {
			return passable(e.at, steps, n)
		}
		return t.removeEqual(n, e)
	}
	n, err := t.ensure(e)
	if err != nil {
		return err
	}
	switch e.op {
	case opSet:
		return n.replace(e.operand)
	case opIncrement:
		return increment(n, e)
	case opAppend, opAddToSet:
		return t.appendTo(n, e)
	default: // max, min: the parser lets no other through
		return extreme(n, e)
	}
}

// removeAt removes what p leads to, if anything.
func (t *tree) removeAt(p Pointer) error {
	n, steps := t.find(p)
	if steps < len(p) {
		return passable(p, steps, n)
	}
	_, err := t.take(p)
	return err
}

// passable is nil when a missing step could be there: the value before it is a
// container that takes such a step.
func passable(p Pointer, steps int, parent *node) error {
	switch parent.kind() {
	case Object:
		return nil
	case Array:
		if _, ok := arrayIndex(p[steps]); ok || p[steps] == "-" {
			return nil
		}
	}
	return missing(p, steps, parent)
}

// ensure returns the node at e.at and makes what is missing on the way: objects
// for parents, and at the end a node without a value. A step "-" becomes the
// index it made, in e.at too.
func (t *tree) ensure(e *edit) (*node, error) {
	n, steps := t.find(e.at)
	if steps == len(e.at) {
		return n, nil
	}
	e.at = slices.Clone(e.at)
	for ; steps < len(e.at); steps++ {
		if n.raw == nil {
			if err := n.replace([]byte("{}")); err != nil {
				return nil, err
			}
		}
		token := e.at[steps]
		switch n.kind() {
		case Object:
			n.open()
			n = n.addMember(quote(nil, token))
			continue
		case Array:
			n.open()
			end := indexToken(len(n.kids))
			if token == "-" || token == end {
				e.at[steps] = end
				n = n.insert(len(n.kids), nil)
				continue
			}
		}
		return nil, missing(e.at, steps, n)
	}
	return n, nil
}

// wrongKind is the fault of an operation on a value it is not made for.
func wrongKind(n *node, e *edit, want Kind) error {
	return tiering.Unprocessablef(e.at.String(), "%s needs %s, and %s stands there", e.op, want, n.kind())
}

// appendTo appends the operand to an array, for add_to_set unless it is there.
func (t *tree) appendTo(n *node, e *edit) error {
	if n.raw == nil {
		if err := n.replace([]byte("[]")); err != nil {
			return err
		}
	}
	if n.kind() != Array {
		return wrongKind(n, e, Array)
	}
	n.open()
	if e.op == opAddToSet {
		for i := range n.kids {
			equal, err := t.equalChild(n, i, e.operand)
			if equal || err != nil {
				return err
			}
		}
	}
	return n.insert(len(n.kids), nil).replace(e.operand)
}

// removeEqual removes every element that equals the operand.
func (t *tree) removeEqual(n *node, e *edit) error {
	if n.kind() != Array {
		return wrongKind(n, e, Array)
	}
	n.open()
	kept := n.kids[:0:0]
	for i, k := range n.kids {
		equal, err := t.equalChild(n, i, e.operand)
		if err != nil {
			return err
		}
		if !equal {
			kept = append(kept, k)
		}
	}
	if len(kept) < len(n.kids) {
		n.kids = kept
		n.mark()
	}
	return nil
}

// equalChild compares a child with value, and counts it.
func (t *tree) equalChild(n *node, i int, value []byte) (bool, error) {
	k := n.kids[i]
	var have []byte
	if k.node != nil {
		have = k.node.current()
	} else {
		have = n.raw[k.at:k.end]
	}
	return Equal(have, value), t.spend(len(have))
}

// extreme stores the operand of max or min when it lies beyond the number that
// stands there.
func extreme(n *node, e *edit) error {
	if n.raw == nil {
		return n.replace(e.operand)
	}
	if n.kind() != Number {
		return wrongKind(n, e, Number)
	}
	order := CompareNumbers(e.operand, n.raw)
	if e.op == opMax && order > 0 || e.op == opMin && order < 0 {
		return n.replace(e.operand)
	}
	return nil
}

// increment adds the operand to the number that stands there.
func increment(n *node, e *edit) error {
	old := n.raw
	if old == nil {
		old = []byte("0")
	}
	if KindOf(old) != Number {
		return wrongKind(n, e, Number)
	}
	sum, err := addNumbers(old, e.operand)
	if err != nil {
		return err
	}
	return n.replace(sum)
}

// addNumbers returns a+b, exactly, in plain notation.
func addNumbers(a, b []byte) ([]byte, error) {
	var x, y, sum apd.Decimal
	if _, _, err := x.SetString(string(a)); err != nil {
		return nil, tiering.Unprocessablef("", "%s is out of range", a)
	}
	if _, _, err := y.SetString(string(b)); err != nil {
		return nil, tiering.Unprocessablef("", "%s is out of range", b)
	}
	if _, err := apd.BaseContext.Add(&sum, &x, &y); err != nil { // no precision: exact
		return nil, tiering.Unprocessablef("", "the sum is out of range")
	}
	if sum.IsZero() {
		return []byte("0"), nil
	}
	text := sum.Append(nil, 'f')
	if detail := numberFault(text); detail != "" {
		return nil, tiering.Unprocessablef("", "the sum would be %s", detail)
	}
	return text, nil
}
