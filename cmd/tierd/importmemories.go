package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/tiering"
)

// memoriesPage is how many memories one request carries.
const memoriesPage = 100

// memoryImport is an import of memories under way.
type memoryImport struct {
	*importJob
	namespace string
}

// page is consecutive lines.
type page struct {
	numbers  []int64
	memories []tiering.NewMemory
}

// run stores every line, a page at a time. What has no id is stored once, however
// often it is imported: the same text of the same user is the same memory.
func (m memoryImport) run(outer context.Context, in io.Reader) error {
	g, ctx := errgroup.WithContext(outer)
	g.SetLimit(m.command.Concurrency)
	lines := newLineReader(in, maxImportLine)
	var next page
	send := func() {
		full := next
		next = page{}
		if len(full.memories) > 0 {
			g.Go(func() error { return m.store(ctx, full) })
		}
	}
	for ctx.Err() == nil {
		raw, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLineTooLong) {
			return errors.Join(err, g.Wait())
		}
		m.bar.add(lines.size)
		if err == nil && len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		var memory tiering.NewMemory
		if err == nil {
			if err = decodeStrict(raw, &memory); err != nil {
				err = fmt.Errorf("is no memory: %w", err)
			}
		}
		if err != nil {
			if err := m.failed(lines.number, err); err != nil {
				return errors.Join(err, g.Wait())
			}
			continue
		}
		next.numbers, next.memories = append(next.numbers, lines.number), append(next.memories, memory)
		if len(next.memories) == memoriesPage {
			send()
		}
	}
	send()
	if err := g.Wait(); err != nil {
		return err
	}
	if m.counts.Failed > 0 {
		return fmt.Errorf("%d lines failed", m.counts.Failed)
	}
	return outer.Err()
}

// store sends one page.
func (m memoryImport) store(ctx context.Context, p page) error {
	done, errs, err := m.service.Remember(ctx, m.namespace, p.memories, &tiering.RememberOptions{Dedupe: true})
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", p.numbers[0], p.numbers[len(p.numbers)-1], err)
	}
	for i, err := range errs {
		if err != nil {
			if err := m.failed(p.numbers[i], err); err != nil {
				return err
			}
			continue
		}
		m.count(func(n *importCounts) {
			switch {
			case done[i].Duplicate:
				n.Unchanged++
			case done[i].Created:
				n.Created++
			default:
				n.Replaced++
			}
		})
	}
	return nil
}
