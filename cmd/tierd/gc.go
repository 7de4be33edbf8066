package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/tiering/lifecycle"
)

type gcCommand struct {
	Execute bool   `name:"run" help:"Do it; without this, only say what would be done."`
	Data    string `group:"direct" placeholder:"DIR" help:"Folder of the embedded tiers ($TIERD_DATA); no daemon may be using it."`
	Config  string `group:"direct" placeholder:"FILE" help:"Open the tiers that this YAML file names, as serve does ($TIERD_CONFIG)."`
	Warm    string `group:"tiers" placeholder:"sqlite:" help:"${warm} ($TIERD_WARM)."`
	Cold    string `group:"tiers" placeholder:"dir:" help:"${cold} ($TIERD_COLD)."`
	Backup  string `group:"tiers" placeholder:"dir:" help:"The second copy of cold, as cold ($TIERD_BACKUP)."`
}

func (*gcCommand) Help() string {
	return "Merges small segments, drops from cold storage what the policies no longer keep, and deletes the objects of segments that were replaced more than an hour ago. " +
		"It is a dry run unless --run is given. A daemon does all of this by itself, in the background; this command is for looking, and for tiers that no daemon serves. " +
		"Objects that the catalog does not know are listed, and deleted only when nothing can be lost with them.\n\n" +
		examples("tierd gc --data ./tierd-data", "tierd gc --data ./tierd-data --run --json")
}

func (c *gcCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	loaded, err := p.loadChecked(given(kctx), (*config.Loaded).Check)
	if err != nil {
		return err
	}
	report, err := tierd.Collect(ctx, tierd.Config{
		Data: loaded.Data, Warm: loaded.Given("warm"), Cold: loaded.Given("cold"), Backup: loaded.Given("backup"), Logger: p.logger(loaded),
	}, !c.Execute)
	if errors.Is(err, tierd.ErrInUse) {
		return &advisedError{err, fmt.Sprintf("a daemon uses %s, and collects by itself: stop it to run gc on its folder", loaded.Data)}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(report)
	}
	return p.printGC(report)
}

func (p *process) printGC(r lifecycle.GCReport) error {
	if r.Blocked != "" {
		return p.printf("nothing was done: %s\n", r.Blocked)
	}
	var sources, before, after int64
	for _, w := range r.Rewritten {
		sources += int64(len(w.Sources))
		before += w.Before
		after += w.After
	}
	rewritten := fmt.Sprintf("%d, %s", sources, size(before))
	if !r.DryRun {
		rewritten += fmt.Sprintf(", became %d, %s", len(r.Rewritten), size(after))
	}
	pairs := [][]string{{"segments rewritten", rewritten}}
	for _, why := range slices.Sorted(maps.Keys(r.Dropped)) {
		pairs = append(pairs, []string{"dropped, " + dropWords(why), itoa(r.Dropped[why])})
	}
	pairs = append(pairs,
		[]string{"objects deleted", fmt.Sprintf("%d, %s", r.Objects, size(r.Bytes))},
		[]string{"waiting to be deleted", fmt.Sprintf("%d segments, %s", r.Waiting, size(r.WaitingBytes))},
		[]string{"due within 7 days", fmt.Sprintf("%d versions", r.NextVersions)})
	if err := p.pairs(pairs); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range r.Strangers {
		what := "deleted"
		if s.Kept != "" {
			what = "kept: " + s.Kept
		}
		rows = append(rows, []string{s.Name, strings.Join(s.Copies, "+"), size(s.Size), what})
	}
	if err := p.section([]string{"UNKNOWN OBJECT", "COPY", "SIZE", "WHAT"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, l := range r.Left {
		rows = append(rows, []string{l.Segment, l.Why})
	}
	if err := p.section([]string{"LEFT AS IT IS", "WHY"}, rows); err != nil {
		return err
	}
	if r.DryRun {
		p.notef("this was a dry run: nothing was changed; --run does it")
	}
	return nil
}

// dropWords says in words why versions were dropped.
func dropWords(why string) string {
	switch why {
	case "history":
		return "versions beyond keep_versions and keep_for"
	case "deleted":
		return "versions of deleted documents"
	case "tombstone":
		return "deletions that nothing is left of"
	case "touch":
		return "touches and pins of those"
	}
	return why
}
