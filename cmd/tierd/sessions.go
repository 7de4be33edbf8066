package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tierd/tierd/tiering"
)

// sessionsGroup is tierd sessions.
type sessionsGroup struct {
	LS       sessionsLsCommand       `cmd:"" name:"ls" help:"List sessions, newest first."`
	Show     sessionsShowCommand     `cmd:"" help:"Print a session."`
	Tail     sessionsTailCommand     `cmd:"" help:"Follow a session's events until Ctrl-C."`
	Timeline sessionsTimelineCommand `cmd:"" help:"Print what happened to a session, in order."`
	Context  sessionsContextCommand  `cmd:"" help:"Print what fits a model's context window."`
	Export   sessionsExportCommand   `cmd:"" help:"Write a whole session as one JSON document."`
	Import   sessionsImportCommand   `cmd:"" help:"Make a session from such a document."`
	RM       sessionsRmCommand       `cmd:"" name:"rm" help:"Delete everything of a session."`
}

type sessionsLsCommand struct {
	User   string `placeholder:"NAME" help:"Only this user's."`
	Agent  string `placeholder:"NAME" help:"Only this agent's."`
	App    string `placeholder:"NAME" help:"Only this app's."`
	Status string `placeholder:"TEXT" help:"Only those of this status."`
	pageFlags
	connectFlags
}

func (*sessionsLsCommand) Help() string { return examples("tierd sessions ls --user ann --limit 5") }

