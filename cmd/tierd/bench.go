package main

import (
	"context"
	"errors"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd/internal/bench"
	"github.com/tierd/tierd/internal/config"
)

type benchCommand struct {
	For     time.Duration `default:"2s" placeholder:"2s" help:"How long each figure is measured."`
	Writers []int         `default:"1,16,64" placeholder:"1,16,64" help:"The numbers of writers that put documents."`
	Hot     string        `group:"tiers" placeholder:"memory:" help:"${hot} ($TIERD_HOT)."`
	Vector  string        `group:"tiers" placeholder:"flat:" help:"${vector} ($TIERD_VECTOR)."`
	Embed   string        `group:"tiers" placeholder:"static:" help:"${embed} ($TIERD_EMBED)."`
	tierFlags
}

func (*benchCommand) Help() string {
	return "Measures your Redis, PostgreSQL and buckets, or the embedded tiers, one after the other in this process: what one would write by hand (a cache, then a database, and for article an object a version), " +
		"the raw floors (a row, an object), and tierd, with its archive at work. Each figure comes from two turns: rate and latencies are those of the faster one, a ratio is the average of turns that ran side by side. Ratios travel better than the rest. " +
		"The last column is what the field expects of such a tier.\n\n" +
		"It works in a schema, a prefix and a folder of its own, whose names begin with bench_, and removes them, also after Ctrl-C. Your documents are not touched, and a daemon may run, also one on the folder of --data; what else the machine does is measured too. " +
		"In all it takes about 30 times --for, and some seconds.\n\n" +
		examples("tierd bench", "tierd bench --writers 4 --json")
}

func (c *benchCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	if c.For < 10*time.Millisecond {
		return usagef("--for %s: use 10ms or more", c.For)
	}
	for _, n := range c.Writers {
		if n < 1 || n > 1024 {
			return usagef("--writers %d: use 1 to 1024", n)
		}
	}
	flags := given(kctx)
	delete(flags, "for")
	delete(flags, "writers")
	loaded, err := p.loadChecked(flags, (*config.Loaded).Check)
	if err != nil {
		return err
	}
	conf := p.tiersOf(loaded)
	conf.Hot, conf.Vector, conf.Embed, conf.HotBytes = loaded.Given("hot"), loaded.Given("vector"), loaded.Given("embed"), loaded.HotBytes
	figures, err := bench.Measure(ctx, bench.MeasureConfig{Tiers: conf, For: c.For, Writers: c.Writers, Progress: func(what string) { p.notef("measuring: %s", what) }})
	if figures == nil || len(figures.Rows) == 0 {
		return err
	}
	if p.json {
		return errors.Join(err, p.printJSON(figures))
	}
	return errors.Join(err, figures.WriteTable(p.stdout))
}
