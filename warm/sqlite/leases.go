package sqlite

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// Acquire implements warm.Leases. The row stays after a release, so that the
// token goes on growing.
func (s *Store) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (l warm.Lease, ok bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		row, found, err := t.one(`SELECT holder, token, expires FROM lease WHERE name = ?`, name)
		if err != nil {
			return err
		}
		l = warm.Lease{Name: name}
		if found {
			l.Holder, l.Token, l.Expires = text(row[0]), num(row[1]), column.Time(num(row[2]))
		}
		held := l.Holder != "" && t.now.Before(l.Expires)
		if held && l.Holder != holder {
			return errRollback
		}
		if !held {
			l.Holder = holder
			l.Token++
		}
		ok, l.Expires = true, t.now.Add(ttl)
		_, err = t.exec(`INSERT INTO lease (name, holder, token, expires) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token, expires = excluded.expires`,
			name, l.Holder, l.Token, column.Micros(l.Expires))
		return err
	})
	return l, ok && err == nil, err
}

// holds fails when the lease of name was taken anew since token was handed out:
// whoever was paused under an older token changes nothing. A lease that was let
// go, or has run out, still stands behind its token while nobody took it; a name
// that no lease has guards nothing.
func (t *txn) holds(name string, token int64) error {
	if name == "" {
		return nil
	}
	now, err := t.number(`SELECT coalesce((SELECT token FROM lease WHERE name = ?), 0)`, name)
	if err == nil && now > token {
		err = tiering.Errorf(tiering.CodeFenced, "the lease %s was taken under token %d: %d is fenced", name, now, token)
	}
	return err
}

// fenced fails when the lease that the caller works under was taken anew.
func (t *txn) fenced(ctx context.Context) error {
	l, ok := warm.LeaseOf(ctx)
	if !ok {
		return nil
	}
	return t.holds(l.Name, l.Token)
}

// change is write for what changes the catalog.
func (s *Store) change(ctx context.Context, fn func(*txn) error) error {
	return s.write(ctx, func(t *txn) error {
		if err := t.fenced(ctx); err != nil {
			return err
		}
		return fn(t)
	})
}

// Release implements warm.Leases.
func (s *Store) Release(ctx context.Context, l warm.Lease) error {
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`UPDATE lease SET holder = '', expires = 0 WHERE name = ? AND holder = ? AND token = ?`, l.Name, l.Holder, l.Token)
		return err
	})
}
