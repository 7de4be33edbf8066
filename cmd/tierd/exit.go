package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/tiering"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
)

// usageError is a command line that makes no sense.
type usageError struct{ detail string }

func (e *usageError) Error() string { return e.detail }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// conflictError is a conflict that this program found by itself.
type conflictError struct{ detail string }

func (e *conflictError) Error() string { return e.detail }

// advisedError is an error that knows better than its code what to do next.
type advisedError struct {
	error
	next string
}

func (e *advisedError) Unwrap() error { return e.error }

// configError is a configuration that must not be served.
type configError struct{ faults []config.Fault }

func (e *configError) Error() string {
	lines := []string{"the configuration has faults:"}
	for _, f := range e.faults {
		lines = append(lines, "  "+f.String())
	}
	return strings.Join(lines, "\n")
}

// exitCode maps an error to what a script can act on.
func exitCode(err error) int {
	var usage *usageError
	var conf *configError
	var conflict *conflictError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.As(err, &conf):
		return exitUsage
	case errors.As(err, &conflict):
		return exitConflict
	case errors.Is(err, context.Canceled):
		return exitFailed // interrupted by the user, not by the daemon
	}
	switch tiering.CodeOf(err) {
	case tiering.CodeNotFound, tiering.CodeGone:
		return exitNotFound
	case tiering.CodeVersionConflict, tiering.CodeSeqConflict, tiering.CodePreconditionRequired,
		tiering.CodeWrongKind, tiering.CodeFenced, tiering.CodeLeaseHeld,
		tiering.CodeIdempotencyMismatch, tiering.CodeIdempotencyInFlight:
		return exitConflict
	case tiering.CodeUnavailable, tiering.CodeRateLimited, tiering.CodeOutOfSpace:
		return exitUnavailable
	}
	return exitFailed
}

// fail reports err on stderr and returns the exit code.
func (p *process) fail(err error) int {
	// Nothing can be done when stderr is closed; the exit code still tells.
	if p.json {
		_ = encodeJSON(p.stderr, problemOf(err), false)
	} else {
		_, _ = io.WriteString(p.stderr, describe(err, p.url))
	}
	return exitCode(err)
}

// problemOf is tiering.ProblemOf, with words for errors of this program.
func problemOf(err error) *tiering.Problem {
	if e, ok := errors.AsType[*tiering.Error](err); ok {
		problem := tiering.ProblemOf(err)
		problem.Detail = detailAndCause(e)
		return problem
	}
	// "failed" is this program's own code, for what never reached a daemon.
	problem := &tiering.Problem{Code: "failed", Status: 500, Detail: err.Error()}
	switch exitCode(err) {
	case exitUsage:
		problem.Code, problem.Status = tiering.CodeInvalid, tiering.CodeInvalid.Status()
	case exitConflict:
		problem.Code, problem.Status = tiering.CodeVersionConflict, tiering.CodeVersionConflict.Status()
	}
	problem.Type, problem.Title = "urn:tierd:problem:"+string(problem.Code), string(problem.Code)
	return problem
}

// describe writes an error for a person: what happened, where, and what to do.
func describe(err error, url string) string {
	var b strings.Builder
	var e *tiering.Error
	switch {
	case errors.Is(err, context.Canceled):
		b.WriteString("tierd: interrupted\n")
	case errors.As(err, &e):
		fmt.Fprintf(&b, "tierd: %s\n", headline(err, e))
		for _, f := range e.Faults {
			fmt.Fprintf(&b, "  at %s: %s\n", orRoot(f.Pointer), f.Detail)
		}
		if len(e.Siblings) > 0 {
			fmt.Fprintf(&b, "  there is: %s\n", strings.Join(e.Siblings, ", "))
		}
		next := advice(e, url)
		if advised, ok := errors.AsType[*advisedError](err); ok {
			next = advised.next
		}
		if next != "" {
			fmt.Fprintf(&b, "  %s\n", next)
		}
	default:
		fmt.Fprintf(&b, "tierd: %v\n", err)
	}
	return b.String()
}

// headline is one line: the context that this program added, the key, the
// code, the detail and the place.
func headline(err error, e *tiering.Error) string {
	prefix := ""
	if full, own := err.Error(), e.Error(); full != own {
		prefix = strings.TrimSuffix(full, own)
	}
	switch {
	case e.Key.ID != "":
		prefix += e.Key.String() + ": "
	case e.Key.Namespace != "":
		prefix += e.Key.Namespace + ": "
	}
	line := prefix + strings.ReplaceAll(string(e.Code), "_", " ")
	if detail := strings.TrimPrefix(detailAndCause(e), string(e.Code)+": "); detail != "" {
		line += ": " + detail
	}
	if e.Pointer != "" {
		line += " (at " + e.Pointer + ")"
	}
	return line
}

// detailAndCause says all that is known. A cause arose on this machine, such as
// a refused connection: a daemon sends none.
func detailAndCause(e *tiering.Error) string {
	switch {
	case e.Err == nil:
		return e.Detail
	case e.Detail == "":
		return e.Err.Error()
	}
	return e.Detail + ": " + e.Err.Error()
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "the top"
	}
	return pointer
}

// advice says what to do next, "" when the detail says it all.
func advice(e *tiering.Error, url string) string {
	switch e.Code {
	case tiering.CodeVersionConflict:
		if e.CurrentVersion == 0 {
			return "nothing stands there now: leave --if-version away, or say --if-version 0"
		}
		return fmt.Sprintf("version %d stands now: read it, then try again with --if-version %d", e.CurrentVersion, e.CurrentVersion)
	case tiering.CodeSeqConflict:
		if e.CurrentVersion == 0 {
			return "there is no such log now: leave --expect-seq away, or say --expect-seq 0"
		}
		return fmt.Sprintf("%d is the last sequence number now: read what was added, then try again with --expect-seq %d", e.CurrentVersion, e.CurrentVersion)
	case tiering.CodePreconditionRequired:
		return "say which version you have read with --if-version N; 0 is for a document that is not there yet"
	case tiering.CodeUnauthenticated:
		return "give a key with --api-key-file FILE or TIERD_API_KEY; tierd keys create --data DIR, or --direct for a store in PostgreSQL, makes a first one"
	case tiering.CodeForbidden:
		return "use a key whose scope covers this: tierd keys ls shows them"
	case tiering.CodeUnavailable, tiering.CodeRateLimited, tiering.CodeIdempotencyInFlight:
		network, ok := errors.AsType[*net.OpError](e)
		switch {
		case ok && network.Op == "dial" && url != "":
			return fmt.Sprintf("no daemon answers at %s: start one with tierd serve, or name another with --url or TIERD_URL", config.Redact(url))
		case e.Err != nil && url != "":
			return fmt.Sprintf("see that %s is the daemon's address, and try again", config.Redact(url))
		}
		if e.RetryAfter > 0 {
			return fmt.Sprintf("try again in %s", e.RetryAfter.Round(time.Second))
		}
		return "try again later; tierd status shows which tier is down"
	case tiering.CodeCorrupt:
		if e.Tier == tiering.Warm {
			return "stop the daemon, move the store's files aside, and run tierd rebuild --from backup, or --from primary"
		}
	case tiering.CodeOutOfSpace:
		return "free space on the daemon's disk; it recovers without a restart"
	}
	return ""
}

// encodeJSON writes v as one line of JSON, or indented. Text is written as it
// is: < and > are not escaped.
func encodeJSON(w io.Writer, v any, indent bool) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}
