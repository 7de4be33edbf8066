package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// eraseGroup is "tierd erase SUBJECT" and "tierd erase status RECEIPT".
type eraseGroup struct {
	Subject eraseCommand       `cmd:"" default:"withargs" help:"Make a document, a prefix or a user disappear from every tier; a dry run unless --run."`
	Status  eraseStatusCommand `cmd:"" help:"Show the receipt of an erase."`
}

// prefixArg is NS/PREFIX on the command line. What follows the first slash is
// taken as it is.
type prefixArg struct{ NS, Prefix string }

// UnmarshalText reads NS/PREFIX.
func (a *prefixArg) UnmarshalText(b []byte) error {
	ns, prefix, ok := strings.Cut(string(b), "/")
	if !ok || prefix == "" {
		return fmt.Errorf("%q is no NS/PREFIX: write the namespace, a slash and the beginning of the ids, such as notes/ada/", b)
	}
	if err := tiering.ValidateNamespace(ns); err != nil {
		return detailOf(err)
	}
	a.NS, a.Prefix = ns, prefix
	return nil
}

type eraseCommand struct {
	Key     *keyArg    `arg:"" optional:"" name:"ns/id" help:"One document."`
	Prefix  *prefixArg `placeholder:"NS/PREFIX" help:"All documents of a namespace whose ids begin so."`
	User    string     `placeholder:"NAME" help:"Everything that this user owns."`
	Execute bool       `name:"run" help:"Do it; without this, only say what would be erased."`
	Wait    bool       `help:"Wait until nothing of the subject is left in any tier."`
	connectFlags
}

func (*eraseCommand) Help() string {
	return "The subject disappears from hot, warm and both cold copies, with its history, and no rebuild brings it back. Nothing undoes it. " +
		"What cannot be done at once, such as while a bucket is down, is finished by the daemon; the receipt says what it waits for.\n\n" +
		examples("tierd erase notes/ada/draft", "tierd erase --prefix notes/ada/ --run", "tierd erase --user ada --run --wait")
}

func (c *eraseCommand) request() (tiering.EraseRequest, error) {
	dry := !c.Execute
	r := tiering.EraseRequest{User: c.User, DryRun: &dry}
	given := 0
	if c.Key != nil {
		given++
		r.Namespace, r.ID = c.Key.NS, c.Key.ID
	}
	if c.Prefix != nil {
		given++
		r.Namespace, r.Prefix = c.Prefix.NS, c.Prefix.Prefix
	}
	if c.User != "" {
		given++
	}
	if given != 1 {
		return r, usagef("say what to erase once: NS/ID, --prefix NS/PREFIX or --user NAME")
	}
	return r, nil
}

func (c *eraseCommand) Run(ctx context.Context, p *process) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	receipt, err := service.Erase(ctx, req)
	if err != nil {
		return err
	}
	if c.Wait && receipt.State == "running" {
		if receipt, err = p.awaitErase(ctx, service, receipt); err != nil {
			return err
		}
	}
	return p.printErase(receipt)
}

// How often a receipt is asked for, and how long an unreachable daemon is put
// up with between two answers.
const (
	eraseAsk      = 250 * time.Millisecond
	erasePatience = time.Minute
)

// awaitErase asks for the receipt until it is done. The daemon may be restarted
// meanwhile.
func (p *process) awaitErase(ctx context.Context, service tiering.Operations, r *tiering.EraseReceipt) (*tiering.EraseReceipt, error) {
	heard, told := time.Now(), ""
	for r.State == "running" {
		if r.Blocked != told {
			told = r.Blocked
			p.notef("erase %s waits: %s", r.ID, r.Blocked)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(eraseAsk):
		}
		next, err := service.Erasure(ctx, r.ID)
		switch {
		case err == nil:
			r, heard = next, time.Now()
		case !errors.Is(err, tiering.ErrUnavailable) || time.Since(heard) > erasePatience:
			return nil, err
		}
	}
	return r, nil
}

type eraseStatusCommand struct {
	Receipt string `arg:"" help:"The receipt, as tierd erase prints it."`
	connectFlags
}

func (*eraseStatusCommand) Help() string {
	return examples("tierd erase status 01kb9c5k3mvw8q2e7z4x6t1r0n")
}

func (c *eraseStatusCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	receipt, err := service.Erasure(ctx, c.Receipt)
	if err != nil {
		return err
	}
	return p.printErase(receipt)
}

func (p *process) printErase(r *tiering.EraseReceipt) error {
	if p.json {
		return p.printJSON(r)
	}
	rows := [][]string{{"state", r.State}, {"documents", itoa(r.Keys)}, {"versions in warm", fmt.Sprintf("%d, %s", r.Versions, size(r.Bytes))}}
	if r.DryRun {
		if err := p.pairs(append(rows, []string{"segments to rewrite", itoa(r.Segments)})); err != nil {
			return err
		}
		p.notef("this was a dry run: nothing was changed; --run does it")
		return nil
	}
	rows = append([][]string{{"receipt", r.ID}}, rows...)
	if r.State != "done" {
		rows = append(rows, []string{"segments left", itoa(r.Segments)})
	}
	if r.Blocked != "" {
		rows = append(rows, []string{"waits", r.Blocked})
	}
	return p.pairs(append(rows, []string{"subject", dash(r.Digest)}))
}
