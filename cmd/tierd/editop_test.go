package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func TestEditOperations(t *testing.T) {
	for _, c := range []struct {
		arg  string
		want tiering.EditOp
	}{
		{"set:/a=1", tiering.EditOp{Op: "set", Pointer: "/a", Value: json.RawMessage("1")}},
		{"set:=null", tiering.EditOp{Op: "set", Pointer: "", Value: json.RawMessage("null")}},
		{`set:/a/b={"x=y":"a:b"}`, tiering.EditOp{Op: "set", Pointer: "/a/b", Value: json.RawMessage(`{"x=y":"a:b"}`)}},
		{"set:/a:b=1.10", tiering.EditOp{Op: "set", Pointer: "/a:b", Value: json.RawMessage("1.10")}},
		{"increment:/n", tiering.EditOp{Op: "increment", Pointer: "/n"}},
		{"increment:/n=-2.50", tiering.EditOp{Op: "increment", Pointer: "/n", By: json.RawMessage("-2.50")}},
		{`append:/list="x"`, tiering.EditOp{Op: "append", Pointer: "/list", Value: json.RawMessage(`"x"`)}},
		{"add_to_set:/s=true", tiering.EditOp{Op: "add_to_set", Pointer: "/s", Value: json.RawMessage("true")}},
		{"remove_from_set:/s=[1]", tiering.EditOp{Op: "remove_from_set", Pointer: "/s", Value: json.RawMessage("[1]")}},
		{"max:/m=3", tiering.EditOp{Op: "max", Pointer: "/m", Value: json.RawMessage("3")}},
		{"min:/m=3", tiering.EditOp{Op: "min", Pointer: "/m", Value: json.RawMessage("3")}},
		{"remove:/b", tiering.EditOp{Op: "remove", Pointer: "/b"}},
	} {
		got, err := parseEdit(c.arg)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.arg, got, err, c.want)
		}
	}
}

func TestEditOperationsThatMakeNoSense(t *testing.T) {
	for _, arg := range []string{
		"", "set", "/a=1", "put:/a=1", "set:/a", "set:/a=", "set:/a=text", "set:a=1", "set:/a=1 2",
		"remove:/a=1", "increment:/n=", `increment:/n="1"`, "increment:/n=null", "append:/a", "SET:/a=1",
	} {
		if op, err := parseEdit(arg); exitCode(err) != exitUsage {
			t.Errorf("%q: %+v, %v; want a usage error", arg, op, err)
		}
	}
}

func FuzzParseEdit(f *testing.F) {
	for _, seed := range []string{"set:/a=1", "increment:/n", "remove:/b", `append:/l="x=y"`, "max:=0", ":", "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		op, err := parseEdit(arg)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Errorf("%q: %v", arg, err)
			}
			return
		}
		// Written out again it is the argument that was read.
		back := op.Op + ":" + op.Pointer
		if op.Value != nil || op.By != nil {
			back += "=" + string(op.Value) + string(op.By)
		}
		if back != arg {
			t.Errorf("%q became %q", arg, back)
		}
	})
}
