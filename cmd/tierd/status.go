package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/tierd/tierd/tiering"
)

type statusCommand struct{ connectFlags }

func (*statusCommand) Help() string { return examples("tierd status") }

func (c *statusCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	s, err := service.Status(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(s)
	}
	return p.printStatus(s, time.Now())
}

func (p *process) printStatus(s *tiering.NodeStatus, now time.Time) error {
	ready := "ready"
	if !s.Ready {
		ready = "not ready"
	}
	archive := fmt.Sprintf("at %d, %d behind", s.Archive.Position, s.Archive.Behind)
	if !s.Archive.OldestTime.IsZero() {
		archive += ", oldest change not archived from " + stamp(s.Archive.OldestTime)
	}
	if s.Archive.Missing > 0 {
		archive += fmt.Sprintf(", %d copies missing", s.Archive.Missing)
	}
	if s.Archive.LastError != "" {
		archive += ", last error: " + s.Archive.LastError
	}
	pairs := [][]string{
		{"tierd", s.Version}, {"state", ready}, {"up", now.Sub(s.Started).Round(time.Second).String()}, {"epoch", s.Epoch},
		{"feed", fmt.Sprintf("at %d, %d waiting", s.Feed.Tail, s.Feed.Lag)}, {"archive", archive},
	}
	for _, move := range slices.Sorted(maps.Keys(s.DueWithinADay)) {
		pairs = append(pairs, []string{"due in 24h", fmt.Sprintf("%d to %s", s.DueWithinADay[move], move)})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		pairs = append(pairs, []string{name, itoa(s.Counts[name])})
	}
	if s.Estimated {
		pairs = append(pairs, []string{"counts", "estimates: there is too much to count"})
	}
	if err := p.pairs(pairs); err != nil {
		return err
	}
	var rows [][]string
	for _, t := range s.Tiers {
		state := "ok"
		if !t.OK {
			state = "down: " + t.Error
		}
		rows = append(rows, []string{string(t.Tier), t.Driver, dash(t.Copy), itoa(t.Items), size(t.Bytes), state})
	}
	if err := p.section([]string{"TIER", "DRIVER", "COPY", "ITEMS", "SIZE", "STATE"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, m := range s.Parked {
		rows = append(rows, []string{m.Move, m.Subject, itoa(m.Attempts), stamp(m.Since), m.Error})
	}
	return p.section([]string{"PARKED", "SUBJECT", "ATTEMPTS", "SINCE", "ERROR"}, rows)
}

// section prints a table behind an empty line, nothing when it has no rows.
func (p *process) section(header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if err := p.printf("\n"); err != nil {
		return err
	}
	return p.table(header, rows)
}

func size(bytes int64) string {
	if bytes < 0 {
		return "-"
	}
	return humanize.IBytes(uint64(bytes))
}
