package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

type importCommand struct {
	File            string `arg:"" help:"File with JSON lines as export writes them, - for standard input."`
	Namespace       string `placeholder:"NS" help:"Store into this namespace, whatever the lines say."`
	Kind            string `enum:"state,memory" default:"state" help:"state: documents, as export writes them. memory: memories, as POST /v1/memories takes them, one a line."`
	Concurrency     int    `default:"16" placeholder:"N" help:"Documents on their way at the same time."`
	IfAbsent        bool   `xor:"standing" help:"Leave documents that stand already as they are."`
	Overwrite       bool   `xor:"standing" help:"Make a new version of documents that stand already."`
	ContinueOnError bool   `help:"Go on behind a line that fails; the command fails at the end."`
	connectFlags
}

func (*importCommand) Help() string {
	return "Without --if-absent and --overwrite a document that stands already with the same data counts as done, and one with other data is a conflict. " +
		"So an import that was interrupted is finished by running it again: what is there is skipped. " +
		"With --overwrite a document that has the same data already is left alone too, and of several lines for one document the last one wins. " +
		"Versions start anew; the owner and the moment of expiry are kept; lines whose expiry has passed are skipped.\n\n" +
		"With --kind memory, which needs --namespace, a memory without an id is stored once, however often it is imported.\n\n" +
		examples("tierd import agents.jsonl", "tierd import memories.jsonl --kind memory --namespace people", "zcat team-a.jsonl.gz | tierd import - --if-absent --concurrency 32")
}

