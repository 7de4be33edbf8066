package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tierd/tierd/tiering"
)

// exportLine is one document of an export.
type exportLine struct {
	Namespace string          `json:"namespace"`
	Kind      tiering.Kind    `json:"kind,omitempty"` // of the namespace; "": state
	ID        string          `json:"id"`
	Version   int64           `json:"version"`
	User      string          `json:"user,omitempty"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	Data      json.RawMessage `json:"data"`
}

type exportCommand struct {
	NS     nsArg  `arg:"" name:"ns" help:"The namespace, of documents or memories."`
	Prefix string `placeholder:"TEXT" help:"Only ids that start with this."`
	User   string `placeholder:"NAME" help:"Only documents of this owner."`
	Output string `short:"o" default:"-" placeholder:"FILE" help:"File to write, - for standard output."`
	connectFlags
}

func (*exportCommand) Help() string {
	return `Each line is one document: {"namespace","id","version","user","expires_at","data"}, in id order, with the data as tierd get prints it. ` +
		"Documents in cold storage are read from there. Each document is written as it stood when it was read: an export made while others write is not a snapshot of one moment. " +
		"A file appears under its name only when the export is complete.\n\n" +
		examples("tierd export agents -o agents.jsonl", "tierd export agents --prefix team-a/ | gzip > team-a.jsonl.gz")
}

func (c *exportCommand) Run(ctx context.Context, p *process) error {
	if c.Output != "-" {
		if info, err := os.Stat(c.Output); err == nil && info.IsDir() {
			return usagef("--output %s: is a folder: name a file in it", c.Output)
		}
	}
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	kind, err := exportedKind(ctx, service, string(c.NS))
	if err != nil {
		return err
	}
	if c.Output == "-" {
		_, err := c.write(ctx, service, kind, p.stdout)
		return err
	}
	var n int
	err = writeFile(c.Output, func(w io.Writer) (err error) {
		n, err = c.write(ctx, service, kind, w)
		return err
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"exported": n, "file": c.Output})
	}
	return p.printf("documents exported to %s: %d\n", c.Output, n)
}

// exportedKind is the kind that lines have to tell: an import into a store that
// has no such namespace makes it of that kind. A key that may not look at the
// namespace leaves it to the reader.
func exportedKind(ctx context.Context, service tiering.Service, ns string) (tiering.Kind, error) {
	info, err := service.Namespace(ctx, ns)
	switch {
	case errors.Is(err, tiering.ErrNotFound):
		return "", err
	case err != nil || info.Kind == tiering.KindState:
		return "", nil
	case info.Kind == tiering.KindLog:
		return "", usagef("namespace %s holds logs, and an export would have their last entries alone: tierd entries prints a log, tierd sessions export a session", ns)
	}
	return info.Kind, nil
}

func (c *exportCommand) write(ctx context.Context, service tiering.Service, kind tiering.Kind, w io.Writer) (int, error) {
	buffered := bufio.NewWriter(w)
	count := 0
	_, err := eachPage(math.MaxInt, dataPage, "", func(limit int, cursor string) (int, string, error) {
		page, err := service.List(ctx, string(c.NS), &tiering.ListOptions{Prefix: c.Prefix, User: c.User, Limit: limit, Cursor: cursor, Data: true})
		if err != nil {
			return 0, "", err
		}
		for _, it := range page.Items {
			line, ok, err := exported(ctx, service, it)
			if err != nil {
				return 0, "", err
			}
			if !ok {
				continue
			}
			line.Kind = kind
			if err := encodeJSON(buffered, line, false); err != nil {
				return 0, "", err
			}
			count++
		}
		return len(page.Items), page.NextCursor, nil
	})
	return count, errors.Join(err, buffered.Flush())
}

// exported returns the line of a listed document, reading its bytes when the
// list left them out; ok is false when it was deleted in the meantime.
func exported(ctx context.Context, service tiering.Service, it tiering.Item) (line exportLine, ok bool, err error) {
	meta, body := it.Meta, it.Body
	if body == nil {
		doc, err := service.Get(ctx, it.Namespace, it.ID, &tiering.GetOptions{Strong: true, NoDefault: true})
		if errors.Is(err, tiering.ErrNotFound) {
			return exportLine{}, false, nil
		}
		if err != nil {
			return exportLine{}, false, err
		}
		meta, body = doc.Meta, doc.Body
	}
	return exportLine{Namespace: it.Namespace, ID: it.ID, Version: meta.Version, User: meta.User, ExpiresAt: meta.ExpiresAt, Data: body}, true, nil
}

// writeFile makes a file whole or not at all: write fills a temporary one
// beside it, which is renamed when it is safe on disk.
func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("finish %s: %w", name, err)
	}
	return nil
}
