package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool opens connections of its own to the store's database, for an index that
// lives beside it: statements are planned once a connection, for any parameters.
// It reads live_memory and owns what is in memory_vector's
// indexes; all else it leaves to the store. The caller closes it, before the
// store.
func (s *Store) Pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	return s.pool(ctx, conns, map[string]string{"jit": "off", "plan_cache_mode": "force_generic_plan"})
}
