package main

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

type touchCommand struct {
	Key   keyArg  `arg:"" name:"ns/id" help:"The document."`
	TTL   ttlFlag `name:"ttl" placeholder:"30m" help:"Life from now: seconds, 30m, 12h, 7d, or none; without it the document's own TTL starts anew."`
	Exact bool    `help:"Allow the life to become shorter."`
	changeFlags
}

func (*touchCommand) Help() string {
	return "A touch never shortens a life: a document that does not expire goes on so, unless --exact says otherwise.\n\n" +
		examples("tierd touch sessions/s1 --ttl 2h")
}

func (c *touchCommand) Run(ctx context.Context, p *process) error {
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	o.TTL = c.TTL.ttl
	r, err := service.Touch(ctx, c.Key.NS, c.Key.ID, &tiering.TouchOptions{WriteOptions: o, Exact: c.Exact})
	if err != nil {
		return err
	}
	return p.printReceipt("touched", r)
}

type pinCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	changeFlags
}

func (*pinCommand) Help() string { return examples("tierd pin agents/planner") }

func (c *pinCommand) Run(ctx context.Context, p *process) error {
	return setPinned(ctx, p, c.changeFlags, c.Key, true)
}

type unpinCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	changeFlags
}

func (*unpinCommand) Help() string { return examples("tierd unpin agents/planner") }

func (c *unpinCommand) Run(ctx context.Context, p *process) error {
	return setPinned(ctx, p, c.changeFlags, c.Key, false)
}

func setPinned(ctx context.Context, p *process, flags changeFlags, key keyArg, pinned bool) error {
	service, o, err := flags.begin(p)
	if err != nil {
		return err
	}
	r, err := service.Pin(ctx, key.NS, key.ID, pinned, &o)
	if err != nil {
		return err
	}
	done := "unpinned"
	if pinned {
		done = "pinned"
	}
	return p.printReceipt(done, r)
}
