package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/tierd/tierd/tiering"
)

// pageFlags bound a listing.
type pageFlags struct {
	Limit  int    `default:"100" placeholder:"N" help:"Print at most this many."`
	All    bool   `help:"Print all, however many."`
	Cursor string `placeholder:"CURSOR" help:"Go on where an earlier listing stopped."`
}

// maxPage is the most documents that one request may ask for; dataPage keeps an
// answer with bodies in it moderate.
const (
	maxPage  = 1000
	dataPage = 100
)

// each fetches pages of at most size until the limit is reached or the listing
// ends. It returns the cursor behind the last row, "" at the end.
func (f pageFlags) each(size int, fetch fetchPage) (string, error) {
	if f.Limit < 1 {
		return "", usagef("--limit %d: use 1 or more", f.Limit)
	}
	most := f.Limit
	if f.All {
		most = math.MaxInt
	}
	return eachPage(most, size, f.Cursor, fetch)
}

// fetchPage gets one page and takes its rows; it returns how many there were
// and the next cursor.
type fetchPage func(limit int, cursor string) (rows int, next string, err error)

// eachPage is pageFlags.each for any number of rows. A page that is too large
// for one answer is asked for again in halves.
func eachPage(most, size int, cursor string, fetch fetchPage) (string, error) {
	for {
		limit := min(most, size)
		n, next, err := fetch(limit, cursor)
		switch {
		case errors.Is(err, tiering.ErrTooLarge) && limit > 1:
			size = limit / 2
			continue
		case err != nil || next == "":
			return "", err
		}
		if most -= n; most <= 0 {
			return next, nil
		}
		cursor = next
	}
}

// more tells that a listing was cut.
func (p *process) more(next string) {
	if next != "" {
		p.notef("there is more: --all prints everything, --cursor %s goes on from here", next)
	}
}

// unknownNamespace returns not_found when there is no such namespace, nil when
// there is one or when it cannot be known, such as for an API key that may not
// look: the command itself says then what is wrong.
func unknownNamespace(ctx context.Context, service tiering.Service, ns string) error {
	if _, err := service.Namespace(ctx, ns); errors.Is(err, tiering.ErrNotFound) {
		return err
	}
	return nil
}

// noteUnknown tells one who reads an empty listing that the name may be mistyped.
func (p *process) noteUnknown(ctx context.Context, service tiering.Service, ns string) {
	if !p.json && unknownNamespace(ctx, service, ns) != nil {
		p.notef("there is no namespace %s yet: tierd ns ls lists those there are", ns)
	}
}

type lsCommand struct {
	NS     nsArg  `arg:"" name:"ns" help:"The namespace."`
	Prefix string `placeholder:"TEXT" help:"Only ids that start with this."`
	User   string `placeholder:"NAME" help:"Only documents of this owner."`
	Data   bool   `help:"Print the documents too; those in cold storage are marked instead."`
	pageFlags
	connectFlags
}

func (*lsCommand) Help() string {
	return examples("tierd ls agents --prefix team-a/", "tierd ls agents --user ann --all --json")
}

func (c *lsCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	n, err := c.print(p, c.Data, func(limit int, cursor string) (*tiering.Page, error) {
		return service.List(ctx, string(c.NS), &tiering.ListOptions{Prefix: c.Prefix, User: c.User, Limit: limit, Cursor: cursor, Data: c.Data})
	})
	if err == nil && n == 0 {
		p.noteUnknown(ctx, service, string(c.NS))
	}
	return err
}

type queryCommand struct {
	NS      nsArg  `arg:"" name:"ns" help:"The namespace."`
	Filter  string `arg:"" help:"The filter, a JSON object; - for standard input."`
	OrderBy string `placeholder:"/a/b" help:"JSON Pointer or name to sort by; a minus before it sorts downwards."`
	Prefix  string `placeholder:"TEXT" help:"Only ids that start with this."`
	User    string `placeholder:"NAME" help:"Only documents of this owner."`
	pageFlags
	connectFlags
}

func (*queryCommand) Help() string {
	return "Operators: $eq $ne $gt $gte $lt $lte $in $exists $contains $text $and $or $not. A bare value means $eq, a bare name means the field of that name.\n\n" +
		examples(`tierd query agents '{"status":"running","/user/age":{"$gte":18}}'`, `tierd query agents '{}' --order-by=-/score --limit 10`)
}

func (c *queryCommand) Run(ctx context.Context, p *process) error {
	filter, err := p.inline(c.Filter)
	if err != nil {
		return err
	}
	if !json.Valid(filter) {
		return usagef("the filter is no JSON: write an object such as {\"status\":\"running\"}")
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	n, err := c.print(p, true, func(limit int, cursor string) (*tiering.Page, error) {
		return service.Query(ctx, string(c.NS), &tiering.Query{Filter: filter, OrderBy: c.OrderBy, Prefix: c.Prefix, User: c.User, Limit: limit, Cursor: cursor})
	})
	if err == nil && n == 0 {
		p.noteUnknown(ctx, service, string(c.NS))
	}
	return err
}

// print fetches documents page by page, prints them as one table, or as one
// JSON page, and returns how many there were.
func (f pageFlags) print(p *process, data bool, fetch func(limit int, cursor string) (*tiering.Page, error)) (int, error) {
	all := tiering.Page{Items: []tiering.Item{}}
	size := maxPage
	if data {
		size = dataPage
	}
	next, err := f.each(size, func(limit int, cursor string) (int, string, error) {
		page, err := fetch(limit, cursor)
		if err != nil {
			return 0, "", err
		}
		all.Items = append(all.Items, page.Items...)
		return len(page.Items), page.NextCursor, nil
	})
	if err != nil {
		return 0, err
	}
	all.NextCursor = next
	if p.json {
		return len(all.Items), p.printJSON(all)
	}
	header := []string{"ID", "VERSION", "SIZE", "UPDATED", "EXPIRES", "USER"}
	if data {
		header = append(header, "DATA")
	}
	var rows [][]string
	for _, it := range all.Items {
		row := []string{it.ID, itoa(it.Version), itoa(it.Size), stamp(it.UpdatedAt), stamp(it.ExpiresAt), dash(it.User)}
		if data {
			body := string(it.Body)
			if it.Cold {
				body = "(in cold storage: tierd get reads it)"
			}
			row = append(row, body)
		}
		rows = append(rows, row)
	}
	if err := p.table(header, rows); err != nil {
		return 0, err
	}
	p.more(next)
	return len(rows), nil
}

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }
