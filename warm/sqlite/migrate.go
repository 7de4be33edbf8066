package sqlite

import (
	"embed"
	"errors"
	"fmt"

	"github.com/tierd/tierd/warm/internal/schema"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// schemaVersion returns the number of the last migration that ran, 0 for an
// empty file.
func schemaVersion(c *conn) (int64, error) {
	if err := c.script(`CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID`); err != nil {
		return 0, err
	}
	return c.number(`SELECT value FROM meta WHERE name = 'schema_version'`)
}

// migrate brings the schema to target, up or down, one transaction a step.
// Only the holder of the data lock runs it.
func migrate(c *conn, target int64) error {
	steps, err := schema.Steps(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	have, err := schemaVersion(c)
	if err != nil {
		return err
	}
	if have > int64(len(steps)) {
		return schema.Newer(have, len(steps))
	}
	for ; have < target; have++ {
		if err := migrateStep(c, steps[have].Up, have+1); err != nil {
			return fmt.Errorf("migration %d: %w", have+1, err)
		}
	}
	for ; have > target; have-- {
		if err := migrateStep(c, steps[have-1].Down, have-1); err != nil {
			return fmt.Errorf("migration %d back: %w", have, err)
		}
	}
	return nil
}

func migrateStep(c *conn, text string, version int64) error {
	if _, err := c.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := c.script(text)
	if err == nil {
		_, err = c.exec(`INSERT INTO meta (name, value) VALUES ('schema_version', ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, version)
	}
	if err == nil {
		_, err = c.exec(`COMMIT`)
	}
	if err != nil {
		_, back := c.exec(`ROLLBACK`)
		return errors.Join(err, back)
	}
	return nil
}
