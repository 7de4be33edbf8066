package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/internal/longstatement"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// committing are the settings of connections that commit puts: the statement
// takes arrays of any length, and a plan made for all of them is the right one.
// Its joins, of what was handed in with what it made, are by hash. A join with a
// table would so read the whole of it: there is none.
var committing = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_nestloop":  "off",
	"enable_mergejoin": "off",
	"enable_seqscan":   "off",
	"jit":              "off",
	"work_mem":         "16MB",
}

// writing are the settings of connections that write anything else. Statements
// are short and many: tables are reached by index, whatever their statistics
// say, and nothing is planned twice.
var writing = map[string]string{
	"plan_cache_mode": "force_generic_plan",
	"enable_seqscan":  "off",
	"jit":             "off",
}

// reading are the settings of connections that read: pages are small, and to compile
// a statement takes longer than to run it.
var reading = map[string]string{"jit": "off"}

// pooled reports whether the URL says that a pooler hands out a connection a
// transaction: by asking for statements that are not prepared.
func pooled(c *pgx.ConnConfig) bool { return c.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement }

// connectTimeout bounds a connection's beginning where the URL does not.
const connectTimeout = 5 * time.Second

// leisurely runs fn on a connection of its own, where a statement may take as long as it
// takes while the server is at work for it.
func (s *Store) leisurely(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return err
	}
	return longstatement.Run(ctx, config, s.looksAfter, func(ctx context.Context, name string) (at longstatement.Sight, err error) {
		err = s.read(ctx, func(q querier) error { return q.QueryRow(ctx, longstatement.Look, name).Scan(&at.There, &at.Working) })
		return at, err
	}, fn)
}

// pool opens a pool of at most conns connections. settings are made per
// session, which a pooler does not allow.
func (s *Store) pool(ctx context.Context, conns int, settings map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns)
	config.HealthCheckPeriod = 15 * time.Second
	config.MaxConnIdleTime = 5 * time.Minute
	config.MaxConnLifetime = time.Hour
	config.MaxConnLifetimeJitter = 10 * time.Minute
	config.PingTimeout = s.opts.StatementTimeout
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.DialFunc = answering(config.ConnConfig.DialFunc, s.mostPatience())
	if !s.pooled {
		params := config.ConnConfig.RuntimeParams
		params["application_name"] = "tierd"
		params["statement_timeout"] = strconv.FormatInt(s.opts.StatementTimeout.Milliseconds(), 10)
		params["idle_in_transaction_session_timeout"] = params["statement_timeout"]
		maps.Copy(params, settings)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// refusedSettings says what to do where a pooler refuses what is set for a
// session.
func refusedSettings(err error) error {
	if f, ok := errors.AsType[*pgconn.PgError](err); ok && f.Code == "08P01" && strings.Contains(f.Message, "startup parameter") {
		return fmt.Errorf("a pooler refuses settings of a session: add default_query_exec_mode=cache_describe to the URL, and give the database of the pooler a statement_timeout: %w", err)
	}
	return err
}

// check refuses a server that is too old, or that may lose what it has
// acknowledged.
func check(ctx context.Context, c *pgx.Conn) error {
	var version int
	var name, encoding, fsync, pages, commit, isolation string
	var standby bool
	err := c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
		current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
		current_setting('default_transaction_isolation'), pg_is_in_recovery()`).
		Scan(&version, &name, &encoding, &fsync, &pages, &commit, &isolation, &standby)
	if err != nil {
		return err
	}
	return unfit(version, name, map[string]string{"server_encoding": encoding, "fsync": fsync, "full_page_writes": pages,
		"synchronous_commit": commit, "default_transaction_isolation": isolation}, standby)
}

// unfit says what is wrong with a server, all at once.
func unfit(version int, name string, settings map[string]string, standby bool) error {
	var faults []string
	if version < 150000 {
		faults = append(faults, "it is PostgreSQL "+name+": use 15 or later")
	}
	if standby {
		faults = append(faults, "it is a standby: use the primary")
	}
	for _, want := range []struct{ name, value, why string }{
		{"server_encoding", "UTF8", "documents are UTF-8"},
		{"fsync", "on", "an acknowledged write could be lost"},
		{"full_page_writes", "on", "a torn page could not be repaired"},
		{"default_transaction_isolation", "read committed", "statements rely on it"},
	} {
		if settings[want.name] != want.value {
			faults = append(faults, fmt.Sprintf("%s is %s: set it to %s (%s)", want.name, settings[want.name], want.value, want.why))
		}
	}
	if settings["synchronous_commit"] == "off" {
		faults = append(faults, "synchronous_commit is off: set it to on (an acknowledged write could be lost)")
	}
	if faults == nil {
		return nil
	}
	return fmt.Errorf("this server is not fit: %s", strings.Join(faults, "; "))
}

func newEpoch() string { return ulid.Make().String() }
