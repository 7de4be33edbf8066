package jsondoc

import "bytes"

// MergePatch applies a JSON merge patch (RFC 7396) to doc, a compacted
// document; nil stands for {}. Members keep their places and new ones come
// last. A patch that is not JSON, or breaks a limit, fails as in Compact.
func MergePatch(doc, patch []byte) ([]byte, error) {
	patch, err := Compact(patch)
	if err != nil {
		return nil, err
	}
	return MergeCompact(doc, patch)
}

// MergeCompact is MergePatch with a patch that Compact returned, which is not looked
// at once more.
func MergeCompact(doc, patch []byte) ([]byte, error) {
	t := newTree(orEmpty(doc))
	if err := t.root.merge(patch); err != nil {
		return nil, err
	}
	return t.bytes(), nil
}

// orEmpty returns doc, {} when it is absent.
func orEmpty(doc []byte) []byte {
	if doc == nil {
		return []byte("{}")
	}
	return doc
}

// merge recurses as deep as the patch nests, which Compact bounded.
func (n *node) merge(patch []byte) error {
	if KindOf(patch) != Object {
		return n.replace(patch)
	}
	if n.kind() != Object {
		if !bytes.Contains(patch, []byte("null")) { // nothing to leave out
			return n.replace(patch)
		}
		if err := n.replace([]byte("{}")); err != nil {
			return err
		}
	}
	n.open()
	for name, value := range Members(patch) {
		i := n.member(Unquote(name))
		switch {
		case KindOf(value) == Null:
			if i >= 0 {
				n.remove(i)
			}
			continue
		case i < 0:
			n.addMember(name)
			i = len(n.kids) - 1
		}
		if err := n.child(i).merge(value); err != nil {
			return err
		}
	}
	return nil
}
