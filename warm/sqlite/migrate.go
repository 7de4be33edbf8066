package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered step of the schema, with its way back.
type migration struct {
	number   int64
	up, down string
}

// migrations returns the embedded steps in order: NUMBER_name.up.sql and
// NUMBER_name.down.sql, numbered from 1 without gaps.
func migrations() ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.up.sql")
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var out []migration
	for i, name := range names {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n != int64(i+1) {
			return nil, fmt.Errorf("migration %s: want number %d", name, i+1)
		}
		up, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		down, err := migrationFiles.ReadFile(strings.TrimSuffix(name, ".up.sql") + ".down.sql")
		if err != nil {
			return nil, err
		}
		out = append(out, migration{number: n, up: string(up), down: string(down)})
	}
	return out, nil
}

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
	steps, err := migrations()
	if err != nil {
		return err
	}
	have, err := schemaVersion(c)
	if err != nil {
		return err
	}
	if have > int64(len(steps)) {
		return fmt.Errorf("its schema is version %d and this binary knows up to %d: use a newer tierd", have, len(steps))
	}
	for ; have < target; have++ {
		if err := migrateStep(c, steps[have].up, have+1); err != nil {
			return fmt.Errorf("migration %d: %w", have+1, err)
		}
	}
	for ; have > target; have-- {
		if err := migrateStep(c, steps[have-1].down, have-1); err != nil {
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
