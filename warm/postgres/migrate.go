package postgres

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/tierd/tierd/warm/internal/schema"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// SchemaStatus says how far a database's schema has come.
type SchemaStatus struct {
	Version int64 // the last migration that ran; 0: none
	Latest  int64 // the last one that this binary knows
}

// Status reads the schema's version from the database at url. It changes
// nothing.
func Status(ctx context.Context, url string) (SchemaStatus, error) {
	steps, err := schema.Steps(migrationFiles, "migrations")
	if err != nil {
		return SchemaStatus{}, err
	}
	st := SchemaStatus{Latest: int64(len(steps))}
	err = onConn(ctx, url, func(c *pgx.Conn) (err error) {
		st.Version, err = schemaVersion(ctx, c)
		return err
	})
	return st, err
}

// Migrate brings the schema of the database at url to a version: the latest
// for a negative one, an earlier one by the way back (which drops what came
// later). It is safe to race: one caller works, the others find it done. Open
// migrates by itself unless Options.NoMigrate says otherwise.
func Migrate(ctx context.Context, url string, target int64) error {
	return onConn(ctx, url, func(c *pgx.Conn) error { return migrate(ctx, c, target) })
}

// onConn runs fn on a connection of its own: migrations take longer than
// statements may in a pool. Workers use leisurely, which no silence holds up.
func onConn(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	err = fn(c)
	if end := c.Close(context.WithoutCancel(ctx)); err == nil {
		err = end
	}
	return err
}

// schemaVersion returns the number of the last migration that ran, 0 for an
// empty database.
func schemaVersion(ctx context.Context, q querier) (v int64, err error) {
	var there bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('schema_version') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = q.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&v)
	return v, err
}

// migrate works in one transaction under a transaction-scoped lock, so that a
// crash leaves the schema as it was, and a pooler in between does no harm.
func migrate(ctx context.Context, c *pgx.Conn, target int64) error {
	steps, err := schema.Steps(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	if target < 0 || target > int64(len(steps)) {
		target = int64(len(steps))
	}
	have, err := schemaVersion(ctx, c)
	if err != nil {
		return err
	}
	if have == target {
		return nil
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('tierd.schema.' || current_schema()), 0)`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`); err != nil {
			return err
		}
		have, err := schemaVersion(ctx, tx)
		if err != nil {
			return err
		}
		if have > int64(len(steps)) {
			return schema.Newer(have, len(steps))
		}
		for ; have < target; have++ {
			if _, err := tx.Exec(ctx, steps[have].Up, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("migration %d: %w", have+1, err)
			}
			if _, err := tx.Exec(ctx, `INSERT INTO schema_version (version) VALUES ($1)`, have+1); err != nil {
				return err
			}
		}
		for ; have > target; have-- {
			if _, err := tx.Exec(ctx, steps[have-1].Down, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("migration %d back: %w", have, err)
			}
			if _, err := tx.Exec(ctx, `DELETE FROM schema_version WHERE version = $1`, have); err != nil {
				return err
			}
		}
		return nil
	})
}
