package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering/lifecycle"
)

type rebuildCommand struct {
	From         string   `required:"" enum:"primary,backup" placeholder:"COPY" help:"The bucket that everything comes from: primary (cold) or backup."`
	AsOf         timeFlag `placeholder:"TIME" help:"Leave out what happened later: 2026-01-31T12:00:00Z, or an age such as 2h or 7d."`
	WithoutOther bool     `help:"Go on when the other bucket cannot be reached. A daemon that still writes there is then not told that it has a successor."`
	tierFlags
}

func (*rebuildCommand) Help() string {
	return "Brings back every document, deletion, policy and API key that one bucket holds, into an empty warm store: its current documents, with their history in cold storage. " +
		"Nothing that is there is overwritten, and nothing is deleted. What comes back ends at the first gap in what the bucket holds, which is told. " +
		"The store begins a new life: versions go on far above all old ones, and both buckets are marked, so that what was left out stays out. " +
		"A rebuild that was interrupted is run again.\n\n" +
		examples("tierd rebuild --from backup", "tierd rebuild --from primary --as-of 2026-01-31T12:00:00Z --data ./tierd-data")
}

func (c *rebuildCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	conf, err := p.direct(kctx)
	if err != nil {
		return err
	}
	bar := newProgress(p, 0)
	report, err := tierd.Rebuild(ctx, conf, tierd.RebuildOptions{
		From: c.From, AsOf: c.AsOf.time(time.Now()), WithoutOther: c.WithoutOther, Progress: bar.set,
	})
	bar.finish()
	if err != nil {
		return inUse(err, conf)
	}
	if p.json {
		return p.printJSON(report)
	}
	return p.printRebuild(report)
}

func (p *process) printRebuild(r *lifecycle.RebuildReport) error {
	pairs := [][]string{
		{"rebuilt from", r.From},
		{"documents", fmt.Sprintf("%d, %s, and %d deletions", r.Documents, size(r.Bytes), r.Tombstones)},
		{"segments", fmt.Sprintf("%d with %d versions, %d left out", r.Segments, r.Versions, r.Left)},
		{"epoch", r.Epoch}, {"versions above", itoa(r.Floor)}, {"took", r.Took.Round(time.Millisecond).String()},
	}
	if err := p.pairs(pairs); err != nil {
		return err
	}
	var rows [][]string
	for _, t := range r.Tenants {
		rows = append(rows, []string{t.Tenant, itoa(t.Documents), stamp(t.Time)})
	}
	if err := p.section([]string{"TENANT", "DOCUMENTS", "LAST CHANGE"}, rows); err != nil {
		return err
	}
	for _, d := range r.Damaged {
		p.notef("damaged: %s: %s", d.Segment, d.Error)
	}
	for _, g := range r.Gaps {
		p.notef("tenant %s: changes %d to %d of epoch %s are missing; %d segments with %d changes behind them were left out", g.Tenant, g.From, g.To, g.Epoch, g.Segments, g.Records)
	}
	if len(r.Gaps) > 0 {
		p.notef("nothing was deleted: the other bucket may hold what is missing. To try that one, delete epoch/%s.json from both buckets and the new store, before anything is written to it", strings.ToLower(r.Parent))
	}
	if r.Incomplete > 0 {
		p.notef("%d documents stand at an older version: the newest one was never archived", r.Incomplete)
	}
	if len(r.Rewrite) > 0 {
		p.notef("%d segments still hold bytes of an erase that was not finished: order it again", len(r.Rewrite))
	}
	if r.Unreachable != "" {
		p.notef("the %s bucket was not told: make sure that no daemon writes there with the old store", r.Unreachable)
	}
	return nil
}
