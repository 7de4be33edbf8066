package pgvector

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestSettingsEndWithTheirSession: a pooler hands a session on, with what was set
// for it. So nothing is set behind one.
func TestSettingsEndWithTheirSession(t *testing.T) {
	for query, want := range map[string]string{"": "256MB", "?default_query_exec_mode=cache_describe": ""} {
		pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none"+query)
		if err != nil {
			t.Fatal(err)
		}
		x := &Index{pool: pool}
		if got := x.lonely().RuntimeParams["maintenance_work_mem"]; got != want {
			t.Errorf("with %q maintenance_work_mem is %q, want %q", query, got, want)
		}
		pool.Close()
	}
}
