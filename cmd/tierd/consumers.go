package main

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

// consumersGroup lists and deletes named consumers; tail --consumer makes them.
type consumersGroup struct {
	Ls consumersLsCommand `cmd:"" help:"List named consumers and how far each has come."`
	RM consumersRmCommand `cmd:"" name:"rm" help:"Forget a named consumer."`
}

type consumersLsCommand struct{ connectFlags }

func (*consumersLsCommand) Help() string { return examples("tierd consumers ls") }

func (c *consumersLsCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	all, err := service.Consumers(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"items": orEmpty(all)})
	}
	var rows [][]string
	for _, one := range all {
		behind := itoa(one.Behind)
		if one.Gone {
			behind = "gone"
		}
		rows = append(rows, []string{one.Name, watched(one), behind, stamp(one.AcknowledgedAt), one.Position})
	}
	return p.table([]string{"NAME", "WATCHES", "BEHIND", "ACKNOWLEDGED", "POSITION"}, rows)
}

// watched is what a consumer watches, in one word.
func watched(c tiering.Consumer) string {
	what := c.Namespace
	switch {
	case c.Session != "":
		what = "session " + c.Session
	case c.ID != "":
		what += "/" + c.ID
	case c.Prefix != "":
		what += "/" + c.Prefix + "*"
	}
	if c.User != "" {
		what += " of " + c.User
	}
	if what == "" {
		return "all"
	}
	return what
}

type consumersRmCommand struct {
	Name partArg `arg:"" name:"name" help:"The consumer."`
	connectFlags
}

func (*consumersRmCommand) Help() string { return examples("tierd consumers rm mailer") }

func (c *consumersRmCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	if err := service.DeleteConsumer(ctx, string(c.Name)); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]string{"deleted": string(c.Name)})
	}
	return p.printf("there is no consumer %s any more\n", c.Name)
}
