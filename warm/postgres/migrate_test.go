package postgres

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/warm"
)

func TestDaemonsThatStartTogetherMigrateOnce(t *testing.T) {
	u := testURL(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(context.Background(), u, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	st, err := Status(t.Context(), u)
	if err != nil || st.Version == 0 || st.Version != st.Latest {
		t.Fatalf("%+v, %v", st, err)
	}
}

func TestMigrateForthAndBack(t *testing.T) {
	u := testURL(t)
	if _, err := Open(t.Context(), u, &Options{NoMigrate: true}); err == nil || !strings.Contains(err.Error(), "tierd schema migrate") {
		t.Errorf("an empty database opened without migrating: %v", err)
	}
	for _, target := range []int64{-1, 0, -1} {
		if err := Migrate(t.Context(), u, target); err != nil {
			t.Fatalf("to %d: %v", target, err)
		}
		st, err := Status(t.Context(), u)
		if want := map[bool]int64{true: 0, false: st.Latest}[target == 0]; err != nil || st.Version != want {
			t.Fatalf("after %d: %+v, %v", target, st, err)
		}
	}
	s := open(t, u, &Options{NoMigrate: true})
	if _, err := s.writers.Exec(t.Context(), `INSERT INTO schema_version (version) VALUES (99)`); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), u, nil); err == nil || !strings.Contains(err.Error(), "newer tierd") {
		t.Errorf("a schema from the future opened: %v", err)
	}
}

func TestServersThatAreNotFit(t *testing.T) {
	good := map[string]string{"server_encoding": "UTF8", "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "default_transaction_isolation": "read committed"}
	if err := unfit(150004, "15.4", good, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		version int
		setting string
		value   string
		standby bool
		says    string
	}{
		{"too old", 140011, "", "", false, "use 15 or later"},
		{"a standby", 170002, "", "", true, "use the primary"},
		{"no fsync", 170002, "fsync", "off", false, "fsync is off: set it to on"},
		{"torn pages", 170002, "full_page_writes", "off", false, "full_page_writes is off"},
		{"asynchronous commits", 170002, "synchronous_commit", "off", false, "synchronous_commit is off"},
		{"another encoding", 170002, "server_encoding", "SQL_ASCII", false, "set it to UTF8"},
		{"another isolation", 170002, "default_transaction_isolation", "serializable", false, "set it to read committed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := maps.Clone(good)
			settings[c.setting] = c.value
			if err := unfit(c.version, "X", settings, c.standby); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want one that says %q", err, c.says)
			}
		})
	}
}

// TestBehindAPooler: with statements that are not prepared no setting is made
// per session. search_path, which a pooler's database would set, comes with the
// URL here.
func TestBehindAPooler(t *testing.T) {
	s := open(t, testURL(t)+"&default_query_exec_mode=cache_describe", nil)
	begin(t, s)
	mustPut(t, s, "a", `1`)
	mustPut(t, s, "a", `{"b":1.10}`)
	if cur, err := s.Load(t.Context(), noteKey("a")); err != nil || string(cur.Body) != `{"b":1.10}` {
		t.Errorf("%s, %v", cur.Body, err)
	}
	if _, err := s.Commit(t.Context(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: noteKey("b"), Rows: []warm.Row{putRow(`1`)}}, {Key: noteKey("c"), Rows: []warm.Row{putRow(`1`), putRow(`2`)}}}}); err != nil {
		t.Error(err)
	}
	for _, pool := range []*pgxpool.Pool{s.committers, s.writers} {
		var prepared, timeout string
		if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_prepared_statements)::text, (SELECT source FROM pg_settings WHERE name = 'statement_timeout')`).Scan(&prepared, &timeout); err != nil {
			t.Fatal(err)
		}
		if prepared != "0" || timeout == "client" {
			t.Errorf("%s prepared statements, statement_timeout set by %s", prepared, timeout)
		}
	}
}
