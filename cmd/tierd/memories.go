package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// memoriesGroup looks at and changes single memories.
type memoriesGroup struct {
	Ls     memoriesLs     `cmd:"" help:"List the memories of a namespace in id order."`
	Get    memoriesGet    `cmd:"" help:"Print a memory."`
	Patch  memoriesPatch  `cmd:"" help:"Change a memory with a merge patch."`
	Forget memoriesForget `cmd:"" help:"Delete a memory; its history stays."`
	Used   memoriesUsed   `cmd:"" help:"Confirm that a memory was of use."`
	Link   memoriesLink   `cmd:"" help:"Link a memory to another."`
	Unlink memoriesUnlink `cmd:"" help:"Remove a link."`
	Walk   memoriesWalk   `cmd:"" help:"Follow links from a memory."`
}

type memoriesLs struct {
	NS      nsArg    `arg:"" name:"ns" help:"The namespace."`
	User    string   `placeholder:"NAME" help:"Only this user's."`
	Agent   string   `placeholder:"NAME" help:"Only this agent's."`
	App     string   `placeholder:"NAME" help:"Only this application's."`
	Session string   `placeholder:"ID" help:"Only of this conversation."`
	Type    []string `placeholder:"TYPE" help:"Only these types."`
	pageFlags
	connectFlags
}

func (*memoriesLs) Help() string { return examples("tierd memories ls people --user ada --type fact") }

func (c *memoriesLs) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	o := tiering.MemoryListOptions{User: c.User, Agent: c.Agent, App: c.App, Session: c.Session}
	for _, t := range c.Type {
		o.Types = append(o.Types, tiering.MemoryType(t))
	}
	all := tiering.MemoryPage{Memories: []tiering.Memory{}}
	all.NextCursor, err = c.each(dataPage, func(limit int, cursor string) (int, string, error) {
		o.Limit, o.Cursor = limit, cursor
		page, err := service.ListMemories(ctx, string(c.NS), &o)
		if err != nil {
			return 0, "", err
		}
		all.Memories = append(all.Memories, page.Memories...)
		return len(page.Memories), page.NextCursor, nil
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(all)
	}
	var rows [][]string
	for _, m := range all.Memories {
		rows = append(rows, []string{m.ID, string(m.Type), m.User, when(m), oneLine(m.Text)})
	}
	if len(rows) == 0 {
		p.noteUnknown(ctx, service, string(c.NS))
	}
	if err := p.table([]string{"ID", "TYPE", "USER", "WHEN", "TEXT"}, rows); err != nil {
		return err
	}
	p.more(all.NextCursor)
	return nil
}

type memoriesGet struct {
	Key keyArg `arg:"" name:"ns/id" help:"The memory."`
	connectFlags
}

func (*memoriesGet) Help() string { return examples("tierd memories get people/01jf8 --json") }

func (c *memoriesGet) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	m, err := service.Memory(ctx, c.Key.NS, c.Key.ID)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(m)
	}
	if err := p.printf("%s\n", m.Text); err != nil {
		return err
	}
	rows := [][]string{{"type", string(m.Type)}, {"when", when(*m)}, {"version", itoa(m.Version)}, {"index", string(m.IndexStatus)}}
	for _, extra := range [][]string{{"user", m.User}, {"agent", m.Agent}, {"app", m.App}, {"session", m.Session}, {"metadata", string(m.Metadata)}, {"superseded by", m.SupersededBy}} {
		if extra[1] != "" {
			rows = append(rows, extra)
		}
	}
	if m.Uses > 0 {
		rows = append(rows, []string{"uses", itoa(m.Uses)})
	}
	for _, l := range m.Links {
		rows = append(rows, []string{"link", l.Relation + " " + l.To})
	}
	return p.table(rows[0], rows[1:])
}

type memoriesPatch struct {
	Key   keyArg `arg:"" name:"ns/id" help:"The memory."`
	Patch string `arg:"" name:"json" help:"The merge patch, - for standard input."`
	changeFlags
}

func (*memoriesPatch) Help() string {
	return examples(`tierd memories patch people/01jf8 '{"importance":0.9}'`, `tierd memories patch people/01jf8 '{"superseded_by":"01jg2"}'`)
}

func (c *memoriesPatch) Run(ctx context.Context, p *process) error {
	patch, err := p.inline(c.Patch)
	if err != nil {
		return err
	}
	if !json.Valid(patch) {
		return usagef(`the patch is no JSON: write an object such as {"importance":0.9}`)
	}
	return changeMemory(ctx, p, c.changeFlags, "patched", func(s tiering.Service, o *tiering.WriteOptions) (*tiering.Receipt, error) {
		return s.PatchMemory(ctx, c.Key.NS, c.Key.ID, patch, o)
	})
}

