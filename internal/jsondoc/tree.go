package jsondoc

import (
	"slices"
	"strconv"

	"github.com/tierd/tierd/tiering"
)

// maxWork bounds what the operations of one patch or edit may compare and
// shift, in bytes: the work of a small patch can be the product of its
// operations and the document. A byte copied counts copyWeight times, because
// it stays in memory and copies of copies double.
const (
	maxWork    = 256 << 20
	copyWeight = 4
)

// tree is a document being changed. Only the containers on the way to a change
// are opened into their children; everything else stays a range of the
// original bytes and is copied as it is.
type tree struct {
	root *node
	work int
}

func newTree(doc []byte) *tree { return &tree{root: &node{raw: doc}} }

// spend counts n bytes of work.
func (t *tree) spend(n int) error {
	if t.work += n; t.work > maxWork {
		return tiering.Unprocessablef("", "the operations copy and compare too much of the document: send fewer at a time")
	}
	return nil
}

// bytes returns the document as it stands; the original bytes when nothing
// changed.
func (t *tree) bytes() []byte {
	if !t.root.changed {
		return t.root.raw
	}
	return t.root.appendTo(make([]byte, 0, len(t.root.raw)+256))
}

// valueIn returns the value of n as a part of out, which bytes returned.
func (n *node) valueIn(out []byte) []byte {
	if n.changed {
		return out[n.start:n.end]
	}
	return n.raw
}

// find follows p as far as it leads and returns the last node and the number
// of steps.
func (t *tree) find(p Pointer) (n *node, steps int) {
	n = t.root
	for steps, token := range p {
		i := n.position(token)
		if i < 0 {
			return n, steps
		}
		n = n.child(i)
	}
	return n, len(p)
}

// missing is the fault of an operation whose pointer leads nowhere.
func missing(p Pointer, steps int, parent *node) *tiering.Error {
	at := p[:steps+1].String()
	raw := parent.current()
	e := tiering.Unprocessablef(at, "nothing is at %q: %s", at, whatIsAt(raw))
	e.Siblings = siblings(raw)
	return e
}

// node is one value of a tree.
type node struct {
	parent *node
	raw    []byte // the value before its children changed
	kids   []kid  // once opened
	names  map[string]int
	name   []byte // quoted; of a member that is not in the parent's raw
	start  int    // where appendTo wrote it last, and
	end    int    // where that ended
	depth  int    // containers around it
	tries  int    // look-ups by name so far
	opened bool
	// changed: the parent's raw does not hold this value any more.
	changed bool
}

// kid is a child of an opened node: a range of its raw, or a node once it was
// visited. It is small because a body of 8 MiB may hold four million.
type kid struct {
	nameAt, at, end int32
	node            *node
}

// removed marks a member that is gone; members keep their positions.
const removed = -1

// indexAfter is how many look-ups by name an object of many members takes
// before its names are indexed.
const indexAfter = 8

func (n *node) kind() Kind { return KindOf(n.raw) }

// current returns the value as it stands.
func (n *node) current() []byte {
	if !n.opened || !n.changed {
		return n.raw
	}
	return n.appendTo(nil)
}

// open finds the children.
func (n *node) open() {
	if n.opened {
		return
	}
	n.opened = true
	for c := enter(n.raw); c.next(); {
		n.kids = append(n.kids, kid{nameAt: int32(c.nameAt), at: int32(c.at), end: int32(c.end)})
	}
}

// position returns the index of the child that token names, -1 for none.
func (n *node) position(token string) int {
	switch n.kind() {
	case Object:
		n.open()
		return n.member(token)
	case Array:
		n.open()
		if i, ok := arrayIndex(token); ok && i < len(n.kids) {
			return i
		}
	}
	return -1
}

