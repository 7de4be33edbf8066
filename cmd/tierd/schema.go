package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
)

type schemaGroup struct {
	Migrate schemaMigrateCommand `cmd:"" help:"Bring the database's schema up to date."`
	Status  schemaStatusCommand  `cmd:"" help:"Say how far the database's schema has come."`
}

// schemaFlags name the database.
type schemaFlags struct {
	Config string `group:"direct" placeholder:"FILE" help:"Use the database that this YAML file names, as serve does ($TIERD_CONFIG)."`
	Warm   string `group:"tiers" placeholder:"postgres://HOST/DATABASE" help:"The database ($TIERD_WARM)."`
}

type schemaMigrateCommand struct{ schemaFlags }

func (*schemaMigrateCommand) Help() string {
	return "serve does this by itself when it starts. Use it to give the work to another role, or another moment, than the daemons have. " +
		"It runs in one transaction under a lock: callers may race, and one that dies leaves the schema as it was.\n\n" +
		examples("tierd schema migrate --warm postgres://tierd@127.0.0.1/tierd")
}

func (c *schemaMigrateCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	return c.print(ctx, p, kctx, tierd.MigrateSchema)
}

type schemaStatusCommand struct{ schemaFlags }

func (*schemaStatusCommand) Help() string {
	return "Changes nothing. It fails when the schema is not the one that this build needs, so that a script can tell.\n\n" +
		examples("tierd schema status --warm postgres://tierd@127.0.0.1/tierd --json")
}

func (c *schemaStatusCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	return c.print(ctx, p, kctx, tierd.SchemaStatus)
}

func (schemaFlags) print(ctx context.Context, p *process, kctx *kong.Context, ask func(context.Context, tierd.Config) (tierd.Schema, error)) error {
	conf, err := p.direct(kctx)
	if err != nil {
		return err
	}
	schema, err := ask(ctx, conf)
	if err != nil {
		return err
	}
	if p.json {
		err = p.printJSON(schema)
	} else {
		err = p.printf("version %d, latest %d\n", schema.Version, schema.Latest)
	}
	switch {
	case err != nil:
		return err
	case schema.Version > schema.Latest:
		return fmt.Errorf("the schema is newer than this build knows: use a newer tierd")
	case schema.Version < schema.Latest:
		return fmt.Errorf("the schema is not up to date: run tierd schema migrate")
	}
	return nil
}
