package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool opens connections of its own to the store's database, for an index that
// lives beside it: statements are planned once a connection, for any parameters.
// It reads what memories have and owns the indexes of memory_vector; all else it
// leaves to the store. The caller closes it, before the store.
func (s *Store) Pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	return s.pool(ctx, conns, map[string]string{"jit": "off", "plan_cache_mode": "force_generic_plan"})
}
