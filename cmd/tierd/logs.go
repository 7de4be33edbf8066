package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

type appendCommand struct {
	Key            keyArg  `arg:"" name:"ns/id" help:"The log."`
	Entries        string  `arg:"" name:"json" help:"The entry, or an array of entries; - for standard input."`
	Lines          bool    `help:"Each line of the input is an entry."`
	ExpectSeq      *int64  `placeholder:"N" help:"Only if this is the log's last sequence number; 0: only if there is no log."`
	IdempotencyKey string  `placeholder:"TEXT" help:"Do this once in 24 h: the same key again answers the first result."`
	TTL            ttlFlag `name:"ttl" placeholder:"30m" help:"Life from now: seconds, 30m, 12h, 7d, or none."`
	User           string  `placeholder:"NAME" help:"Owner of the log, fixed when it is created."`
	connectFlags
}

func (*appendCommand) Help() string {
	return "A log is made, with its namespace, by its first entry. The entries of one call lie behind each other, with nothing between.\n\n" +
		examples(`tierd append chats/7 '{"role":"user","content":"Is 14C free?"}'`, "produce | tierd append chats/7 - --lines", `tierd append chats/8 '{"n":1}' --expect-seq 0`)
}

func (c *appendCommand) Run(ctx context.Context, p *process) error {
	raw, err := p.inline(c.Entries)
	if err != nil {
		return err
	}
	entries, err := entriesIn(raw, c.Lines)
	if err != nil {
		return err
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	a, err := service.Append(ctx, c.Key.NS, c.Key.ID, entries, &tiering.AppendOptions{
		ExpectSeq: c.ExpectSeq, IdempotencyKey: c.IdempotencyKey, TTL: c.TTL.ttl, User: c.User,
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(a)
	}
	seqs := itoa(a.FirstSeq)
	if a.LastSeq != a.FirstSeq {
		seqs += " to " + itoa(a.LastSeq)
	}
	return p.printf("appended %s/%s %s\n", a.Namespace, a.ID, seqs)
}

// entriesIn are the entries of an argument or an input.
func entriesIn(raw []byte, lines bool) (out []json.RawMessage, err error) {
	switch {
	case lines:
		for line := range strings.SplitSeq(string(raw), "\n") {
			if strings.TrimSpace(line) != "" {
				out = append(out, json.RawMessage(line))
			}
		}
	case firstByte(raw) == '[':
		if err = json.Unmarshal(raw, &out); err != nil {
			return nil, usagef("the entries cannot be read: %v", err)
		}
	default:
		out = []json.RawMessage{raw}
	}
	for _, e := range out {
		if !json.Valid(e) {
			return nil, usagef("%.60s is no JSON: text needs quotes, such as '\"text\"'", e)
		}
	}
	return out, nil
}

type entriesCommand struct {
	Key    keyArg   `arg:"" name:"ns/id" help:"The log."`
	After  int64    `placeholder:"N" help:"Only above this sequence number."`
	Before int64    `placeholder:"N" help:"Only below this one."`
	Since  timeFlag `placeholder:"TIME" help:"Only from then on: 2026-01-31T12:00:00Z, or an age such as 2h or 7d."`
	Until  timeFlag `placeholder:"TIME" help:"Only from before then."`
	Desc   bool     `help:"The newest first."`
	Limit  int      `default:"100" placeholder:"N" help:"Print at most this many."`
	connectFlags
}

func (*entriesCommand) Help() string {
	return examples("tierd entries chats/7", "tierd entries chats/7 --desc --limit 5", "tierd entries chats/7 --since 2h --json")
}

func (c *entriesCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	now := time.Now()
	page, err := service.Entries(ctx, c.Key.NS, c.Key.ID, &tiering.EntriesOptions{
		After: c.After, Before: c.Before, Since: c.Since.time(now), Until: c.Until.time(now), Descending: c.Desc, Limit: c.Limit,
	})
	if err != nil {
		return err
	}
	return p.printEntries(page, c.Desc)
}

func (p *process) printEntries(page *tiering.EntryPage, descending bool) error {
	if p.json {
		return p.printJSON(page)
	}
	for _, e := range page.Entries {
		if err := p.printEntry(e); err != nil {
			return err
		}
	}
	if n := len(page.Entries); page.More && n > 0 {
		flag := "--after"
		if descending {
			flag = "--before"
		}
		p.notef("there is more: %s %d goes on from here", flag, page.Entries[n-1].Seq)
	}
	return nil
}

func (p *process) printEntry(e tiering.Entry) error {
	return p.printf("%d  %s  %s\n", e.Seq, stamp(e.Time), e.Data)
}

type tailCommand struct {
	Of       string `arg:"" name:"ns[/id]" help:"A namespace, or one log."`
	Lines    int    `short:"n" default:"10" placeholder:"N" help:"Of one log: begin with its newest N entries."`
	Consumer string `placeholder:"NAME" help:"Go on where this name was; what was printed is acknowledged. The first tail of a name begins at --from."`
	From     string `enum:"now,start" default:"now" help:"With a new --consumer: now, or start, everything the feed still holds first."`
	connectFlags
}

func (*tailCommand) Help() string {
	return "Follows what is written until Ctrl-C: of a namespace every change with its content, of one log its entries. With --consumer it misses nothing between one run and the next, " +
		"while these lie less than a day apart; what was printed just before it was killed may come again.\n\n" +
		examples("tierd tail agents", "tierd tail chats/7 -n 20", "tierd tail agents --consumer mailer --json")
}

func (c *tailCommand) Run(ctx context.Context, p *process) error {
	if c.Lines < 0 {
		return usagef("-n %d: use 0 or more", c.Lines)
	}
	if c.Consumer == "" && c.From != "now" && c.From != "" {
		return usagef("--from goes with --consumer")
	}
	name, id, one := strings.Cut(c.Of, "/")
	var ns nsArg
	if err := ns.UnmarshalText([]byte(name)); err != nil {
		return usagef("%v", err)
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	o := &tiering.WatchOptions{Namespace: name, ID: id, Data: true, Consumer: c.Consumer, From: c.From}
	if c.Consumer != "" {
		err := tiering.Consume(ctx, service, o, func(e tiering.Event) error { return p.printTailed(e, one) })
		return endOfWatch(ctx, err)
	}
	w, err := service.Watch(ctx, o)
	if err != nil {
		return endOfWatch(ctx, err)
	}
	shown := int64(0)
	if one && c.Lines > 0 {
		shown, err = p.lastEntries(ctx, service, name, id, c.Lines)
	}
	if err == nil {
		err = p.follow(ctx, w, one, shown)
	}
	return errors.Join(endOfWatch(ctx, err), w.Close())
}

// lastEntries prints the newest entries of a log in their order, and returns the
// number of the last one.
func (p *process) lastEntries(ctx context.Context, service tiering.Logs, ns, id string, n int) (int64, error) {
	page, err := service.Entries(ctx, ns, id, &tiering.EntriesOptions{Descending: true, Limit: n})
	if errors.Is(err, tiering.ErrNotFound) {
		return 0, nil // it may come
	}
	if err != nil {
		return 0, err
	}
	for i := len(page.Entries) - 1; i >= 0; i-- {
		e := page.Entries[i]
		if p.json {
			err = p.printJSON(e)
		} else {
			err = p.printEntry(e)
		}
		if err != nil {
			return 0, err
		}
	}
	return page.LastSeq, nil
}

// follow prints what a watch sees, of one log the entries behind shown.
func (p *process) follow(ctx context.Context, w tiering.Watcher, one bool, shown int64) error {
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if one && e.Type == "log.appended" && e.Version <= shown {
			continue
		}
		if err := p.printTailed(e, one); err != nil {
			return err
		}
	}
}

// printTailed prints a change, of one log the entry that it is.
func (p *process) printTailed(e tiering.Event, one bool) error {
	entry := tiering.Entry{Seq: e.Version, Time: e.Time, Data: e.Data}
	switch {
	case !one || e.Type != "log.appended":
		return p.printEvent(e)
	case p.json:
		return p.printJSON(entry)
	}
	return p.printEntry(entry)
}