type memoriesForget struct {
	Key keyArg `arg:"" name:"ns/id" help:"The memory."`
	changeFlags
}

func (*memoriesForget) Help() string {
	return "Recall finds it no more. Its history stays by the policy, and rollback brings it back; erase takes that too.\n\n" +
		examples("tierd memories forget people/01jf8")
}

func (c *memoriesForget) Run(ctx context.Context, p *process) error {
	return changeMemory(ctx, p, c.changeFlags, "forgotten", func(s tiering.Service, o *tiering.WriteOptions) (*tiering.Receipt, error) {
		return s.Forget(ctx, c.Key.NS, c.Key.ID, o)
	})
}

type memoriesUsed struct {
	Key keyArg `arg:"" name:"ns/id" help:"The memory."`
	changeFlags
}

func (*memoriesUsed) Help() string {
	return "Its age begins anew. To be recalled does not count as use.\n\n" + examples("tierd memories used people/01jf8")
}

func (c *memoriesUsed) Run(ctx context.Context, p *process) error {
	return changeMemory(ctx, p, c.changeFlags, "counted", func(s tiering.Service, o *tiering.WriteOptions) (*tiering.Receipt, error) {
		return s.Used(ctx, c.Key.NS, c.Key.ID, o)
	})
}

// changeMemory runs a write of one memory and prints its receipt.
func changeMemory(ctx context.Context, p *process, flags changeFlags, done string, change func(tiering.Service, *tiering.WriteOptions) (*tiering.Receipt, error)) error {
	service, o, err := flags.begin(p)
	if err != nil {
		return err
	}
	rc, err := change(service, &o)
	if err != nil {
		return err
	}
	return p.printReceipt(done, rc)
}

type memoriesLink struct {
	From     keyArg `arg:"" name:"ns/id" help:"Where the link begins."`
	Relation string `arg:"" help:"What it says, such as caused."`
	To       string `arg:"" name:"to" help:"The id that it leads to, in the same namespace."`
	connectFlags
}

func (*memoriesLink) Help() string { return examples("tierd memories link people/01jf8 caused 01jg2") }

func (c *memoriesLink) Run(ctx context.Context, p *process) error {
	return changeMemory(ctx, p, changeFlags{connectFlags: c.connectFlags}, "linked", func(s tiering.Service, _ *tiering.WriteOptions) (*tiering.Receipt, error) {
		return s.Link(ctx, c.From.NS, c.From.ID, tiering.Link{Relation: c.Relation, To: c.To})
	})
}

type memoriesUnlink struct {
	From     keyArg `arg:"" name:"ns/id" help:"Where the link begins."`
	Relation string `arg:"" help:"What it says."`
	To       string `arg:"" name:"to" help:"The id that it leads to."`
	connectFlags
}

func (*memoriesUnlink) Help() string {
	return "Removing what is not there succeeds.\n\n" + examples("tierd memories unlink people/01jf8 caused 01jg2")
}

func (c *memoriesUnlink) Run(ctx context.Context, p *process) error {
	return changeMemory(ctx, p, changeFlags{connectFlags: c.connectFlags}, "unlinked", func(s tiering.Service, _ *tiering.WriteOptions) (*tiering.Receipt, error) {
		return s.Unlink(ctx, c.From.NS, c.From.ID, tiering.Link{Relation: c.Relation, To: c.To})
	})
}

type memoriesWalk struct {
	From     keyArg `arg:"" name:"ns/id" help:"Where to start."`
	Depth    int    `default:"2" placeholder:"N" help:"How many links far, 1 to 10."`
	Relation string `placeholder:"NAME" help:"Only links that say this."`
	Limit    int    `default:"100" placeholder:"N" help:"At most this many memories."`
	connectFlags
}

func (*memoriesWalk) Help() string { return examples("tierd memories walk people/01jf8 --depth 3") }

func (c *memoriesWalk) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	g, err := service.Walk(ctx, c.From.NS, c.From.ID, &tiering.WalkOptions{Depth: c.Depth, Relation: c.Relation, Limit: c.Limit})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(g)
	}
	from := map[string][]string{}
	for _, e := range g.Edges {
		from[e.To] = append(from[e.To], fmt.Sprintf("%s %s", e.From, e.Relation))
	}
	var rows [][]string
	for _, n := range g.Nodes {
		rows = append(rows, []string{itoa(n.Depth), n.ID, strings.Join(from[n.ID], ", "), oneLine(n.Text)})
	}
	if g.Truncated {
		p.notef("there is more: --limit takes up to 1000")
	}
	return p.table([]string{"DEPTH", "ID", "FROM", "TEXT"}, rows)
}
