package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tierd/tierd/tiering"
)

// embedGroup looks at and changes the embedder of a store.
type embedGroup struct {
	Status  embedStatus  `cmd:"" help:"Say whose vectors are searched, and how far a change is."`
	Migrate embedMigrate `cmd:"" help:"Change the embedder: its vectors are made in the background, then searched all at once."`
	Drop    embedDrop    `cmd:"" help:"Remove the vectors of a space that nobody searches."`
}

type embedStatus struct{ connectFlags }

func (*embedStatus) Help() string { return examples("tierd embed status") }

func (c *embedStatus) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	s, err := service.Embedding(ctx)
	if err != nil {
		return err
	}
	return p.printEmbedding(s)
}

func (p *process) printEmbedding(s *tiering.EmbeddingStatus) error {
	if p.json {
		return p.printJSON(s)
	}
	if s.Problem != "" {
		p.notef("recall is by words alone: %s", s.Problem)
	}
	if s.Configured != s.Active {
		p.notef("the daemon is configured with %s, and the store has vectors of %s: tierd embed migrate --to %s changes that", s.Configured, s.Active, s.Configured)
	}
	rows := [][]string{{"searched", s.Active}}
	if s.Target != "" {
		rows = append(rows, []string{"changing to", s.Target})
	}
	rows = append(rows, []string{"memories", itoa(s.Memories)})
	for _, space := range s.Spaces {
		rows = append(rows, []string{"vectors", fmt.Sprintf("%d %s (%s)", space.Vectors, space.Space, space.Use)})
	}
	return p.table(rows[0], rows[1:])
}

type embedMigrate struct {
	To   string `required:"" placeholder:"URL" help:"static:, openai+https://HOST/v1?model=NAME or none:."`
	Wait bool   `help:"Return when it is searched."`
	connectFlags
}

func (*embedMigrate) Help() string {
	return "A daemon makes the vectors, and goes on after a restart. Until all are there recall searches those before. They stay, so that to go back is the same command; " +
		"embed drop removes them. To name the embedder that is searched ends a change that is under way.\n\n" +
		examples("tierd embed migrate --to static: --wait")
}

// migrateStep is how often a command that waits looks.
const migrateStep = time.Second

func (c *embedMigrate) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	s, err := service.MigrateEmbedding(ctx, c.To)
	if err != nil {
		return err
	}
	bar := newProgress(p, s.Memories)
	for c.Wait && s.Target != "" {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(migrateStep):
		}
		if s, err = service.Embedding(ctx); err != nil {
			return err
		}
		for _, space := range s.Spaces {
			if space.Use == "target" {
				bar.set(space.Vectors, s.Memories)
			}
		}
	}
	bar.finish()
	return p.printEmbedding(s)
}

type embedDrop struct {
	Space string `arg:"" help:"The space, as embed status names it."`
	connectFlags
}

func (*embedDrop) Help() string {
	return "Vectors that callers brought stay with their memories.\n\n" + examples("tierd embed drop openai:nomic-embed-text:768:4a1f09c2d8e7b653")
}

func (c *embedDrop) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	n, err := service.DropVectors(ctx, c.Space)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]int64{"dropped": n})
	}
	return p.printf("removed %d vectors of %s\n", n, c.Space)
}
