package jsondoc

import "bytes"

// WithoutNUL returns doc with every NUL in its strings and names replaced by
// U+FFFD, as projections hold it; doc itself when there is none. Of names that
// become equal by this it keeps all.
func WithoutNUL(doc []byte) []byte {
	const nul, replacement = `\u0000`, `\ufffd`
	if !bytes.Contains(doc, []byte(nul)) {
		return doc
	}
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); {
		switch {
		case doc[i] != '\\' || i+1 == len(doc):
			out = append(out, doc[i])
			i++
		case bytes.HasPrefix(doc[i:], []byte(nul)):
			out = append(out, replacement...)
			i += len(nul)
		default: // any other escape, so that \\u0000 stays a backslash and text
			out = append(out, doc[i], doc[i+1])
			i += 2
		}
	}
	return out
}
