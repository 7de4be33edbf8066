package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/tierd/tierd/tiering"
)

// schemaPrefix is where components lie in the OpenAPI document.
const schemaPrefix = "#/components/schemas/"

// maxFaults bounds how many faults of a body are told.
const maxFaults = 100

// bodySchema validates one kind of typed body. Safe for concurrent use.
type bodySchema struct {
	compiled   *jsonschema.Schema
	root       *huma.Schema
	components map[string]*huma.Schema
	printer    *message.Printer
}

// compileBodies compiles the components that the operations' bodies name, out
// of the OpenAPI document itself.
func compileBodies(openapi []byte, components map[string]*huma.Schema, ops []*operation) (map[string]*bodySchema, error) {
	const url = "urn:tierd:openapi"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(url, doc); err != nil {
		return nil, err
	}
	out := map[string]*bodySchema{}
	for _, op := range ops {
		if op.body == nil || op.body.component == "" {
			continue
		}
		name := op.body.component
		compiled, err := compiler.Compile(url + schemaPrefix + name)
		if err != nil {
			return nil, fmt.Errorf("server: schema of %s: %w", op.id, err)
		}
		out[name] = &bodySchema{compiled: compiled, root: components[name], components: components,
			printer: message.NewPrinter(language.English)}
	}
	return out, nil
}

// decode checks b and reads it into v.
func (s *bodySchema) decode(b []byte, v any) error {
	if err := s.check(b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return tiering.BodyFault(err)
	}
	return nil
}

// check reports malformed JSON as 400, and every place that breaks the schema
// as one 422.
func (s *bodySchema) check(b []byte) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return tiering.Invalidf("the body is empty: want a JSON object")
	}
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	outline, err := s.outline(dec, s.root, 0)
	if err != nil {
		return jsonFault(err)
	}
	if _, err := dec.ReadToken(); err == nil {
		return tiering.Invalidf("more follows the JSON value at byte %d", dec.InputOffset())
	} else if !errors.Is(err, io.EOF) {
		return jsonFault(err)
	}
	err = s.compiled.Validate(outline)
	var invalid *jsonschema.ValidationError
	if err == nil {
		return nil
	}
	if !errors.As(err, &invalid) {
		return err
	}
	out := &tiering.Error{Code: tiering.CodeInvalid, Unprocessable: true, Detail: "the body breaks its schema",
		Faults: s.faults(nil, invalid)}
	slices.SortStableFunc(out.Faults, func(a, b tiering.Fault) int { return strings.Compare(a.Pointer, b.Pointer) })
	if len(out.Faults) > 0 {
		out.Pointer = out.Faults[0].Pointer
	}
	return out
}

