package main

import (
	"context"
	"strings"

	"github.com/tierd/tierd/tiering"
)

type demoteCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	connectFlags
}

func (*demoteCommand) Help() string {
	return "The bytes leave hot and warm, once both cold copies were read back; the next read comes from cold. A pinned document stays where it is. " +
		"Documents move down by themselves as they age: see tierd explain.\n\n" +
		examples("tierd demote agents/planner")
}

func (c *demoteCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	x, err := service.Demote(ctx, c.Key.NS, c.Key.ID)
	return p.printMove("demoted", x, err)
}

type promoteCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	connectFlags
}

func (*promoteCommand) Help() string {
	return "A read does the same, unless the policy says otherwise.\n\n" + examples("tierd promote agents/planner")
}

func (c *promoteCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	x, err := service.Promote(ctx, c.Key.NS, c.Key.ID)
	return p.printMove("promoted", x, err)
}

// printMove says where a document is after a move.
func (p *process) printMove(done string, x *tiering.Explanation, err error) error {
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(x)
	}
	var places []string
	for _, c := range x.Copies {
		if c.State == "present" || c.State == string(tiering.CopyVerified) {
			places = append(places, strings.TrimSpace(string(c.Tier)+" "+c.Copy))
		}
	}
	return p.printf("%s %s/%s version %d, now in %s\n", done, x.Namespace, x.ID, x.Version, strings.Join(places, ", "))
}

type confirmClockCommand struct{ connectFlags }

func (*confirmClockCommand) Help() string {
	return "A clock that jumped by more than a day since the daemon last looked parks every move that destroys something: tierd status shows it. " +
		"Look at the clock of the daemon's machine first; when it is right, say so with this.\n\n" +
		examples("tierd confirm-clock")
}

func (c *confirmClockCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	if err := service.ConfirmClock(ctx); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]bool{"confirmed": true})
	}
	return p.printf("the clock is taken as right\n")
}
