package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierd/tierd/tiering"
)

type watchCommand struct {
	NS       string `arg:"" optional:"" name:"ns" help:"The namespace; all of them without it."`
	Prefix   string `placeholder:"TEXT" help:"Only ids that start with this."`
	ID       string `name:"id" placeholder:"ID" help:"Only this document."`
	User     string `placeholder:"NAME" help:"Only documents of this owner."`
	From     string `enum:"now,start" default:"now" help:"now, or start: everything the feed still holds first."`
	After    string `placeholder:"EVENT" help:"Go on behind this event, the last column of an earlier watch."`
	Data     bool   `help:"Print the new content too."`
	Previous bool   `help:"Print the content before the change too."`
	connectFlags
}

func (*watchCommand) Help() string {
	return "A connection that breaks is taken up again without a gap or a repeat.\n\n" +
		examples("tierd watch agents", "tierd watch --from start --data --json")
}

func (c *watchCommand) Run(ctx context.Context, p *process) error {
	if c.NS != "" {
		var ns nsArg
		if err := ns.UnmarshalText([]byte(c.NS)); err != nil {
			return usagef("%v", err)
		}
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	if c.NS != "" {
		p.noteUnknown(ctx, service, c.NS)
	}
	w, err := service.Watch(ctx, &tiering.WatchOptions{
		Namespace: c.NS, Prefix: c.Prefix, ID: c.ID, User: c.User, From: c.From, After: c.After, Data: c.Data, Previous: c.Previous,
	})
	if err != nil {
		return endOfWatch(ctx, err)
	}
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return errors.Join(endOfWatch(ctx, err), w.Close())
		}
		if err := p.printEvent(e); err != nil {
			return errors.Join(err, w.Close())
		}
	}
}

// endOfWatch is nil when the user ended the watch: that is how one ends.
func endOfWatch(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (p *process) printEvent(e tiering.Event) error {
	if p.json {
		return p.printJSON(struct {
			Position string `json:"event"` // for --after
			tiering.Event
		}{e.ID, e})
	}
	line := fmt.Sprintf("%s  %-15s  %s/%s  version %d", stamp(e.Time), e.Type, e.Namespace, e.Key, e.Version)
	if e.User != "" {
		line += "  user " + e.User
	}
	if e.Previous != nil {
		line += "  was " + string(e.Previous)
	}
	if e.Data != nil {
		line += "  " + string(e.Data)
	}
	return p.printf("%s  %s\n", line, e.ID)
}
