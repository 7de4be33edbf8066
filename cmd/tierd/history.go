package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tierd/tierd/tiering"
)

type versionsCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	pageFlags
	connectFlags
}

func (*versionsCommand) Help() string { return examples("tierd versions agents/planner --limit 10") }

func (c *versionsCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	all := tiering.History{Versions: []tiering.VersionInfo{}}
	all.NextCursor, err = c.each(maxPage, func(limit int, cursor string) (int, string, error) {
		h, err := service.History(ctx, c.Key.NS, c.Key.ID, &tiering.HistoryOptions{Limit: limit, Cursor: cursor})
		if err != nil {
			return 0, "", err
		}
		all.Versions = append(all.Versions, h.Versions...)
		return len(h.Versions), h.NextCursor, nil
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(all)
	}
	if err := p.table(versionHeader(), versionRows(all.Versions)); err != nil {
		return err
	}
	p.more(all.NextCursor)
	return nil
}

func versionHeader() []string {
	return []string{"VERSION", "OP", "SIZE", "CREATED", "TIER", "DIGEST"}
}

func versionRows(versions []tiering.VersionInfo) [][]string {
	var rows [][]string
	for _, v := range versions {
		rows = append(rows, []string{itoa(v.Version), v.Op.String(), itoa(v.Size), stamp(v.CreatedAt), dash(string(v.Tier)), dash(shortDigest(v.Digest))})
	}
	return rows
}

// shortDigest is enough of a digest to tell two versions apart by eye.
func shortDigest(d tiering.Digest) string {
	hex := strings.TrimPrefix(d.String(), "sha256:")
	return hex[:min(len(hex), 12)]
}

type diffCommand struct {
	Key  keyArg `arg:"" name:"ns/id" help:"The document."`
	From int64  `arg:"" help:"The older version."`
	To   int64  `arg:"" help:"The newer version."`
	connectFlags
}

func (*diffCommand) Help() string {
	return "The difference is a JSON Patch (RFC 6902) that turns one version into the other.\n\n" +
		examples("tierd diff agents/planner 3 7")
}

func (c *diffCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	patch, err := service.Diff(ctx, c.Key.NS, c.Key.ID, c.From, c.To)
	if err != nil {
		return err
	}
	if p.json {
		return p.printBody(patch)
	}
	var ops []struct {
		Op, Path, From string
		Value          json.RawMessage
	}
	if err := json.Unmarshal(patch, &ops); err != nil {
		return fmt.Errorf("the difference cannot be read: %w", err)
	}
	if len(ops) == 0 {
		return p.printf("no difference\n")
	}
	var rows [][]string
	for _, op := range ops {
		value := string(op.Value)
		if op.From != "" {
			value = "from " + op.From
		}
		rows = append(rows, []string{op.Op, orRoot(op.Path), value})
	}
	return p.table([]string{"OP", "POINTER", "VALUE"}, rows)
}

type rollbackCommand struct {
	Key     keyArg `arg:"" name:"ns/id" help:"The document."`
	Version int64  `arg:"" help:"The version whose content is wanted again."`
	changeFlags
}

func (*rollbackCommand) Help() string {
	return "History is not rewritten: the old content becomes a new version. A deleted document comes back this way too.\n\n" +
		examples("tierd rollback agents/planner 3")
}

func (c *rollbackCommand) Run(ctx context.Context, p *process) error {
	if c.Version < 1 {
		return usagef("version %d: versions start at 1", c.Version)
	}
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	r, err := service.Rollback(ctx, c.Key.NS, c.Key.ID, c.Version, &o)
	if err != nil {
		return err
	}
	return p.printReceipt(fmt.Sprintf("brought back version %d as", c.Version), r)
}

type explainCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	connectFlags
}

func (*explainCommand) Help() string { return examples("tierd explain agents/planner") }

func (c *explainCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	x, err := service.Explain(ctx, c.Key.NS, c.Key.ID)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(x)
	}
	pairs := [][]string{
		{"document", x.Namespace + "/" + x.ID}, {"state", x.State}, {"version", itoa(x.Version)}, {"size", itoa(x.Size)},
		{"updated", stamp(x.UpdatedAt)}, {"read", stamp(x.Accessed)}, {"expires", stamp(x.ExpiresAt)},
		{"policy", fmt.Sprintf("%s %s", x.Policy.Class, x.Policy.Kind)}, {"next", nextMove(x.Next)},
	}
	if x.Pinned {
		pairs = append(pairs, []string{"pinned", "yes"})
	}
	if len(x.Locks) > 0 {
		pairs = append(pairs, []string{"locks", strings.Join(x.Locks, ", ")})
	}
	if err := p.pairs(pairs); err != nil {
		return err
	}
	var rows [][]string
	for _, c := range x.Copies {
		rows = append(rows, []string{string(c.Tier), dash(c.Copy), c.State, itoa(c.Version), dash(c.Where)})
	}
	if err := p.printf("\n"); err != nil {
		return err
	}
	return p.table([]string{"TIER", "COPY", "STATE", "VERSION", "WHERE"}, rows)
}

// nextMove writes a planned action as a sentence part.
func nextMove(a tiering.Action) string {
	if a.Move == "" || a.Move == tiering.MoveStay {
		return strings.Join(append([]string{"nothing is due"}, a.Blocked...), "; ")
	}
	text := string(a.Move)
	if !a.Due.IsZero() {
		text += " at " + stamp(a.Due)
	}
	if len(a.Blocked) > 0 {
		text += ", blocked: " + strings.Join(a.Blocked, "; ")
	}
	return text
}
