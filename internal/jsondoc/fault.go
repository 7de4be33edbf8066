package jsondoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierd/tierd/tiering"
)

// fault reads body token by token and returns the first thing wrong with it,
// nil when nothing is. It is slower than Compact's way and says where.
func fault(body []byte, maxDepth int) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return tiering.Invalidf("the body is empty: send one JSON value")
	}
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		return tiering.Invalidf("the body starts with a byte order mark: send UTF-8 without it")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return syntaxFault(body, err)
		}
		switch token.Kind() {
		case '{', '[':
			if dec.StackDepth() > maxDepth {
				return tiering.Unprocessablef(string(dec.StackPointer()), "nested deeper than %d levels: flatten the document or split it", maxDepth)
			}
		case '0':
			if detail := numberFault([]byte(token.String())); detail != "" {
				return tiering.Unprocessablef(string(dec.StackPointer()), "%s: send it as a string", detail)
			}
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	end := int(dec.InputOffset())
	if rest := skipSpace(body, end); rest < len(body) {
		return tiering.Invalidf("%s: something follows the value: send one JSON value", position(body, rest))
	}
	return nil
}

// syntaxFault says what jsontext found, and which of the two kinds of invalid
// it is.
func syntaxFault(body []byte, err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return tiering.Invalidf("%s: the value ends too early: send it whole", position(body, len(body)))
	}
	at := min(int(syntax.ByteOffset), len(body))
	pointer := string(syntax.JSONPointer)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return tiering.Unprocessablef(pointer, "%s: the name occurs twice in one object: keep one", position(body, at))
	case loneSurrogate(body, at):
		return tiering.Unprocessablef(pointer, "%s: %s is half of a surrogate pair and no character: send both halves, or \\ufffd", position(body, at), body[at:at+6])
	case errors.Is(err, io.ErrUnexpectedEOF):
		return tiering.Invalidf("%s: the value ends too early: send it whole", position(body, len(body)))
	}
	return tiering.Invalidf("%s: %s: send valid JSON in UTF-8", position(body, at), syntax.Err)
}

// loneSurrogate reports whether an escape between \ud800 and \udfff stands at
// at, inside a string: the decoder stops at one only when its other half is
// missing.
func loneSurrogate(body []byte, at int) bool {
	if len(body)-at < 6 || body[at] != '\\' || body[at+1] != 'u' {
		return false
	}
	n, err := strconv.ParseUint(string(body[at+2:at+6]), 16, 16)
	if err != nil || n < 0xd800 || n > 0xdfff {
		return false
	}
	for i := 0; i < at; {
		if body[i] != '"' {
			i++
		} else if i = skipString(body, i); i > at {
			return true
		}
	}
	return false
}

// position says where at is, for people.
func position(body []byte, at int) string {
	line := 1 + bytes.Count(body[:at], []byte("\n"))
	return fmt.Sprintf("line %d, byte %d", line, at)
}

// numberFault says which limit a number's text breaks, "" for none.
func numberFault(text []byte) string {
	if len(text) > tiering.MaxNumberLength {
		return fmt.Sprintf("a number of %d characters, at most %d are kept", len(text), tiering.MaxNumberLength)
	}
	if len(text) < 4 { // the shortest exponent beyond the limit needs 1e400
		return ""
	}
	i := bytes.IndexByte(text, 'e')
	if i < 0 {
		i = bytes.IndexByte(text, 'E')
	}
	if i < 0 {
		return ""
	}
	if n := exponentOf(text[i+1:]); n > tiering.MaxExponent || n < -tiering.MaxExponent {
		return fmt.Sprintf("a number with an exponent of %s, at most %d is kept", text[i+1:], tiering.MaxExponent)
	}
	return ""
}
