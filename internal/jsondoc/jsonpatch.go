package jsondoc

import (
	"errors"
	"fmt"

	"github.com/tierd/tierd/tiering"
)

// patchWrap is how many levels a JSON patch puts around its values: the array
// of operations and the operation.
const patchWrap = 2

// JSONPatch applies a JSON patch (RFC 6902) to doc, a compacted document: all
// of its operations, or none. A patch that is not JSON is invalid (400), one
// that is not a patch is invalid (422) with the pointer into the patch. An
// operation that cannot be done, or a test that fails, is invalid (422) with
// the pointer into the document.
func JSONPatch(doc, patch []byte) ([]byte, error) {
	patch, err := compact(patch, tiering.MaxDepth+patchWrap)
	if err != nil {
		return nil, err
	}
	ops, err := parsePatch(patch)
	if err != nil {
		return nil, err
	}
	t := newTree(doc)
	for i, op := range ops {
		if err := t.apply(op); err != nil {
			return nil, inOp(err, i, op.op, op.path)
		}
	}
	return t.bytes(), nil
}

// PatchReads returns the first operation of a JSON patch that tells or copies
// what stands somewhere in the document (test, copy or move) and its index; op
// is "" when there is none. A patch that is not one is invalid as for JSONPatch.
func PatchReads(patch []byte) (op string, index int, err error) {
	patch, err = compact(patch, tiering.MaxDepth+patchWrap)
	if err != nil {
		return "", 0, err
	}
	ops, err := parsePatch(patch)
	if err != nil {
		return "", 0, err
	}
	for i, op := range ops {
		switch op.op {
		case "test", "copy", "move":
			return op.op, i, nil
		}
	}
	return "", 0, nil
}

// inOp says which operation of several failed, and where in the document when
// err does not.
func inOp(err error, i int, name string, at Pointer) error {
	var e *tiering.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Detail = fmt.Sprintf("operation %d (%s): %s", i, name, e.Detail)
	if c.Pointer == "" {
		c.Pointer = at.String()
	}
	return &c
}

type patchOp struct {
	op         string
	path, from Pointer
	value      []byte
}

// patchNeeds names the members that each operation needs beside op and path.
var patchNeeds = map[string]string{
	"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": "",
}