func (n *node) member(name string) int {
	n.tries++
	if n.names == nil && n.tries > indexAfter && len(n.kids) > indexAfter {
		n.names = make(map[string]int, len(n.kids))
		for i := range n.kids {
			if n.kids[i].at != removed {
				n.names[Unquote(n.nameOf(i))] = i
			}
		}
	}
	if n.names != nil {
		if i, ok := n.names[name]; ok {
			return i
		}
		return -1
	}
	for i := range n.kids {
		if n.kids[i].at != removed && isText(n.nameOf(i), name) {
			return i
		}
	}
	return -1
}

// nameOf returns the quoted name of a member.
func (n *node) nameOf(i int) []byte {
	k := n.kids[i]
	if k.node != nil && k.node.name != nil {
		return k.node.name
	}
	return n.raw[k.nameAt:skipString(n.raw, int(k.nameAt))]
}

// child returns the node of a child.
func (n *node) child(i int) *node {
	k := &n.kids[i]
	if k.node == nil {
		k.node = &node{parent: n, depth: n.depth + 1, raw: n.raw[k.at:k.end]}
	}
	return k.node
}

// mark notes that n is no longer what its ancestors' raw holds.
func (n *node) mark() {
	for ; n != nil && !n.changed; n = n.parent {
		n.changed = true
	}
}

// replace makes raw, compacted JSON, the value of n.
func (n *node) replace(raw []byte) error {
	if n.depth+depthOf(raw) > tiering.MaxDepth {
		return tiering.Unprocessablef("", "the document would nest deeper than %d levels: flatten it or split it", tiering.MaxDepth)
	}
	n.raw, n.kids, n.names, n.opened = raw, nil, nil, false
	n.mark()
	return nil
}

// insert makes room for a child before position i and returns its node, which
// has no value yet. name is quoted, nil in arrays.
func (n *node) insert(i int, name []byte) *node {
	n.open()
	added := &node{parent: n, depth: n.depth + 1, name: name}
	n.kids = slices.Insert(n.kids, i, kid{node: added})
	if n.names != nil {
		n.names[Unquote(name)] = i
	}
	added.mark()
	return added
}

// addMember appends a member without a value to an object.
func (n *node) addMember(name []byte) *node { return n.insert(len(n.kids), name) }

// remove takes out the child at position i.
func (n *node) remove(i int) {
	if n.kind() == Array {
		n.kids = slices.Delete(n.kids, i, i+1)
	} else {
		if n.names != nil {
			delete(n.names, Unquote(n.nameOf(i)))
		}
		n.kids[i] = kid{at: removed}
	}
	n.mark()
}

// appendTo appends the value as it stands to dst.
func (n *node) appendTo(dst []byte) []byte {
	n.start = len(dst)
	if n.opened && n.changed {
		dst = n.appendKids(dst)
	} else {
		dst = append(dst, n.raw...)
	}
	n.end = len(dst)
	return dst
}

// appendKids appends a container from its children. Neighbours that did not
// change are copied in one piece.
func (n *node) appendKids(dst []byte) []byte {
	dst = append(dst, n.raw[0])
	first := true
	for i := 0; i < len(n.kids); i++ {
		k := n.kids[i]
		if k.at == removed {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if !k.intact() {
			if k.node.name != nil {
				dst = append(append(dst, k.node.name...), ':')
			} else {
				dst = append(dst, n.raw[k.nameAt:k.at]...) // with its colon; nothing in arrays
			}
			dst = k.node.appendTo(dst)
			continue
		}
		end := k.end
		for i+1 < len(n.kids) && n.kids[i+1].intact() && n.kids[i+1].nameAt == end+1 {
			i++
			end = n.kids[i].end
		}
		dst = append(dst, n.raw[k.nameAt:end]...)
	}
	return append(dst, n.raw[0]+2) // ] and } stand two behind [ and {
}

// intact reports whether the parent's raw still holds the child.
func (k kid) intact() bool {
	return k.at != removed && (k.node == nil || !k.node.changed)
}

// indexToken writes an array index as a pointer's step.
func indexToken(i int) string { return strconv.Itoa(i) }
