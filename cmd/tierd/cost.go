package main

import (
	"context"
	"fmt"
	"math"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/internal/cost"
)

type costCommand struct {
	Days   int    `default:"30" placeholder:"30" help:"The pace is taken from so many days, or from the age of a younger store."`
	Prices string `placeholder:"hot=0.12,..." help:"Prices that differ from the list: hot, warm and cold for a GB and month, put and get for 1,000 requests ($TIERD_PRICES)."`
	Hot    string `group:"tiers" placeholder:"memory:" help:"${hot} ($TIERD_HOT)."`
	tierFlags
}

func (*costCommand) Help() string {
	return "What the tiers hold, the pace at which it came, the policies of the namespaces and a price list make a month's bill: as it is now, and as it will be in a year. " +
		"Beside it stands what the same would cost if all of it was kept in hot, or in warm. The assumptions that were made are printed with it. It reads every document's head, and changes nothing.\n\n" +
		"Prices are those of --prices, or of prices in the YAML file; without any: " + cost.Defaults().String() + ".\n\n" +
		examples("tierd cost", "tierd cost --days 7 --prices hot=0.09,put=0.0065 --json")
}

func (c *costCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	if c.Days < 1 {
		return usagef("--days %d: use 1 or more", c.Days)
	}
	flags := given(kctx)
	delete(flags, "days")
	loaded, err := p.loadChecked(flags, (*config.Loaded).Check)
	if err != nil {
		return err
	}
	conf := p.tiersOf(loaded)
	conf.Hot = loaded.Given("hot")
	usage, err := tierd.Usage(ctx, conf, c.Days)
	if err != nil {
		return inUse(err, conf)
	}
	estimate := cost.Of(usage, loaded.Prices)
	if p.json {
		return p.printJSON(estimate)
	}
	return p.printCost(estimate)
}

func (p *process) printCost(e *cost.Estimate) error {
	if err := p.printf("A month of %d days, at the pace of the last %.3g: %s versions and %s a day.\n",
		cost.Month, e.Pace.Days, count(e.Pace.Versions), size(int64(e.Pace.RawBytes))); err != nil {
		return err
	}
	for _, b := range []struct {
		when string
		bill cost.Bill
	}{{"NOW", e.Now}, {"IN A YEAR", e.Year}} {
		if err := p.section([]string{b.when, "BYTES", "STORAGE", "REQUESTS", "A MONTH", "EVERYTHING IN HOT", "EVERYTHING IN WARM"}, billRows(b.bill)); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, r := range e.Requests {
		rows = append(rows, []string{r.What, count(r.Puts), count(r.Gets)})
	}
	if err := p.section([]string{"REQUESTS TO A BUCKET IN A MONTH", "PUTS AND LISTS", "GETS AND HEADS"}, rows); err != nil {
		return err
	}
	tenants := map[string]bool{}
	for _, n := range e.Namespaces {
		tenants[n.Tenant] = true
	}
	rows = nil
	for _, n := range e.Namespaces {
		name := n.Namespace
		if len(tenants) > 1 {
			name = n.Tenant + "/" + name
		}
		rows = append(rows, []string{
			name, n.Class, itoa(n.Documents), count(n.Versions), size(int64(n.KeptBytes)), size(int64(n.WarmYear)), size(int64(n.ColdYear)),
		})
	}
	if err := p.section([]string{"NAMESPACE", "CLASS", "DOCUMENTS", "VERSIONS A DAY", "KEPT NOW", "WARM IN A YEAR", "COLD IN A YEAR"}, rows); err != nil {
		return err
	}
	if err := p.printf("\nPrices: %s. Assumed:\n", e.Prices); err != nil {
		return err
	}
	for _, a := range e.Assumptions {
		if err := p.printf("- %s\n", a); err != nil {
			return err
		}
	}
	return nil
}

// billRows are the rows of one bill.
func billRows(b cost.Bill) [][]string {
	var rows [][]string
	for _, t := range b.Tiers {
		requests, hot, warm := "-", "-", "-"
		if t.Puts+t.Gets > 0 {
			requests = money(t.Requests)
		}
		switch t.Tier {
		case "hot":
			hot = money(b.InHot)
		case "warm":
			warm = money(b.InWarm)
		}
		rows = append(rows, []string{t.Tier, size(int64(t.Bytes)), money(t.Storage), requests, money(t.Total), hot, warm})
	}
	return append(rows, []string{"total", "", "", "", money(b.Total), money(b.InHot), money(b.InWarm)})
}

// money writes an amount to the cent, a smaller one to its first two digits.
func money(x float64) string {
	switch {
	case x == 0 || x >= 0.1:
		return fmt.Sprintf("%.2f", x)
	case x < 0.0001:
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", x)
}

// count writes a number of things.
func count(x float64) string {
	if x > 0 && x < 10 {
		return fmt.Sprintf("%.2g", x)
	}
	return itoa(int64(math.Round(x)))
}
