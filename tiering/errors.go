package tiering

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is what went wrong, from a closed set. It travels over HTTP as the
// "code" of a problem document, so a remote caller sees the same code as an
// embedded one.
type Code string

// The closed set of codes.
const (
	CodeNotFound             Code = "not_found"
	CodeVersionConflict      Code = "version_conflict"
	CodeSeqConflict          Code = "seq_conflict"
	CodePreconditionRequired Code = "precondition_required"
	CodeInvalid              Code = "invalid"
	CodeUnsupported          Code = "unsupported"
	CodeWrongKind            Code = "wrong_kind"
	CodeTooLarge             Code = "too_large"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeForbidden            Code = "forbidden"
	CodeRateLimited          Code = "rate_limited"
	CodeFenced               Code = "fenced"
	CodeLeaseHeld            Code = "lease_held"
	CodeIdempotencyMismatch  Code = "idempotency_mismatch"
	CodeIdempotencyInFlight  Code = "idempotency_in_flight"
	CodeGone                 Code = "gone"
	CodeCorrupt              Code = "corrupt"
	CodeUnavailable          Code = "unavailable"
	CodeOutOfSpace           Code = "out_of_space"
)

// statuses is the one table from code to HTTP status; server and client share
// it through Code.Status and CodeForStatus. An unprocessable invalid is 422.
var statuses = []struct {
	code   Code
	status int
}{
	{CodeNotFound, 404},
	{CodeVersionConflict, 412},
	{CodeSeqConflict, 412},
	{CodePreconditionRequired, 428},
	{CodeInvalid, 400},
	{CodeUnsupported, 400},
	{CodeWrongKind, 409},
	{CodeTooLarge, 413},
	{CodeUnauthenticated, 401},
	{CodeForbidden, 403},
	{CodeRateLimited, 429},
	{CodeFenced, 409},
	{CodeLeaseHeld, 409},
	{CodeIdempotencyMismatch, 422},
	{CodeIdempotencyInFlight, 409},
	{CodeGone, 410},
	{CodeCorrupt, 500},
	{CodeUnavailable, 503},
	{CodeOutOfSpace, 507},
}

// Codes returns the closed set, in the order of the documentation.
func Codes() []Code {
	out := make([]Code, len(statuses))
	for i, s := range statuses {
		out[i] = s.code
	}
	return out
}

// Status returns the HTTP status of the code, 500 for one outside the set.
func (c Code) Status() int {
	for _, s := range statuses {
		if s.code == c {
			return s.status
		}
	}
	return 500
}

// CodeForStatus returns the code that a status alone stands for, for an answer
// without a body, such as one to HEAD. Where codes share a status it is the one
// that a read gets; a 500 that does not say corrupt is unavailable.
func CodeForStatus(status int) Code {
	switch {
	case status == 422:
		return CodeInvalid
	case status != 500:
		for _, s := range statuses {
			if s.status == status {
				return s.code
			}
		}
	}
	if status >= 500 || status == 408 || status == 425 {
		return CodeUnavailable
	}
	return CodeInvalid
}

// Error is the only kind of error that tierd returns across a package
// boundary. Drivers return raw errors; the layer above wraps each once.
type Error struct {
	Op     string // what was being done, such as "put"
	Tier   Tier   // the tier that failed; empty when none did
	Key    Key    // the key concerned; zero when none is
	Code   Code
	Detail string // what is wrong and what to do, for people

	// Pointer is the JSON Pointer (RFC 6901) to the fault in the body.
	Pointer string
	// Unprocessable marks an invalid body that is well-formed JSON: 422, not 400.
	Unprocessable bool
	// CurrentVersion goes with version_conflict and seq_conflict: the version,
	// or the last sequence number, that stands, 0 when nothing does.
	CurrentVersion int64
	// Lease goes with lease_held: who holds it, and until when.
	Lease *HeldLease
	// RetryAfter goes with unavailable and rate_limited; 0 means unsaid.
	RetryAfter time.Duration
	// Faults lists every fault of a body that broke its schema.
	Faults []Fault
	// Siblings lists the names beside a JSON Pointer that led nowhere.
	Siblings []string
	// FailedOp is the index of the operation that failed an atomic batch, with
	// Batch true.
	FailedOp int
	Batch    bool
	// Err is the cause. It is never shown to a remote caller.
	Err error
}

// Fault is one place where a body breaks its schema.
type Fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Sentinels to test for with errors.Is, which compares codes alone.
var (
	ErrNotFound        = &Error{Code: CodeNotFound}
	ErrVersionConflict = &Error{Code: CodeVersionConflict}
	ErrInvalid         = &Error{Code: CodeInvalid}
	ErrUnsupported     = &Error{Code: CodeUnsupported}
	ErrWrongKind       = &Error{Code: CodeWrongKind}
	ErrTooLarge        = &Error{Code: CodeTooLarge}
	ErrUnauthenticated = &Error{Code: CodeUnauthenticated}
	ErrForbidden       = &Error{Code: CodeForbidden}
	ErrGone            = &Error{Code: CodeGone}
	ErrCorrupt         = &Error{Code: CodeCorrupt}
	ErrUnavailable     = &Error{Code: CodeUnavailable}
	ErrOutOfSpace      = &Error{Code: CodeOutOfSpace}
)

