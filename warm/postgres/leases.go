package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// acquire takes a lease that is free, expired or the holder's own. The row
// stays after a release, so that the token goes on growing.
const acquire = `INSERT INTO lease AS l (name, holder, token, expires) VALUES ($2, $3, 1, ` + nowFrom + ` + $4)
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires,
		token = l.token + CASE WHEN l.holder = excluded.holder AND l.expires > excluded.expires - $4 THEN 0 ELSE 1 END
	WHERE l.holder = '' OR l.holder = excluded.holder OR l.expires <= excluded.expires - $4
	RETURNING holder, token, expires`

// Acquire implements warm.Leases.
func (s *Store) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (l warm.Lease, ok bool, err error) {
	l.Name = name
	err = s.transact(ctx, func(t *txn) error {
		ok = false
		var expires int64
		scan := func(row pgx.Rows) error {
			ok = true
			return row.Scan(&l.Holder, &l.Token, &expires)
		}
		if err := t.each(acquire, []any{s.fixedNow(), name, holder, ttl.Microseconds()}, scan); err != nil {
			return err
		}
		if !ok {
			if err := t.each(`SELECT holder, token, expires FROM lease WHERE name = $1`, []any{name}, scan); err != nil {
				return err
			}
			ok = false
		}
		l.Expires = column.Time(expires)
		return nil
	})
	return l, ok && err == nil, err
}

// holds fails when the lease of name was taken anew since token was handed out,
// and keeps it from being taken until the transaction ends: whoever was paused
// under an older token changes nothing. A lease that was let go, or has run out,
// still stands behind its token while nobody took it; a name that no lease has
// guards nothing.
func (t *txn) holds(name string, token int64) error {
	if name == "" || t.s.seams.looseLeases {
		return nil
	}
	now, err := t.number(`SELECT token FROM lease WHERE name = $1 FOR SHARE`, name)
	if err == nil && now > token {
		err = tiering.Errorf(tiering.CodeFenced, "the lease %s was taken under token %d: %d is fenced", name, now, token)
	}
	return err
}

// fenced fails when the lease that the caller works under was taken anew.
func (t *txn) fenced() error {
	l, ok := warm.LeaseOf(t.ctx)
	if !ok {
		return nil
	}
	return t.holds(l.Name, l.Token)
}

// change runs one statement that changes the catalog, and returns how many rows
// it changed.
func (s *Store) change(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = s.write(ctx, func(t *txn) error {
		if err := t.fenced(); err != nil {
			return err
		}
		n, err = t.exec(sql, args...)
		return err
	})
	return n, err
}

// Release implements warm.Leases.
func (s *Store) Release(ctx context.Context, l warm.Lease) error {
	_, err := s.exec(ctx, `UPDATE lease SET holder = '', expires = 0 WHERE name = $1 AND holder = $2 AND token = $3`, l.Name, l.Holder, l.Token)
	return err
}
