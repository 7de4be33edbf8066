// Package idrange makes ranges of ids, in the byte order of keys, out of prefixes.
package idrange

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// Range holds the ids from From, inclusive, to To, exclusive; a nil To is no end.
type Range struct{ From, To []byte }

// Prefix is the range of the ids that start with p.
func Prefix(p string) Range {
	end := []byte(p)
	for len(end) > 0 && end[len(end)-1] == 0xff { // bytes.TrimRight would trim runes, U+FFFD too
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return Range{From: []byte(p)}
	}
	end[len(end)-1]++
	return Range{From: []byte(p), To: end}
}

// Prefixes returns the ranges of the ids that start with prefix and, unless prefixes
// is empty, with one of prefixes: in order, and none over another.
func Prefixes(prefix string, prefixes []string) []Range {
	if len(prefixes) == 0 {
		return []Range{Prefix(prefix)}
	}
	var out []Range
	last := ""
	for i, p := range slices.Sorted(slices.Values(prefixes)) {
		switch {
		case i > 0 && strings.HasPrefix(p, last):
			continue // inside the one before
		case strings.HasPrefix(p, prefix):
			out = append(out, Prefix(p))
		case strings.HasPrefix(prefix, p):
			return []Range{Prefix(prefix)}
		}
		last = p
	}
	return out
}

// IDOrPrefix is the range of the ids that start with prefix or, where that is empty,
// of id alone. Its To is never nil.
func IDOrPrefix(id, prefix string) Range {
	if prefix == "" {
		return Range{From: []byte(id), To: []byte(id + "\x00")}
	}
	r := Prefix(prefix)
	if r.To == nil {
		r.To = bytes.Repeat([]byte{0xff}, tiering.MaxIDLength+1)
	}
	return r
}