// Error says op, key, tier and what to do, then the cause.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(" ")
	}
	if e.Key.ID != "" || e.Key.Namespace != "" {
		b.WriteString(e.Key.String())
		b.WriteString(" ")
	}
	if e.Tier != "" {
		fmt.Fprintf(&b, "(%s) ", e.Tier)
	}
	s := strings.TrimSuffix(b.String(), " ")
	if s != "" {
		s += ": "
	}
	s += string(e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Pointer != "" {
		s += " (at " + e.Pointer + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Status returns the HTTP status of the error.
func (e *Error) Status() int {
	if e.Code == CodeInvalid && e.Unprocessable {
		return 422
	}
	return e.Code.Status()
}

// Invalidf returns an invalid error (400) with a formatted detail.
func Invalidf(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Detail: fmt.Sprintf(format, args...)}
}

// Unprocessablef returns an invalid error (422) at a JSON Pointer.
func Unprocessablef(pointer, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Unprocessable: true, Pointer: pointer, Detail: fmt.Sprintf(format, args...)}
}

// Below moves what err says of a part of a document under the pointer of that
// part: its Pointer and those of its Faults. Any other error stays as it is.
func Below(err error, pointer string) error {
	var fault *Error
	if !errors.As(err, &fault) {
		return err
	}
	moved := *fault
	moved.Pointer = pointer + fault.Pointer
	moved.Faults = nil
	for _, f := range fault.Faults {
		moved.Faults = append(moved.Faults, Fault{Pointer: pointer + f.Pointer, Detail: f.Detail})
	}
	return &moved
}

// Errorf returns an error of the code with a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Wrap makes err an *Error, once: one that is already keeps its code and only
// takes op, tier and key where it has none. A deadline or a cancelled context
// is unavailable; any other foreign error from a tier is unavailable too,
// because the caller cannot tell more. One without a detail gets that of its
// code and tier. Wrap(nil) is nil.
func Wrap(err error, op string, tier Tier, key Key) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		c := *e
		if c.Op == "" {
			c.Op = op
		}
		if c.Tier == "" {
			c.Tier = tier
		}
		if c.Key == (Key{}) {
			c.Key = key
		}
		c.explain()
		return &c
	}
	c := &Error{Op: op, Tier: tier, Key: key, Code: CodeUnavailable, Err: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		c.Detail = "the deadline passed first"
	case errors.Is(err, context.Canceled):
		c.Detail = "the caller went away"
	}
	c.explain()
	return c
}

// details say for each code what is wrong, and what to do, where nothing more
// is known.
var details = map[Code]string{
	CodeNotFound:             "nothing is there",
	CodeVersionConflict:      "another version stands: read it and try again",
	CodeSeqConflict:          "another entry is the last: read it and try again",
	CodePreconditionRequired: "a condition is asked for: send If-Match or If-None-Match",
	CodeInvalid:              "the request is not valid",
	CodeUnsupported:          "this is not supported",
	CodeWrongKind:            "this kind of key does not take the request",
	CodeTooLarge:             "the request or its result is too large",
	CodeUnauthenticated:      "the API key is missing or not valid",
	CodeForbidden:            "the API key does not allow it",
	CodeRateLimited:          "too many requests: wait before the next",
	CodeFenced:               "a newer holder of the lease has taken over: stop",
	CodeLeaseHeld:            "somebody else holds the lease: wait until it ends",
	CodeIdempotencyMismatch:  "this Idempotency-Key came with another request before: use a new one",
	CodeIdempotencyInFlight:  "an earlier request with this Idempotency-Key still runs: try again",
	CodeGone:                 "it is no longer kept",
	CodeCorrupt:              "stored bytes are damaged and no sound copy was found: the node's log says which",
	CodeUnavailable:          "the node cannot do it now: try again",
	CodeOutOfSpace:           "there is no room left: free some space, then try again",
}

// unreachable says which tier it is that failed.
var unreachable = map[Tier]string{
	Hot:    "the hot tier cannot be reached: try again",
	Warm:   "the warm store cannot be reached: try again",
	Cold:   "cold storage cannot be reached: try again later",
	Vector: "the recall index cannot be reached: try again",
}

// explain gives an error without a detail that of its code and tier.
func (e *Error) explain() {
	if e.Detail == "" && e.Code == CodeUnavailable {
		e.Detail = unreachable[e.Tier]
	}
	if e.Detail == "" {
		e.Detail = details[e.Code]
	}
}

// DetailOf is the detail of err, to be said within another: without the code
// that the other has too. A foreign error's is its text.
func DetailOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return err.Error()
}

// Told is what a remote caller may read of err: its code and detail. Where it
// happened and its cause, which may name files and addresses, are left out.
func Told(err error) string {
	var e *Error
	if !errors.As(Wrap(err, "", "", Key{}), &e) {
		return ""
	}
	return string(e.Code) + ": " + e.Detail
}

// CodeOf returns the code of err, "" for nil and for foreign errors.
func CodeOf(err error) Code {
	if err == nil { // the usual case, of every read: without what errors.As allocates
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Retryable reports whether the same request may succeed later without any
// change: a tier was down, a limit was hit, or an earlier try still runs.
func Retryable(err error) bool {
	switch CodeOf(err) {
	case CodeUnavailable, CodeRateLimited, CodeIdempotencyInFlight, CodeOutOfSpace:
		return true
	}
	return false
}
