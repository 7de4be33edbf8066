package sqlite

import (
	"context"
	"time"

	"github.com/tierd/tierd/warm"
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
			l.Holder, l.Token, l.Expires = text(row[0]), num(row[1]), fromMicros(num(row[2]))
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
			name, l.Holder, l.Token, micros(l.Expires))
		return err
	})
	return l, ok && err == nil, err
}

// Release implements warm.Leases.
func (s *Store) Release(ctx context.Context, l warm.Lease) error {
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`UPDATE lease SET holder = '', expires = 0 WHERE name = ? AND holder = ? AND token = ?`, l.Name, l.Holder, l.Token)
		return err
	})
}
