package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

type rememberCommand struct {
	NS         nsArg    `arg:"" name:"ns" help:"The namespace; the first memory makes it."`
	Text       string   `arg:"" help:"What to remember, - for standard input."`
	ID         string   `name:"id" placeholder:"ID" help:"The memory's id; made unless given."`
	User       string   `placeholder:"NAME" help:"Whose memory it is, fixed when it is created."`
	Agent      string   `placeholder:"NAME" help:"The agent that remembers."`
	App        string   `placeholder:"NAME" help:"The application."`
	Session    string   `placeholder:"ID" help:"The conversation it is from."`
	Type       string   `enum:"fact,knowledge,event,experience" default:"fact" help:"fact (does not age), knowledge, event or experience."`
	Metadata   string   `placeholder:"JSON" help:"An object; its member speaker is who said it."`
	Importance float64  `placeholder:"SHARE" help:"0 to 1."`
	OccurredAt timeFlag `placeholder:"TIME" help:"When it happened; now unless given."`
	EndedAt    timeFlag `placeholder:"TIME" help:"When it ended."`
	TTL        ttlFlag  `name:"ttl" placeholder:"30d" help:"Life from now: seconds, 30m, 12h, 7d, or none."`
	Dedupe     bool     `help:"Answer the memory with the same text that stands, instead of a second one."`
	Wait       bool     `help:"Return when the vector is in the index too."`
	Once       string   `name:"idempotency-key" placeholder:"TEXT" help:"Do this once in 24 h: the same key again answers the first result."`
	connectFlags
}

func (*rememberCommand) Help() string {
	return "A memory is a document of a namespace of kind memory: get, versions, rollback, touch, pin and erase work on it too. " +
		"It can be recalled at once.\n\n" +
		examples(`tierd remember people "Ada prefers a window seat" --user ada --importance 0.6`,
			`tierd remember talks "Bob: I sold the boat" --session s-17 --type event --metadata '{"speaker":"Bob"}'`)
}

func (c *rememberCommand) Run(ctx context.Context, p *process) error {
	text := c.Text
	if text == "-" {
		raw, err := p.readInput("-")
		if err != nil {
			return err
		}
		text = strings.TrimSpace(string(raw))
	}
	m := tiering.NewMemory{ID: c.ID, User: c.User, MemoryBody: tiering.MemoryBody{
		Text: text, Type: tiering.MemoryType(c.Type), Agent: c.Agent, App: c.App, Session: c.Session,
		Importance: c.Importance, OccurredAt: c.OccurredAt.at, EndedAt: c.EndedAt.at,
	}}
	if c.TTL.ttl != nil {
		m.TTL = c.TTL.ttl.String()
	}
	if c.Metadata != "" {
		if !json.Valid([]byte(c.Metadata)) {
			return usagef(`--metadata is no JSON: write an object such as {"speaker":"Ada"}`)
		}
		m.Metadata = json.RawMessage(c.Metadata)
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	done, errs, err := service.Remember(ctx, string(c.NS), []tiering.NewMemory{m}, &tiering.RememberOptions{IdempotencyKey: c.Once, Dedupe: c.Dedupe, Wait: c.Wait})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(done[0])
	}
	what := "remembered"
	switch {
	case done[0].Duplicate:
		what = "known already"
	case !done[0].Created:
		what = "replaced"
	}
	if done[0].IndexStatus != tiering.IndexIndexed {
		what += fmt.Sprintf(" (found by its words; its vector is %s)", done[0].IndexStatus)
	}
	return p.printf("%s %s/%s\n", what, done[0].Namespace, done[0].ID)
}

type recallCommand struct {
	NS         string   `arg:"" name:"ns" help:"The namespace, or several with commas between them."`
	Query      string   `arg:"" help:"A question or a text, in any language."`
	K          int      `short:"k" default:"10" placeholder:"N" help:"How many, 1 to 100."`
	User       string   `placeholder:"NAME" help:"Only this user's memories."`
	Agent      string   `placeholder:"NAME" help:"Only this agent's."`
	App        string   `placeholder:"NAME" help:"Only this application's."`
	Session    string   `placeholder:"ID" help:"Only of this conversation."`
	Type       []string `placeholder:"TYPE" help:"Only these types: fact, knowledge, event, experience."`
	Filter     string   `placeholder:"JSON" help:"A filter as query takes it; a bare name is a member of the metadata."`
	Since      timeFlag `placeholder:"TIME" help:"Only what happened then or later."`
	Until      timeFlag `placeholder:"TIME" help:"Only what happened before."`
	Mode       string   `enum:"hybrid,vector,lexical" default:"hybrid" help:"Both arms of the search, or one alone."`
	Deep       bool     `help:"Search vectors that lie dormant too."`
	Superseded bool     `help:"Also what holds no more."`
	connectFlags
}

func (*recallCommand) Help() string {
	return "Finds memories by meaning and by their words. With --json every part of each score is printed.\n\n" +
		examples(`tierd recall people "where does she like to sit?" --user ada -k 3`,
			`tierd recall people,talks "the boat" --filter '{"topic":"sailing"}' --since 30d`)
}

func (c *recallCommand) Run(ctx context.Context, p *process) error {
	q := &tiering.Recall{
		Namespaces: strings.Split(c.NS, ","), Query: c.Query, K: c.K, User: c.User, Agent: c.Agent, App: c.App, Session: c.Session,
		Since: c.Since.at, Until: c.Until.at, Mode: tiering.RecallMode(c.Mode), Deep: c.Deep, Superseded: c.Superseded,
	}
	if c.K < 1 || c.K > tiering.MaxRecall {
		return usagef("-k %d: use 1 to %d", c.K, tiering.MaxRecall)
	}
	for _, ns := range q.Namespaces {
		if err := tiering.ValidateNamespace(ns); err != nil {
			return usagef("%v", detailOf(err))
		}
	}
	for _, t := range c.Type {
		q.Types = append(q.Types, tiering.MemoryType(t))
	}
	if c.Filter != "" {
		if !json.Valid([]byte(c.Filter)) {
			return usagef(`--filter is no JSON: write an object such as {"topic":"travel"}`)
		}
		q.Filter = json.RawMessage(c.Filter)
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	got, err := service.Recall(ctx, q)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(got)
	}
	if got.Partial {
		p.notef("not everything was searched: %s", got.Reason)
	}
	var rows [][]string
	for _, m := range got.Matches {
		rows = append(rows, []string{fmt.Sprintf("%.3f", m.Score.Total), m.Namespace + "/" + m.ID, when(m.Memory), oneLine(m.Text)})
	}
	if len(rows) == 0 {
		for _, ns := range q.Namespaces {
			p.noteUnknown(ctx, service, ns)
		}
	}
	return p.table([]string{"SCORE", "MEMORY", "WHEN", "TEXT"}, rows)
}

// when is the day that a memory is about.
func when(m tiering.Memory) string {
	t := m.OccurredAt
	if t.IsZero() {
		t = m.CreatedAt
	}
	return t.UTC().Format(time.DateOnly)
}

// longestLine of a memory's text is shown in a table.
const longestLine = 100

// oneLine is the beginning of a text, on one line.
func oneLine(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > longestLine {
		return string(line[:longestLine-1]) + "…"
	}
	return string(line)
}