// outline reads a value for the validator. What the schema leaves open, such
// as the documents inside a batch, is skipped over and not decoded: an empty
// value of its type stands for it. Duplicate names, invalid UTF-8 and lone
// surrogates are refused everywhere.
func (s *bodySchema) outline(dec *jsontext.Decoder, schema *huma.Schema, depth int) (any, error) {
	if depth > tiering.MaxDepth {
		return nil, tiering.Unprocessablef(string(dec.StackPointer()), "nested deeper than %d", tiering.MaxDepth)
	}
	for schema != nil && schema.Ref != "" {
		schema = s.components[strings.TrimPrefix(schema.Ref, schemaPrefix)]
	}
	unbound := schema == nil || schema.Type == "" && schema.OneOf == nil && schema.AnyOf == nil
	switch k := dec.PeekKind(); {
	case k == '{' && (unbound || schema.Properties == nil):
		return map[string]any{}, dec.SkipValue()
	case k == '[' && (unbound || schema.Items == nil):
		return []any{}, dec.SkipValue()
	case k == '"' && unbound:
		return "", dec.SkipValue()
	case k == '{':
		return s.outlineObject(dec, schema, depth)
	case k == '[':
		return s.outlineArray(dec, schema, depth)
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return tok.String(), nil
	}
	text := tok.String()
	if unbound {
		return json.Number("0"), nil
	}
	// The validator computes with exact numbers, and an exponent costs it
	// memory in proportion.
	if !plainNumber(text) {
		return nil, tiering.Unprocessablef(string(dec.StackPointer()), "the number is longer than %d characters or its exponent is beyond %d",
			tiering.MaxNumberLength, tiering.MaxExponent)
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && s.wantsWhole(schema) {
		return nil, tiering.Unprocessablef(string(dec.StackPointer()), "%s is not a whole number of at most 64 bits, written without a fraction or an exponent", clip(text))
	}
	return json.Number(text), nil
}

// wantsWhole reports whether a number under schema has to be an integer. To the
// validator 1.0 is one, to what reads the body it is not.
func (s *bodySchema) wantsWhole(schema *huma.Schema) bool {
	return schema.Type == huma.TypeInteger || slices.ContainsFunc(slices.Concat(schema.OneOf, schema.AnyOf), s.wantsWhole)
}

func (s *bodySchema) outlineObject(dec *jsontext.Decoder, schema *huma.Schema, depth int) (any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // the token is good until the next read only
		if out[key], err = s.outline(dec, schema.Properties[key], depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return out, err
}

func (s *bodySchema) outlineArray(dec *jsontext.Decoder, schema *huma.Schema, depth int) (any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	out := []any{}
	for dec.PeekKind() != ']' {
		v, err := s.outline(dec, schema.Items, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := dec.ReadToken()
	return out, err
}

// plainNumber reports whether a number's text keeps tierd's limits.
func plainNumber(text string) bool {
	if len(text) > tiering.MaxNumberLength {
		return false
	}
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return true
	}
	digits := strings.TrimLeft(strings.TrimLeft(text[i+1:], "+-"), "0")
	if len(digits) > 3 {
		return false
	}
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return n <= tiering.MaxExponent
}

// jsonFault is the error of a body that is not strict JSON. What is legal by
// the grammar but ambiguous, a repeated name or half a surrogate pair, is 422.
func jsonFault(err error) error {
	var own *tiering.Error
	if errors.As(err, &own) {
		return own
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &tiering.Error{Code: tiering.CodeInvalid, Detail: "the body is not valid JSON: it ends early", Err: err}
	}
	out := &tiering.Error{Code: tiering.CodeInvalid, Pointer: string(syntax.JSONPointer), Err: err,
		Detail: fmt.Sprintf("the body is not valid JSON: %v after byte %d", syntax.Err, syntax.ByteOffset)}
	if errors.Is(err, jsontext.ErrDuplicateName) || strings.Contains(syntax.Err.Error(), "surrogate") {
		out.Unprocessable = true
	}
	return out
}

// faults flattens a validation error into the places that are wrong.
func (s *bodySchema) faults(out []tiering.Fault, e *jsonschema.ValidationError) []tiering.Fault {
	if len(out) >= maxFaults {
		return out
	}
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, tiering.Fault{Pointer: at + pointer([]string{name}), Detail: "unknown field"})
		}
		return out
	case *kind.OneOf, *kind.AnyOf:
		return append(out, tiering.Fault{Pointer: at, Detail: "fits no form allowed: " + strings.Join(s.forms(nil, e), "; ")})
	}
	if len(e.Causes) == 0 {
		return append(out, tiering.Fault{Pointer: at, Detail: s.say(e.ErrorKind)})
	}
	for _, cause := range e.Causes {
		out = s.faults(out, cause)
	}
	return out
}

// forms says why each of several forms does not fit.
func (s *bodySchema) forms(out []string, e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		return append(out, s.say(e.ErrorKind))
	}
	for _, cause := range e.Causes {
		out = s.forms(out, cause)
	}
	return out
}

// say words a fault, in place of the library where a person would not
// understand it.
func (s *bodySchema) say(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		switch k.Want {
		case lifetimePattern:
			return fmt.Sprintf("%q is not a duration such as 30m, 12h or 7d", clip(k.Got))
		case ttlPattern:
			return fmt.Sprintf("%q is not a duration such as 30m, 12h or 7d, or none", clip(k.Got))
		}
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be above " + k.Want.RatString()
	}
	return k.LocalizedString(s.printer)
}

// clip keeps a caller's value from filling the answer.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

// pointer writes names as a JSON Pointer.
func pointer(names []string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(n))
	}
	return b.String()
}
