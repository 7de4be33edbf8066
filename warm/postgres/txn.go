package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/warm/internal/column"
)

// clockNow is the server's clock in microseconds.
const clockNow = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// nowFrom is warm's clock in a statement: the parameter where a test set one,
// the server's otherwise.
const nowFrom = `coalesce($1::bigint, ` + clockNow + `)`

// fixedNow is the argument of nowFrom.
func (s *Store) fixedNow() *int64 {
	if s.opts.Clock == nil {
		return nil
	}
	now := column.Micros(s.opts.Clock().UTC())
	return &now
}

// txn is one transaction that writes.
type txn struct {
	s    *Store
	ctx  context.Context
	conn *pgxpool.Conn
	now  time.Time
	// sent says that the commit went out, from when on an error that the
	// server did not send leaves the outcome open.
	sent bool
}

// mostPatience bounds what is sent at once, which may be several statements, and a
// transaction.
func (s *Store) mostPatience() time.Duration { return 3 * s.opts.StatementTimeout }

// errRollback ends a transaction without effect and without an error.
var errRollback = errors.New("roll back")

// tries is how often a transaction that the server rolled back for the sake of
// others is run.
const tries = 12

// write runs fn in a transaction, once more when the server rolled it back for
// others' sake; so fn must do nothing but through its txn. ctx counts until the
// transaction starts; from then on it runs to its end, which the statement
// timeout bounds, because a commit that was cut short would have an unknown
// outcome.
func (s *Store) write(ctx context.Context, fn func(*txn) error) error {
	return s.transact(ctx, func(t *txn) error {
		b := &pgx.Batch{}
		b.Queue(`BEGIN`)
		b.Queue(`SELECT `+nowFrom+` FROM life($2)`, s.fixedNow(), s.life()).QueryRow(func(row pgx.Row) error { return scanTime(row, &t.now) })
		if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
		return t.commit(`COMMIT`)
	})
}

func scanTime(row pgx.Row, to *time.Time) error {
	var at int64
	err := row.Scan(&at)
	*to = column.Time(at)
	return err
}

// commit sends the last statement of a transaction.
func (t *txn) commit(statement string) error {
	t.sent = true
	tag, err := t.conn.Exec(t.ctx, statement)
	if err == nil && tag.String() == "ROLLBACK" {
		return errors.New("the server rolled the transaction back")
	}
	return err
}

// transact takes a connection, runs fn on it, and rolls back what fn left
// open. An error after the commit was sent is unknown unless the server sent
// it.
func (s *Store) transact(ctx context.Context, fn func(*txn) error) (err error) {
	return s.transactOn(ctx, s.writers, fn)
}

func (s *Store) transactOn(ctx context.Context, pool *pgxpool.Pool, fn func(*txn) error) (err error) {
	for try := 0; ; try++ {
		if err = s.alive(ctx); err != nil {
			return err
		}
		if err = s.attempt(ctx, pool, fn); !again(err) || try >= tries {
			return s.explain(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 6))))
	}
}

// acquire takes a connection out of a pool.
func (s *Store) acquire(ctx context.Context, p *pgxpool.Pool) (*pgxpool.Conn, error) {
	if s.Away() {
		return nil, errAway
	}
	conn, err := s.server.acquire(ctx, p)
	if err != nil {
		if end := s.alive(ctx); end != nil {
			return nil, end
		}
	}
	return conn, err
}

func (s *Store) attempt(ctx context.Context, pool *pgxpool.Pool, fn func(*txn) error) (err error) {
	conn, err := s.acquire(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { s.server.release(conn, err) }()
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.mostPatience())
	defer cancel()
	t := &txn{s: s, ctx: own, conn: conn}
	err = fn(t)
	if err != nil || conn.Conn().PgConn().TxStatus() != 'I' {
		t.rollback()
	}
	if errors.Is(err, errRollback) {
		return nil
	}
	switch {
	case err == nil || rolledBack(err):
		return err
	case t.sent:
		return unknown(err)
	case s.Away():
		return errAway // the caller gets no more from what the connection said
	}
	return err
}

// rollback leaves the connection clean, or closed.
func (t *txn) rollback() {
	c := t.conn.Conn()
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.s.opts.StatementTimeout)
	defer cancel()
	if _, err := c.Exec(ctx, `ROLLBACK`); err != nil {
		_ = c.Close(ctx) // the pool makes a new one
	}
}

// exec runs a statement and returns how many rows it changed.
func (t *txn) exec(sql string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// each calls scan for every row.
func (t *txn) each(sql string, args []any, scan func(pgx.Rows) error) error {
	return each(t.ctx, t.conn, sql, args, scan)
}

// number returns the single integer of the answer, 0 when there is none or it
// is NULL.
func (t *txn) number(sql string, args ...any) (int64, error) {
	return number(t.ctx, t.conn, sql, args...)
}

// yes returns the single boolean of the answer.
func (t *txn) yes(sql string, args ...any) (yes bool, err error) {
	err = t.conn.QueryRow(t.ctx, sql, args...).Scan(&yes)
	return yes, err
}

func each(ctx context.Context, q querier, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return drain(rows, scan)
}

func drain(rows pgx.Rows, scan func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func number(ctx context.Context, q querier, sql string, args ...any) (int64, error) {
	var n *int64
	err := q.QueryRow(ctx, sql, args...).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil || n == nil {
		return 0, err
	}
	return *n, nil
}

// orRollback is errRollback, but for an error.
func orRollback(err error) error {
	if err == nil {
		return errRollback
	}
	return err
}

// read runs fn on a connection that reads, once more when the connection
// turned out to be dead: after the server was restarted, say.
// fn takes no other connection: enough callers that did would wait for each
// other.
func (s *Store) read(ctx context.Context, fn func(querier) error) error {
	return s.twice(ctx, func() error { return s.readOnce(ctx, fn) })
}

func (s *Store) twice(ctx context.Context, fn func() error) error {
	for try := 0; ; try++ {
		if err := s.alive(ctx); err != nil {
			return err
		}
		err := fn()
		if err == nil || ctx.Err() != nil || try > 0 || !lost(err) {
			if end := ctx.Err(); err != nil && end != nil {
				return end
			}
			return s.explain(err)
		}
	}
}

func (s *Store) readOnce(ctx context.Context, fn func(querier) error) error {
	return s.on(ctx, s.readers, fn)
}

// on runs fn on a connection of a pool.
func (s *Store) on(ctx context.Context, pool *pgxpool.Pool, fn func(querier) error) (err error) {
	conn, err := s.acquire(ctx, pool)
	if err != nil {
		return err
	}
	defer func() {
		s.server.release(conn, err)
		if err != nil && s.Away() {
			err = errAway // nothing of a read is half done
		}
	}()
	return fn(conn)
}

// exec runs one statement that is a transaction by itself and may run twice.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = s.transact(ctx, func(t *txn) error {
		b := &pgx.Batch{}
		b.Queue(askLife, s.life())
		b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
			n = tag.RowsAffected()
			return nil
		})
		return t.conn.SendBatch(t.ctx, b).Close()
	})
	return n, err
}
