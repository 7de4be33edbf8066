package jsondoc

// Diff returns a JSON patch (RFC 6902) that turns from into a document that is
// Equal to to; both are compacted. Arrays keep what they have in common at
// their start and end, so that an append is one add. When the whole of to is
// shorter than the patch, the patch replaces the document.
func Diff(from, to []byte) ([]byte, error) {
	d := differ{out: []byte{'['}}
	d.compare(from, to)
	d.out = append(d.out, ']')
	if len(d.out) <= len(to)+len(`[{"op":"replace","path":"","value":}]`) {
		return d.out, nil
	}
	whole := differ{out: []byte{'['}}
	whole.emit("replace", to)
	return append(whole.out, ']'), nil
}

// differ writes the operations of a patch. path is the pointer to what is
// compared.
type differ struct {
	out  []byte
	path []byte
}

// emit writes one operation at the path; value is nil for remove.
func (d *differ) emit(op string, value []byte) {
	if len(d.out) > 1 {
		d.out = append(d.out, ',')
	}
	d.out = append(append(append(d.out, `{"op":"`...), op...), `","path":`...)
	d.out = quote(d.out, string(d.path))
	if value != nil {
		d.out = append(append(d.out, `,"value":`...), value...)
	}
	d.out = append(d.out, '}')
}

// at runs visit one step further down.
func (d *differ) at(token string, visit func()) {
	n := len(d.path)
	d.path = append(append(d.path, '/'), escapeToken(token)...)
	visit()
	d.path = d.path[:n]
}

func (d *differ) compare(from, to []byte) {
	switch kind := KindOf(from); {
	case string(from) == string(to):
	case kind == Object && KindOf(to) == Object:
		d.objects(from, to)
	case kind == Array && KindOf(to) == Array:
		d.arrays(from, to)
	case !Equal(from, to):
		d.emit("replace", to)
	}
}

func (d *differ) objects(from, to []byte) {
	old, kept := map[string][]byte{}, map[string]bool{}
	for name, value := range Members(from) {
		old[Unquote(name)] = value
	}
	for name := range Members(to) {
		kept[Unquote(name)] = true
	}
	for quoted := range Members(from) {
		if name := Unquote(quoted); !kept[name] {
			d.at(name, func() { d.emit("remove", nil) })
		}
	}
	for quoted, value := range Members(to) {
		name := Unquote(quoted)
		d.at(name, func() {
			if before, ok := old[name]; ok {
				d.compare(before, value)
			} else {
				d.emit("add", value)
			}
		})
	}
}

func (d *differ) arrays(from, to []byte) {
	a, b := elementsOf(from), elementsOf(to)
	start := 0
	for len(a) > 0 && len(b) > 0 && Equal(a[0], b[0]) {
		a, b, start = a[1:], b[1:], start+1
	}
	for len(a) > 0 && len(b) > 0 && Equal(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	both := min(len(a), len(b))
	for i := range both {
		d.at(indexToken(start+i), func() { d.compare(a[i], b[i]) })
	}
	for i := len(a) - 1; i >= both; i-- { // from behind, so that indexes hold
		d.at(indexToken(start+i), func() { d.emit("remove", nil) })
	}
	for i := both; i < len(b); i++ {
		d.at(indexToken(start+i), func() { d.emit("add", b[i]) })
	}
}

func elementsOf(array []byte) [][]byte {
	var elements [][]byte
	for element := range Elements(array) {
		elements = append(elements, element)
	}
	return elements
}
