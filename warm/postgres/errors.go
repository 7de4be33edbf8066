package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// errClosed is returned by every method after Close.
var errClosed = errors.New("the store is closed")

// SQLSTATEs that are told apart.
const (
	stateUnique      = "23505"
	stateSerial      = "40001"
	stateDeadlock    = "40P01"
	stateLockTimeout = "55P03"
	stateUnprojected = "TI003" // a commit does not know that documents of a namespace are indexed
)

// sqlState returns the SQLSTATE of a server's error, "" for any other.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// violates reports whether err is a repeat under a unique constraint.
func violates(err error, constraint string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == stateUnique && e.ConstraintName == constraint
}

// again reports whether the server rolled a transaction back that may simply
// be tried once more.
func again(err error) bool {
	switch sqlState(err) {
	case stateSerial, stateDeadlock:
		return true
	case stateUnique:
		return violates(err, "request_key") || violates(err, "namespace_tenant_name_key")
	}
	return false
}

// refusedData reports whether the server refused a value: SQLSTATE classes 22
// (data), 23 (constraints, but for the one that batches are known by) and 54
// (limits).
func refusedData(err error) bool {
	s := sqlState(err)
	if len(s) != 5 || violates(err, "batch_id") {
		return false
	}
	return s[:2] == "22" || s[:2] == "23" || s[:2] == "54"
}

// rolledBack reports whether err says by itself that nothing was committed: the
// server answered, and went on living. A server that ends a session may have
// committed before, and any other fault came from the way between.
func rolledBack(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Severity == "FATAL" || e.Severity == "PANIC" || e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC" {
		return false
	}
	switch {
	case e.Code == "40003": // statement completion unknown
		return false
	case len(e.Code) == 5 && (e.Code[:2] == "08" || e.Code[:2] == "58" || e.Code[:2] == "XX"):
		return false
	}
	return true
}

// unknown marks the error of a commit that may have happened.
func unknown(err error) error {
	return fmt.Errorf("%w: %w", warm.ErrOutcomeUnknown, err)
}

// explain gives a code to the faults that a caller can act on. Everything else
// stays raw.
func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*tiering.Error](err); ok {
		return err
	}
	switch sqlState(err) {
	case stateAnotherLife:
		// What asked under the life before a restore of its own says nothing.
		if !s.restores.Load() {
			s.ended.Store(true)
		}
		return errAnotherLife
	case "53100":
		return &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeOutOfSpace, Detail: "PostgreSQL's disk is full: free some space, nothing has to be restarted", Err: err}
	case "XX001", "XX002":
		return &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Detail: "PostgreSQL reports damaged data: restore the database or rebuild it from cold", Err: err}
	}
	return err
}

// lost reports whether err says that the connection is gone.
func lost(err error) bool {
	if s := sqlState(err); s != "" {
		return s == "57P01" || s == "57P02" || s[:2] == "08"
	}
	return errors.Is(err, errSilent) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
