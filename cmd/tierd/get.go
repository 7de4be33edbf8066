package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tierd/tierd/tiering"
)

type getCommand struct {
	Key     keyArg   `arg:"" name:"ns/id" help:"The document."`
	Version int64    `placeholder:"N" help:"That version, from wherever it lies."`
	AsOf    timeFlag `placeholder:"TIME" help:"The version that stood then: 2026-01-31T12:00:00Z, or an age such as 2h or 7d."`
	Pointer string   `placeholder:"/a/b" help:"Only the part that this JSON Pointer names."`
	Strong  bool     `help:"Ask the database for the newest version; otherwise memory may answer."`
	Default string   `placeholder:"JSON" help:"Print this when nothing is stored, in place of failing."`
	connectFlags
}

func (*getCommand) Help() string {
	return "Prints the document as it was given, without the white space between its parts: same key order, same number text. With --json the version, times and tier come with them.\n\n" +
		examples("tierd get agents/planner", "tierd get agents/planner --pointer /plan/0", "tierd get agents/planner --as-of 2h")
}

func (c *getCommand) Run(ctx context.Context, p *process) error {
	if c.Version < 0 {
		return usagef("--version %d: versions start at 1", c.Version)
	}
	if c.Default != "" && !json.Valid([]byte(c.Default)) {
		return usagef("--default %s: is no JSON; text needs quotes: --default '\"text\"'", c.Default)
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	o := &tiering.GetOptions{Version: c.Version, AsOf: c.AsOf.time(time.Now()), Pointer: c.Pointer, Strong: c.Strong}
	if c.Default != "" {
		o.Default = json.RawMessage(c.Default)
	}
	doc, err := service.Get(ctx, c.Key.NS, c.Key.ID, o)
	if err != nil {
		return err
	}
	if doc.Stale {
		p.notef("warning: possibly old: the database cannot be reached")
	}
	if p.json {
		return p.printJSON(doc)
	}
	return p.printBody(doc.Body)
}