func (c *importCommand) Run(ctx context.Context, p *process) error {
	if c.Concurrency < 1 || c.Concurrency > 1024 {
		return usagef("--concurrency %d: use 1 to 1024", c.Concurrency)
	}
	if c.Namespace != "" {
		if err := tiering.ValidateNamespace(c.Namespace); err != nil {
			return usagef("--namespace: %v", detailOf(err))
		}
	}
	if c.Kind == "memory" && (c.Namespace == "" || c.IfAbsent || c.Overwrite) {
		return usagef("--kind memory needs --namespace, and takes neither --if-absent nor --overwrite: a memory that has an id is replaced, one without is stored once")
	}
	// A long import outlives a restart of the daemon.
	service, err := c.dialWith(p, client.Options{Retry: client.Retry{Attempts: 10, MaxDelay: 5 * time.Second}})
	if err != nil {
		return err
	}
	in, err := p.openInput(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	bar := newProgress(p, inputSize(in))
	report := p.stderr
	if p.json {
		report = io.Discard
	}
	job := newImportJob(c, service, bar, report)
	if c.Kind == "memory" {
		err = memoryImport{job, c.Namespace}.run(ctx, in)
	} else {
		err = job.run(ctx, in)
	}
	bar.finish()
	return errors.Join(p.printImport(job.counts), err)
}

// inputSize is the size of a regular file, 0 when the input has no known end.
func inputSize(in io.Reader) int64 {
	f, ok := in.(*os.File)
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// importCounts says what became of the lines.
type importCounts struct {
	Created   int64 `json:"created"`
	Replaced  int64 `json:"replaced"`
	Unchanged int64 `json:"unchanged"` // stood with the same data
	Skipped   int64 `json:"skipped"`   // stood, with --if-absent
	Expired   int64 `json:"expired"`
	Failed    int64 `json:"failed"`
}

func (p *process) printImport(n importCounts) error {
	if p.json {
		return p.printJSON(n)
	}
	return p.printf("created %d, replaced %d, already there %d, skipped %d, expired %d, failed %d\n",
		n.Created, n.Replaced, n.Unchanged, n.Skipped, n.Expired, n.Failed)
}

// importJob is one import under way.
type importJob struct {
	command *importCommand
	service tiering.Service
	bar     *progress
	report  io.Writer // failed lines that the import goes on behind
	seed    maphash.Seed

	mu     sync.Mutex
	counts importCounts
	made   map[string]bool // namespaces that were made, or found, for their lines' kind
}

func newImportJob(c *importCommand, service tiering.Service, bar *progress, report io.Writer) *importJob {
	return &importJob{command: c, service: service, bar: bar, report: report, seed: maphash.MakeSeed(), made: map[string]bool{}}
}

// numbered is a line with its number, from 1.
type numbered struct {
	number int64
	line   exportLine
}

// lineError is the failure of one line.
type lineError struct {
	number int64
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// run stores every line. All lines of one key go to one worker, in order, so
// that the last one wins.
func (j *importJob) run(ctx context.Context, in io.Reader) error {
	g, ctx := errgroup.WithContext(ctx)
	lanes := make([]chan numbered, j.command.Concurrency)
	for i := range lanes {
		lane := make(chan numbered, 4)
		lanes[i] = lane
		g.Go(func() error {
			for n := range lane {
				if err := j.failed(n.number, j.store(ctx, n.line)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer func() {
			for _, lane := range lanes {
				close(lane)
			}
		}()
		return j.read(ctx, in, lanes)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if j.counts.Failed > 0 {
		return fmt.Errorf("%d lines failed", j.counts.Failed)
	}
	return nil
}

func (j *importJob) read(ctx context.Context, in io.Reader, lanes []chan numbered) error {
	lines := newLineReader(in, maxImportLine)
	for ctx.Err() == nil {
		raw, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, errLineTooLong) {
			return err
		}
		j.bar.add(lines.size)
		var line exportLine
		if err == nil {
			if len(bytes.TrimSpace(raw)) == 0 {
				continue
			}
			line, err = j.parse(raw)
		}
		if err != nil {
			if err := j.failed(lines.number, err); err != nil {
				return err
			}
			continue
		}
		select {
		case lanes[j.lane(line)] <- numbered{lines.number, line}:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// lane chooses a worker by the key of a line.
func (j *importJob) lane(line exportLine) int {
	h := maphash.Comparable(j.seed, [2]string{line.Namespace, line.ID})
	return int(h % uint64(j.command.Concurrency))
}

// parse reads and checks one line.
func (j *importJob) parse(raw []byte) (exportLine, error) {
	var line exportLine
	if err := decodeStrict(raw, &line); err != nil {
		return line, fmt.Errorf("is no line of an export: %w", err)
	}
	if j.command.Namespace != "" {
		line.Namespace = j.command.Namespace
	}
	if err := tiering.ValidateNamespace(line.Namespace); err != nil {
		return line, detailOf(err)
	}
	if err := tiering.ValidateID(line.ID); err != nil {
		return line, detailOf(err)
	}
	if line.Data == nil {
		return line, errors.New("has no data")
	}
	return line, nil
}

// failed counts and reports a failure; it returns the error that ends the
// import, nil when it goes on.
func (j *importJob) failed(number int64, err error) error {
	if err == nil {
		return nil
	}
	err = &lineError{number, err}
	if !j.command.ContinueOnError || errors.Is(err, context.Canceled) {
		return err
	}
	j.count(func(n *importCounts) { n.Failed++ })
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bar.clear()
	_, _ = io.WriteString(j.report, describe(err, ""))
	return nil
}

func (j *importJob) count(add func(*importCounts)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	add(&j.counts)
}

// ensure makes the namespace of a line that is no document, once.
func (j *importJob) ensure(ctx context.Context, line exportLine) error {
	if line.Kind == "" || line.Kind == tiering.KindState {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.made[line.Namespace] {
		return nil
	}
	_, err := j.service.SetNamespace(ctx, line.Namespace, tiering.Policy{Kind: line.Kind}, &tiering.WriteOptions{If: tiering.IfAbsent()})
	if err != nil && !errors.Is(err, tiering.ErrVersionConflict) {
		return err
	}
	j.made[line.Namespace] = true
	return nil
}

// store writes one document under the rules of the command.
func (j *importJob) store(ctx context.Context, line exportLine) error {
	if err := j.ensure(ctx, line); err != nil {
		return err
	}
	o := &tiering.PutOptions{User: line.User}
	if !line.ExpiresAt.IsZero() {
		left := time.Until(line.ExpiresAt)
		if left <= 0 {
			j.count(func(n *importCounts) { n.Expired++ })
			return nil
		}
		// The API counts whole seconds; a life is rather a second too long.
		o.TTL = &tiering.TTL{Life: left.Truncate(time.Second) + time.Second}
	}
	// The first try is always a create: it tells a new document from one that
	// stands, and a repeated import changes nothing.
	o.If = tiering.IfAbsent()
	_, err := j.service.Put(ctx, line.Namespace, line.ID, line.Data, o)
	switch {
	case err == nil:
		j.count(func(n *importCounts) { n.Created++ })
		return nil
	case !errors.Is(err, tiering.ErrVersionConflict):
		return err
	case j.command.IfAbsent:
		j.count(func(n *importCounts) { n.Skipped++ })
		return nil
	}
	if j.same(ctx, line) {
		j.count(func(n *importCounts) { n.Unchanged++ })
		return nil
	}
	if !j.command.Overwrite {
		return &conflictError{fmt.Sprintf("%s/%s stands with other data: --overwrite replaces it, --if-absent leaves it", line.Namespace, line.ID)}
	}
	o.If = tiering.Condition{}
	if _, err := j.service.Put(ctx, line.Namespace, line.ID, line.Data, o); err != nil {
		return err
	}
	j.count(func(n *importCounts) { n.Replaced++ })
	return nil
}

// same reports whether the document stands with the data of the line. When
// that cannot be read the answer is no: the write that follows then says why.
func (j *importJob) same(ctx context.Context, line exportLine) bool {
	doc, err := j.service.Get(ctx, line.Namespace, line.ID, &tiering.GetOptions{Strong: true, NoDefault: true})
	if err != nil {
		return false
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, line.Data); err != nil {
		return false
	}
	return bytes.Equal(compact.Bytes(), doc.Body)
}
