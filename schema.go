package tierd

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/postgres"
)

// Schema says how far the schema of a warm store in PostgreSQL has come.
type Schema struct {
	Version int64 `json:"version"` // the last migration that ran; 0: none
	Latest  int64 `json:"latest"`  // the last one that this build knows
}

// SchemaStatus reads how far the schema of c's warm store has come. It changes
// nothing. It is unsupported for an embedded store, which is brought up to date
// whenever it is opened.
func SchemaStatus(ctx context.Context, c Config) (Schema, error) {
	if err := c.checkMigrates(); err != nil {
		return Schema{}, err
	}
	st, err := postgres.Status(ctx, c.Warm)
	return Schema(st), tiering.Wrap(err, "schema", tiering.Warm, tiering.Key{})
}

// MigrateSchema brings the schema of c's warm store up to date, as Open does.
// Callers may race: one works, the others wait and find it done. It is
// unsupported for an embedded store.
func MigrateSchema(ctx context.Context, c Config) (Schema, error) {
	if err := c.checkMigrates(); err != nil {
		return Schema{}, err
	}
	if err := postgres.Migrate(ctx, c.Warm, -1); err != nil {
		return Schema{}, tiering.Wrap(err, "schema", tiering.Warm, tiering.Key{})
	}
	return SchemaStatus(ctx, c)
}

func (c Config) checkMigrates() error {
	switch name, _ := scheme(c.Warm, "sqlite:"); name {
	case "postgres", "postgresql":
		return nil
	case "sqlite":
		return tiering.Errorf(tiering.CodeUnsupported, "an embedded store is brought up to date whenever it is opened: name a database with --warm postgres://HOST/DATABASE")
	default:
		return unknownScheme("warm", c.Warm, "postgres://HOST/DATABASE")
	}
}