func parsePatch(patch []byte) ([]patchOp, error) {
	if KindOf(patch) != Array {
		return nil, tiering.Unprocessablef("", "a JSON patch is an array of operations, not %s", KindOf(patch))
	}
	var ops []patchOp
	for element := range Elements(patch) {
		op, err := parsePatchOp(element, "/"+indexToken(len(ops)))
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// parsePatchOp reads the operation at the pointer at. Members that it does not
// know are ignored, as the RFC asks.
func parsePatchOp(raw []byte, at string) (patchOp, error) {
	if KindOf(raw) != Object {
		return patchOp{}, tiering.Unprocessablef(at, "an operation is an object, not %s", KindOf(raw))
	}
	var op patchOp
	var err error
	seen := map[string]bool{}
	for quoted, value := range Members(raw) {
		name := Unquote(quoted)
		seen[name] = true
		switch name {
		case "value":
			op.value = value
			continue
		case "op", "path", "from":
			if KindOf(value) != String {
				return patchOp{}, tiering.Unprocessablef(at+"/"+name, "%s is a string, not %s", name, KindOf(value))
			}
		}
		switch name {
		case "op":
			op.op = Unquote(value)
		case "path":
			op.path, err = patchPointer(Unquote(value), at+"/path")
		case "from":
			op.from, err = patchPointer(Unquote(value), at+"/from")
		}
		if err != nil {
			return patchOp{}, err
		}
	}
	needs, known := patchNeeds[op.op]
	switch {
	case !seen["op"]:
		return patchOp{}, tiering.Unprocessablef(at, "the operation has no op")
	case !known:
		return patchOp{}, tiering.Unprocessablef(at+"/op", "unknown operation %q: use add, remove, replace, move, copy or test", op.op)
	case !seen["path"]:
		return patchOp{}, tiering.Unprocessablef(at, "the operation has no path")
	case needs != "" && !seen[needs]:
		return patchOp{}, tiering.Unprocessablef(at, "%s needs %s", op.op, needs)
	}
	return op, nil
}

// patchPointer parses a pointer that stands in a well-formed body: a malformed
// one is unprocessable.
func patchPointer(s, at string) (Pointer, error) {
	p, fault := parsePointer(s)
	if fault != "" {
		return nil, tiering.Unprocessablef(at, "%s", fault)
	}
	return p, nil
}

func (t *tree) apply(op patchOp) error {
	switch op.op {
	case "add":
		return t.add(op.path, op.value)
	case "remove":
		_, err := t.take(op.path)
		return err
	case "replace":
		n, err := t.existing(op.path)
		if err != nil {
			return err
		}
		return n.replace(op.value)
	case "copy":
		n, err := t.existing(op.from)
		if err != nil {
			return err
		}
		value := n.current()
		if err := t.spend(len(value) * copyWeight); err != nil {
			return err
		}
		return t.add(op.path, value)
	case "move":
		return t.move(op.from, op.path)
	default: // test: the parser lets no other through
		n, err := t.existing(op.path)
		if err != nil {
			return err
		}
		value := n.current()
		if err := t.spend(len(value)); err != nil {
			return err
		}
		if !Equal(value, op.value) {
			return tiering.Unprocessablef(op.path.String(), "the value is not the one tested for")
		}
		return nil
	}
}

// existing returns the node that p leads to.
func (t *tree) existing(p Pointer) (*node, error) {
	n, steps := t.find(p)
	if steps < len(p) {
		return nil, missing(p, steps, n)
	}
	return n, nil
}

// add puts value at p: a member new or replaced, an element inserted, or the
// whole document.
func (t *tree) add(p Pointer, value []byte) error {
	if len(p) == 0 {
		return t.root.replace(value)
	}
	last := len(p) - 1
	parent, steps := t.find(p[:last])
	if steps < last {
		return missing(p, steps, parent)
	}
	switch parent.kind() {
	case Object:
		if i := parent.position(p[last]); i >= 0 {
			return parent.child(i).replace(value)
		}
		return parent.addMember(quote(nil, p[last])).replace(value)
	case Array:
		parent.open()
		i, ok := arrayIndex(p[last])
		if p[last] == "-" {
			i, ok = len(parent.kids), true
		}
		if !ok || i > len(parent.kids) {
			return missing(p, last, parent)
		}
		if err := t.spend((len(parent.kids) - i) * kidSize); err != nil {
			return err
		}
		return parent.insert(i, nil).replace(value)
	}
	return missing(p, last, parent)
}

// kidSize is about how many bytes shifting one child moves.
const kidSize = 24

// take removes the value at p and returns it.
func (t *tree) take(p Pointer) (*node, error) {
	if len(p) == 0 {
		return nil, tiering.Unprocessablef("", "the whole document cannot be removed: delete it")
	}
	n, err := t.existing(p)
	if err != nil {
		return nil, err
	}
	parent := n.parent
	i := parent.position(p[len(p)-1])
	if parent.kind() == Array {
		if err := t.spend((len(parent.kids) - i) * kidSize); err != nil {
			return nil, err
		}
	}
	parent.remove(i)
	return n, nil
}

func (t *tree) move(from, to Pointer) error {
	if len(from) < len(to) && isPrefix(from, to) {
		return tiering.Unprocessablef(to.String(), "a value cannot move into itself")
	}
	if len(from) == len(to) && isPrefix(from, to) {
		_, err := t.existing(from)
		return err
	}
	n, err := t.take(from)
	if err != nil {
		return err
	}
	value := n.current()
	if n.changed { // else it is still a range of the document
		if err := t.spend(len(value) * copyWeight); err != nil {
			return err
		}
	}
	return t.add(to, value)
}

func isPrefix(p, of Pointer) bool {
	for i := range p {
		if p[i] != of[i] {
			return false
		}
	}
	return true
}
