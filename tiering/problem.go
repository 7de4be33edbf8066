package tiering

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"
)

// BodyFault is the error (422) of a body that encoding/json could not read into
// what it should be, in words that name no Go type.
func BodyFault(err error) *Error {
	out := Unprocessablef("", "the body does not have the form that is asked for")
	out.Err = err
	var own *Error
	var kind *json.UnmarshalTypeError
	var clock *time.ParseError
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.As(err, &own):
		out.Pointer, out.Detail = own.Pointer, own.Detail
	case errors.As(err, &kind):
		out.Detail = kind.Value + " is not what this field takes"
		if kind.Type != nil && kind.Type.Kind() == reflect.Float32 && strings.HasPrefix(kind.Value, "number ") {
			out.Detail = kind.Value + " is too large: use numbers of single precision, up to 3.4e38"
		}
		out.Pointer = bodyPointer(kind.Field)
	case errors.As(err, &clock):
		out.Detail = "not a time such as 2026-01-31T12:00:00Z"
	case unknown:
		out.Pointer, out.Detail = "/"+strings.Trim(name, `"`), "unknown field"
	}
	return out
}

// bodyPointer is the pointer to a field as encoding/json names it, which names
// embedded Go types too: they begin with a capital, and no member of the API does.
func bodyPointer(field string) string {
	pointer := ""
	for part := range strings.SplitSeq(field, ".") {
		if part != "" && !('A' <= part[0] && part[0] <= 'Z') {
			pointer += "/" + part
		}
	}
	return pointer
}

// Problem is an RFC 9457 problem document, the body of every HTTP error.
type Problem struct {
	Type           string   `json:"type"`
	Title          string   `json:"title"`
	Status         int      `json:"status"`
	Detail         string   `json:"detail,omitempty"`
	Code           Code     `json:"code"`
	Pointer        string   `json:"pointer,omitempty"`
	CurrentVersion *int64   `json:"current_version,omitempty"`
	Errors         []Fault  `json:"errors,omitempty"`
	Siblings       []string `json:"siblings,omitempty"`
	FailedOp       *int     `json:"failed_op,omitempty"`
	// Lease goes with lease_held: who holds it, and until when.
	Lease *HeldLease `json:"lease,omitempty"`
}

// ProblemOf returns the problem document of err, without its cause: a remote
// caller sees the code, the detail and where the fault lies.
func ProblemOf(err error) *Problem {
	var e *Error
	if !errors.As(err, &e) {
		return &Problem{Type: "about:blank", Title: "internal", Status: 500, Code: CodeCorrupt, Detail: "internal error"}
	}
	p := &Problem{
		Type: "urn:tierd:problem:" + string(e.Code), Title: string(e.Code), Status: e.Status(),
		Detail: e.Detail, Code: e.Code, Pointer: e.Pointer, Errors: e.Faults, Siblings: e.Siblings, Lease: e.Lease,
	}
	if e.Code == CodeVersionConflict || e.Code == CodeSeqConflict {
		v := e.CurrentVersion
		p.CurrentVersion = &v
	}
	if e.Batch {
		i := e.FailedOp
		p.FailedOp = &i
	}
	return p
}

// Error returns the problem as the *Error it was made from.
func (p *Problem) Error() *Error {
	e := &Error{
		Code: p.Code, Detail: p.Detail, Pointer: p.Pointer, Faults: p.Errors, Siblings: p.Siblings, Lease: p.Lease,
		Unprocessable: p.Code == CodeInvalid && p.Status == 422,
	}
	if p.CurrentVersion != nil {
		e.CurrentVersion = *p.CurrentVersion
	}
	if p.FailedOp != nil {
		e.Batch, e.FailedOp = true, *p.FailedOp
	}
	return e
}
