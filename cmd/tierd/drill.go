package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering/lifecycle"
)

type drillCommand struct {
	From    string `required:"" enum:"primary,backup" placeholder:"COPY" help:"The bucket that is put to the test: primary (cold) or backup."`
	Scratch string `placeholder:"DIR" help:"Where the scratch store is made; it needs about the room of the warm store. The system's folder for temporary files without it."`
	tierFlags
}

func (*drillCommand) Help() string {
	return "A backup that was never restored is a hope. This restores one, and compares the version and the digest of every document that was archived with what stands. " +
		"Nothing is left behind; what a drill that was killed has left in the same place is removed. The exit code is 1 when something did not come back.\n\n" +
		examples("tierd drill --from backup")
}

func (c *drillCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	conf, err := p.direct(kctx)
	if err != nil {
		return err
	}
	bar := newProgress(p, 0)
	report, err := tierd.Drill(ctx, conf, tierd.DrillOptions{From: c.From, Scratch: c.Scratch, Progress: bar.set})
	bar.finish()
	if err != nil {
		return inUse(err, conf)
	}
	if p.json {
		err = p.printJSON(report)
	} else {
		err = p.printDrill(report)
	}
	if err == nil && !report.Sound() {
		err = fmt.Errorf("the %s bucket did not give back everything", report.From)
	}
	return err
}

func (p *process) printDrill(r *lifecycle.DrillReport) error {
	err := p.pairs([][]string{
		{"restored from", r.From},
		{"documents", fmt.Sprintf("%d, %s", r.Documents, size(r.Bytes))},
		{"waiting for the archive", itoa(r.Waiting)},
		{"differences", itoa(len(r.Differences))},
		{"took", r.Took.Round(time.Millisecond).String()},
	})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, d := range r.Differences {
		rows = append(rows, []string{d.Tenant, d.Key, itoa(d.Version), itoa(d.Got), d.Detail})
	}
	if err := p.section([]string{"TENANT", "DOCUMENT", "VERSION", "CAME BACK", "WHAT"}, rows); err != nil {
		return err
	}
	for _, d := range r.Rebuild.Damaged {
		p.notef("damaged: %s: %s", d.Segment, d.Error)
	}
	for _, g := range r.Rebuild.Gaps {
		p.notef("tenant %s: changes %d to %d of epoch %s are missing", g.Tenant, g.From, g.To, g.Epoch)
	}
	return nil
}