func (c *sessionsLsCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	all := tiering.SessionPage{Sessions: []tiering.Session{}}
	all.NextCursor, err = c.each(maxPage, func(limit int, cursor string) (int, string, error) {
		page, err := service.Sessions().List(ctx, &tiering.SessionQuery{User: c.User, Agent: c.Agent, App: c.App, Status: c.Status, Limit: limit, Cursor: cursor})
		if err != nil {
			return 0, "", err
		}
		all.Sessions = append(all.Sessions, page.Sessions...)
		return len(page.Sessions), page.NextCursor, nil
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(all)
	}
	var rows [][]string
	for _, s := range all.Sessions {
		progress := "-"
		if s.Progress != nil {
			progress = fmt.Sprintf("%.0f%%", *s.Progress*100)
		}
		rows = append(rows, []string{s.ID, dash(s.User), dash(s.Agent), dash(s.Status), progress, itoa(s.LastSeq), stamp(s.UpdatedAt), stamp(s.ExpiresAt)})
	}
	if err := p.table([]string{"ID", "USER", "AGENT", "STATUS", "PROGRESS", "ENTRIES", "UPDATED", "EXPIRES"}, rows); err != nil {
		return err
	}
	p.more(all.NextCursor)
	return nil
}

// sessionArg names a session.
type sessionArg struct {
	ID partArg `arg:"" name:"id" help:"The session."`
	connectFlags
}

type sessionsShowCommand struct{ sessionArg }

func (*sessionsShowCommand) Help() string { return examples("tierd sessions show s1") }

func (c *sessionsShowCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	s, err := service.Sessions().Get(ctx, string(c.ID))
	if err != nil || p.json {
		return orPrint(p, s, err)
	}
	return p.pairs([][]string{
		{"id", s.ID}, {"user", dash(s.User)}, {"agent", dash(s.Agent)}, {"app", dash(s.App)}, {"status", dash(s.Status)}, {"version", itoa(s.Version)},
		{"entries", itoa(s.LastSeq)}, {"created", stamp(s.CreatedAt)}, {"updated", stamp(s.UpdatedAt)}, {"expires", stamp(s.ExpiresAt)}, {"state", string(s.State)},
	})
}

// orPrint prints an answer as JSON, unless there is an error.
func orPrint(p *process, v any, err error) error {
	if err != nil {
		return err
	}
	return p.printJSON(v)
}

type sessionsTailCommand struct {
	Lines int `short:"n" default:"10" placeholder:"N" help:"Begin with the newest N entries."`
	sessionArg
}

func (*sessionsTailCommand) Help() string { return examples("tierd sessions tail s1") }

func (c *sessionsTailCommand) Run(ctx context.Context, p *process) error {
	tail := tailCommand{Of: tiering.SessionEventsNamespace + "/" + string(c.ID), Lines: c.Lines, connectFlags: c.connectFlags}
	return tail.Run(ctx, p)
}

type sessionsTimelineCommand struct {
	After int64 `placeholder:"N" help:"Behind this sequence number."`
	Limit int   `default:"100" placeholder:"N" help:"Print at most this many entries."`
	sessionArg
}

func (*sessionsTimelineCommand) Help() string {
	return "Events, checkpoints and steps, and between them what changed of state and attributes, and what contexts recalled.\n\n" + examples("tierd sessions timeline s1")
}

func (c *sessionsTimelineCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	line, err := service.Sessions().Timeline(ctx, string(c.ID), &tiering.EntriesOptions{After: c.After, Limit: c.Limit})
	if err != nil || p.json {
		return orPrint(p, line, err)
	}
	last := int64(0)
	for _, i := range line.Items {
		text := fmt.Sprintf("%s  %-10s  %d  %s", stamp(i.Time), i.What, i.Seq, i.Data)
		if i.What == "version" {
			text = fmt.Sprintf("%s  %-10s  %d  %s", stamp(i.Time), i.What, i.Version, i.Diff)
		} else {
			last = max(last, i.Seq)
		}
		if err := p.printf("%s\n", text); err != nil {
			return err
		}
	}
	if line.More {
		p.notef("there is more: --after %d goes on from here", last)
	}
	return nil
}

type sessionsContextCommand struct {
	Budget    int      `required:"" placeholder:"TOKENS" help:"How many tokens the context may take."`
	Tokenizer string   `placeholder:"NAME" help:"The encoding that counts; default o200k_base."`
	Shape     string   `enum:"openai,anthropic" default:"openai" help:"Whose messages: openai or anthropic."`
	KeepTurns int      `placeholder:"N" help:"The newest turns that stay whole; default 5."`
	Recall    string   `placeholder:"TEXT" help:"Weave in the memories that this finds."`
	Memories  []string `placeholder:"NS" help:"Recall from these namespaces; without it from all."`
	sessionArg
}

func (*sessionsContextCommand) Help() string {
	return examples("tierd sessions context s1 --budget 4000", "tierd sessions context s1 --budget 4000 --recall 'seats on planes'")
}

func (c *sessionsContextCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	out, err := service.Sessions().Context(ctx, string(c.ID), &tiering.ContextOptions{Budget: c.Budget, Tokenizer: c.Tokenizer, Shape: c.Shape, KeepTurns: c.KeepTurns, Recall: c.Recall, Memories: c.Memories})
	return orPrint(p, out, err)
}

type sessionsExportCommand struct{ sessionArg }

func (*sessionsExportCommand) Help() string {
	return examples("tierd sessions export s1 > session.json")
}

func (c *sessionsExportCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	e, err := service.Sessions().Export(ctx, string(c.ID))
	return orPrint(p, e, err)
}

type sessionsImportCommand struct {
	File string `arg:"" help:"File with the session, - for standard input."`
	ID   string `name:"id" placeholder:"ID" help:"Make it under this id, not that of the document."`
	connectFlags
}

func (*sessionsImportCommand) Help() string {
	return examples("tierd sessions export s1 | tierd sessions import - --id s1-copy")
}

func (c *sessionsImportCommand) Run(ctx context.Context, p *process) error {
	raw, err := p.readInput(c.File)
	if err != nil {
		return err
	}
	var e tiering.SessionExport
	if err := json.Unmarshal(raw, &e); err != nil {
		return usagef("the session cannot be read: %v", err)
	}
	if c.ID != "" {
		e.Session.ID = c.ID
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	s, err := service.Sessions().Import(ctx, &e)
	if err != nil || p.json {
		return orPrint(p, s, err)
	}
	return p.printf("imported session %s with %d entries\n", s.ID, s.LastSeq)
}

type sessionsRmCommand struct{ sessionArg }

func (*sessionsRmCommand) Help() string { return examples("tierd sessions rm s9") }

func (c *sessionsRmCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	if err := service.Sessions().Delete(ctx, string(c.ID), nil); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]string{"deleted": string(c.ID)})
	}
	return p.printf("nothing of session %s is left\n", c.ID)
}
