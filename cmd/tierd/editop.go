package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// parseEdits reads edit operations as the command line writes them.
func parseEdits(args []string) ([]tiering.EditOp, error) {
	ops := make([]tiering.EditOp, 0, len(args))
	for _, arg := range args {
		op, err := parseEdit(arg)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// parseEdit reads OP:POINTER=JSON. The pointer ends at the first equals sign;
// one that holds an equals sign itself has to go through --ops.
func parseEdit(arg string) (tiering.EditOp, error) {
	name, rest, ok := strings.Cut(arg, ":")
	if !ok {
		return tiering.EditOp{}, usagef("%q is no edit operation: write OP:/POINTER=JSON, such as set:/step=2", arg)
	}
	if !slices.Contains(editNames(), name) {
		return tiering.EditOp{}, usagef("%q: there is no operation %q: use one of %s", arg, name, strings.Join(editNames(), ", "))
	}
	pointer, value, hasValue := strings.Cut(rest, "=")
	if pointer != "" && pointer[0] != '/' {
		return tiering.EditOp{}, usagef("%q: a JSON Pointer starts with a slash: %s:/%s", arg, name, rest)
	}
	op := tiering.EditOp{Op: name, Pointer: pointer}
	switch {
	case name == "remove" && hasValue:
		return op, usagef("%q: remove takes no value", arg)
	case name == "remove":
		return op, nil
	case name == "increment" && !hasValue:
		return op, nil
	case !hasValue:
		return op, usagef("%q: %s needs a value: %s=JSON", arg, name, arg)
	case !json.Valid([]byte(value)):
		return op, usagef("%q: the value %s is no JSON; text stands in double quotes: %s:%s='\"text\"'", arg, value, name, pointer)
	case name == "increment":
		if c := firstByte([]byte(value)); c != '-' && (c < '0' || c > '9') {
			return op, usagef("%q: increment takes a number", arg)
		}
		op.By = json.RawMessage(value)
	default:
		op.Value = json.RawMessage(value)
	}
	return op, nil
}

func editNames() []string {
	return []string{"set", "remove", "increment", "append", "add_to_set", "remove_from_set", "max", "min"}
}

// firstByte returns the first byte of a JSON text behind white space, 0 for none.
func firstByte(raw []byte) byte {
	if s := strings.TrimLeft(string(raw[:min(len(raw), 64)]), " \t\r\n"); s != "" {
		return s[0]
	}
	return 0
}
