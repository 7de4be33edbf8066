package jsondoc

import (
	"bytes"
	"cmp"
)

// Equal reports whether two JSON values mean the same: numbers by their
// decimal value, strings once unescaped, objects whatever the order of their
// members, arrays element by element.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	a, b = a[skipSpace(a, 0):], b[skipSpace(b, 0):]
	kind := KindOf(a)
	if kind != KindOf(b) {
		return false
	}
	switch kind {
	case Number:
		return CompareNumbers(a[:skipValue(a, 0)], b[:skipValue(b, 0)]) == 0
	case String:
		return sameText(a[:skipString(a, 0)], b[:skipString(b, 0)])
	case Array:
		return equalArrays(a, b)
	case Object:
		return equalObjects(a, b)
	}
	return bytes.Equal(a[:skipValue(a, 0)], b[:skipValue(b, 0)])
}

func equalArrays(a, b []byte) bool {
	ca, cb := enter(a), enter(b)
	for {
		moreA, moreB := ca.next(), cb.next()
		if !moreA || !moreB {
			return moreA == moreB
		}
		if !Equal(ca.value(), cb.value()) {
			return false
		}
	}
}

// equalObjects walks both objects side by side while they have the same
// order, which is the usual case, and matches the rest by name.
func equalObjects(a, b []byte) bool {
	ca, cb := enter(a), enter(b)
	for {
		moreA, moreB := ca.next(), cb.next()
		if !moreA || !moreB {
			return moreA == moreB
		}
		if !sameText(ca.name(), cb.name()) {
			break
		}
		if !Equal(ca.value(), cb.value()) {
			return false
		}
	}
	rest := map[string][]byte{}
	for more := true; more; more = cb.next() {
		rest[Unquote(cb.name())] = cb.value()
	}
	for more := true; more; more = ca.next() {
		name := Unquote(ca.name())
		other, ok := rest[name]
		if !ok || !Equal(ca.value(), other) {
			return false
		}
		delete(rest, name)
	}
	return len(rest) == 0
}

// CompareNumbers orders two JSON numbers by their decimal value: -1, 0 or 1.
// It compares digits in place, so a large exponent costs nothing.
func CompareNumbers(a, b []byte) int {
	x, y := parseDecimal(a), parseDecimal(b)
	if c := cmp.Compare(x.sign, y.sign); c != 0 || x.sign == 0 {
		return c
	}
	return x.sign * x.compareMagnitude(y)
}

// decimal is sign * 0.D * 10^point, where D is the digits of whole and then
// of fraction, with no zero at either end; sign is 0 for zero.
type decimal struct {
	sign            int
	whole, fraction []byte
	point           int
}

func parseDecimal(text []byte) decimal {
	d := decimal{sign: 1}
	if len(text) > 0 && text[0] == '-' {
		d.sign, text = -1, text[1:]
	}
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		d.point = exponentOf(text[i+1:])
		text = text[:i]
	}
	d.whole = text
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		d.whole, d.fraction = text[:i], text[i+1:]
	}
	d.point += len(d.whole)
	trimmed := bytes.TrimLeft(d.whole, "0")
	d.point -= len(d.whole) - len(trimmed)
	d.whole = trimmed
	d.fraction = bytes.TrimRight(d.fraction, "0")
	if len(d.fraction) == 0 {
		d.whole = bytes.TrimRight(d.whole, "0")
	}
	if len(d.whole) == 0 {
		trimmed = bytes.TrimLeft(d.fraction, "0")
		d.point -= len(d.fraction) - len(trimmed)
		d.fraction = trimmed
	}
	if len(d.whole)+len(d.fraction) == 0 {
		return decimal{}
	}
	return d
}

// exponentOf reads the digits after e; beyond a billion it stays there.
func exponentOf(text []byte) int {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	n := 0
	for _, c := range text {
		if n = n*10 + int(c-'0'); n > 1_000_000_000 {
			n = 1_000_000_000
		}
	}
	if negative {
		return -n
	}
	return n
}

func (d decimal) digits() int { return len(d.whole) + len(d.fraction) }

func (d decimal) digit(i int) byte {
	if i < len(d.whole) {
		return d.whole[i]
	}
	return d.fraction[i-len(d.whole)]
}

func (d decimal) compareMagnitude(o decimal) int {
	if c := cmp.Compare(d.point, o.point); c != 0 {
		return c
	}
	for i := range min(d.digits(), o.digits()) {
		if c := cmp.Compare(d.digit(i), o.digit(i)); c != 0 {
			return c
		}
	}
	return cmp.Compare(d.digits(), o.digits())
}
