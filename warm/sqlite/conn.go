package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	driverpkg "modernc.org/sqlite"
)

// conn is one connection with its prepared statements. It is used by one
// goroutine at a time. database/sql is left out: its locks, argument checks
// and reflection cost a batch of small rows a tenth of its time, and the two
// pools here have nothing to do that it would do.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

type stmt struct {
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
	args  []driver.NamedValue
	vals  []driver.Value
}

// A pragma is set to value, and PRAGMA must say answer when it is asked.
type pragma struct{ name, value, answer string }

// pragmas are what a connection runs with. SQLite's default page of 4096 bytes
// stays: pages of 8 KiB were no faster and double what a lone write puts in
// the log.
func pragmas(reader bool) []pragma {
	all := []pragma{
		{"busy_timeout", "5000", "5000"},
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},
		{"secure_delete", "ON", "1"},
		{"foreign_keys", "OFF", "0"},
		{"wal_autocheckpoint", "1000", "1000"},
		{"temp_store", "MEMORY", "2"},
	}
	if reader {
		return append(all, pragma{"cache_size", "-4096", "-4096"}, pragma{"query_only", "ON", "1"})
	}
	return append(all, pragma{"cache_size", "-16384", "-16384"}) // KiB
}

// dial opens a connection. A reader can not write, whatever it is told.
func dial(ctx context.Context, path string, reader bool) (*conn, error) {
	// As a URI, so that a path may hold a question mark. The pragmas are not
	// part of it: the driver would run them in the order of their names.
	connector, err := driverpkg.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath())
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]*stmt{}}
	if err := c.configure(pragmas(reader)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// configure sets pragmas and verifies them.
func (c *conn) configure(all []pragma) error {
	for _, p := range all {
		if err := c.script("PRAGMA " + p.name + " = " + p.value); err != nil {
			return err
		}
	}
	return c.verify(all)
}

// verify asks back what was set: SQLite ignores a pragma that it does not know
// and one that comes too late.
func (c *conn) verify(all []pragma) error {
	for _, p := range all {
		got, _, err := c.one("PRAGMA " + p.name)
		if err != nil {
			return err
		}
		if len(got) != 1 || fmt.Sprint(got[0]) != p.answer {
			return fmt.Errorf("PRAGMA %s is %v after it was set to %s", p.name, got, p.value)
		}
	}
	return nil
}

// prepare returns the statement for query, made at its first use.
func (c *conn) prepare(query string) (*stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	raw, err := c.raw.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("%w, in %s", err, query)
	}
	s := &stmt{}
	var execs, queries bool
	s.exec, execs = raw.(driver.StmtExecContext)
	s.query, queries = raw.(driver.StmtQueryContext)
	if !execs || !queries {
		return nil, errors.New("the SQLite driver has no statements with contexts")
	}
	c.stmts[query] = s
	return s, nil
}

// bind puts args, each an int64, string, []byte or nil, into the statement.
func (s *stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// unbind lets go of bodies and keys between two uses.
func (s *stmt) unbind() { clear(s.args) }

// exec runs a statement to its end and returns the number of rows it changed.
// It can not be cancelled: transactions end by themselves.
func (c *conn) exec(query string, args ...any) (changed int64, err error) {
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert is exec for one new row; it returns the row's number.
func (c *conn) insert(query string, args ...any) (rowid int64, err error) {
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (c *conn) run(query string, args []any) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	defer s.unbind()
	return s.exec.ExecContext(context.Background(), s.bind(args))
}

// each calls row for every row of the answer. The values of a row hold until
// row returns; a []byte in them is the caller's to keep.
func (c *conn) each(ctx context.Context, query string, args []any, row func([]driver.Value) error) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	defer s.unbind()
	rows, err := s.query.QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if end := rows.Close(); err == nil {
			err = end
		}
	}()
	if s.vals == nil {
		s.vals = make([]driver.Value, len(rows.Columns()))
	}
	defer clear(s.vals)
	for {
		switch err := rows.Next(s.vals); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := row(s.vals); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// one returns the first row, ok false when there is none.
func (c *conn) one(query string, args ...any) (row []driver.Value, ok bool, err error) {
	err = c.each(context.Background(), query, args, func(vals []driver.Value) error {
		if !ok {
			row, ok = append([]driver.Value(nil), vals...), true
		}
		return nil
	})
	return row, ok, err
}

// number returns the single integer of the answer, 0 when there is none or it
// is NULL.
func (c *conn) number(query string, args ...any) (int64, error) {
	var n int64
	err := c.each(context.Background(), query, args, func(vals []driver.Value) error {
		n = num(vals[0])
		return nil
	})
	return n, err
}

// script runs several statements.
func (c *conn) script(text string) error {
	ec, ok := c.raw.(driver.ExecerContext)
	if !ok {
		return errors.New("the SQLite driver can not run scripts")
	}
	_, err := ec.ExecContext(context.Background(), text, nil)
	return err
}

// close finalizes the statements and closes the connection.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		if cl, ok := s.exec.(io.Closer); ok {
			errs = append(errs, cl.Close())
		}
	}
	clear(c.stmts)
	return errors.Join(append(errs, c.raw.Close())...)
}

// num, text and blob read a value of a row; NULL is the zero value.
func num(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func text(v driver.Value) string {
	s, _ := v.(string)
	return s
}

func blob(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}
