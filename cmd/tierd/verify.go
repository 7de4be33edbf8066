package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering/lifecycle"
)

type verifyCommand struct {
	Depth  string `default:"hash" enum:"list,hash,restore" placeholder:"hash" help:"list: compare the catalog with the lists of both buckets; hash: read every copy; restore: decode it down to each record, and read every document."`
	Repair bool   `help:"Make again what is missing or damaged, from what is sound."`
	tierFlags
}

func (*verifyCommand) Help() string {
	return "What is missing or damaged is marked in the catalog, so that nothing counts on it. A daemon reads back a copy at random every minute, and repairs by itself; this looks at all of them. " +
		"The exit code is 1 when something is wrong and was not repaired.\n\n" +
		examples("tierd verify", "tierd verify --depth restore --repair --json")
}

func (c *verifyCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	conf, err := p.direct(kctx)
	if err != nil {
		return err
	}
	bar := newProgress(p, 0)
	report, err := tierd.Verify(ctx, conf, lifecycle.VerifyOptions{Depth: lifecycle.Depth(c.Depth), Repair: c.Repair, Progress: bar.set})
	bar.finish()
	if err != nil {
		return inUse(err, conf)
	}
	if p.json {
		err = p.printJSON(report)
	} else {
		err = p.printVerify(report)
	}
	if left := len(report.Faults) - report.Repaired; err == nil && left > 0 {
		err = fmt.Errorf("%d things are wrong and were not repaired", left)
	}
	return err
}

func (p *process) printVerify(r *lifecycle.VerifyReport) error {
	pairs := [][]string{{"segments", itoa(r.Segments)}}
	if r.Depth != lifecycle.DepthList {
		pairs = append(pairs, []string{"read", size(r.Bytes)})
	}
	if r.Depth == lifecycle.DepthRestore {
		pairs = append(pairs, []string{"records", itoa(r.Records)}, []string{"locations", itoa(r.Locations)}, []string{"documents", itoa(r.Documents)})
	}
	pairs = append(pairs, []string{"faults", fmt.Sprintf("%d, %d repaired", len(r.Faults), r.Repaired)}, []string{"took", r.Took.Round(time.Millisecond).String()})
	if err := p.pairs(pairs); err != nil {
		return err
	}
	var rows [][]string
	for _, f := range r.Faults {
		state := "wrong"
		if f.Repaired {
			state = "repaired"
		}
		rows = append(rows, []string{f.What, dash(f.Copy), dash(f.Object), dash(f.Key), state, f.Detail})
	}
	if err := p.section([]string{"FAULT", "COPY", "OBJECT", "DOCUMENT", "STATE", "DETAIL"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, s := range r.Strangers {
		rows = append(rows, []string{s.Object, s.Copy, size(s.Size)})
	}
	return p.section([]string{"UNKNOWN OBJECT", "COPY", "SIZE"}, rows)
}
