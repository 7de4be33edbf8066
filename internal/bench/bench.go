// Package bench measures tierd on real servers beside what an agent backend
// would write by hand, in one run, as ratios: a machine that is slow, or busy,
// is so for both.
//
// The contestants of a write:
//
//	straight  SET in Redis, then one upsert of a JSONB row in PostgreSQL
//	article   straight, and one PUT per version to S3 from a goroutine
//	bytes     the router, in a namespace without projections (query: false)
//	query     the router, in a namespace with projections: those that wait at the
//	          end of a slice are made on its time
//	full      bytes, with the archive running over two buckets
//
// The three last keep every version, mark each write in hot before it commits,
// and answer with the version they made. Contestants take turns in short slices
// with the same documents and keys; a ratio is the median of those of adjacent
// slices. Each has a schema, a key space and a prefix of its own, which are
// removed at the end.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Part is one group of cases.
type Part string

// The parts, in the order they run.
const (
	Writes  Part = "writes"  // all contestants, by size and number of writers
	Delay   Part = "delay"   // straight and bytes with a commit_delay of 2 ms
	Reads   Part = "reads"   // a hot get beside a GET of Redis
	Archive Part = "archive" // versions of growing sessions, beside an object a version
	Keys    Part = "keys"    // what few keys do to PostgreSQL that are written often
)

// Parts are all parts.
func Parts() []Part { return []Part{Writes, Delay, Reads, Archive, Keys} }

// Contestants are the names of all contestants of the part Writes, each beside
// the one that it is compared with.
func Contestants() []string { return []string{"bytes", "straight", "query", "article", "full"} }

// Config says what is measured, and where. The four URLs are required; the zero
// value of the rest takes about six minutes.
type Config struct {
	Hot, Warm, Cold, Backup string

	// Parts to run; nil: all.
	Parts []Part
	// Writers and Sizes (bytes of a document) of the writing parts; nil: 1,
	// 16, 64, 256 and 1024, 8192. Sizes from 4096 are written by straight and
	// bytes alone, and not by one writer.
	Writers, Sizes []int
	// Contestants of the part Writes, as Contestants names them; empty: all.
	Contestants []string
	// Keys is how many documents each contestant has; 0: 10,000.
	Keys int
	// Versions is how many the part Archive moves; Keys writes one key ten
	// times as often. 0: 10,000, or 4,000 when Quick.
	Versions int
	// Slice is how long a contestant runs at a time; 0: 2 s.
	Slice time.Duration
	// Rounds is how often the contestants take turns; 0: 3.
	Rounds int
	// Quick takes about a minute: fewer writers, shorter slices, less data.
	Quick bool
	// Progress is told what is measured next; nil: nobody is.
	Progress func(string)
}

func (c Config) withDefaults() Config {
	if c.Parts == nil {
		c.Parts = Parts()
	}
	if c.Writers == nil {
		c.Writers = []int{1, 16, 64, 256}
		if c.Quick {
			c.Writers = []int{16, 64}
		}
	}
	if c.Sizes == nil {
		c.Sizes = []int{1 << 10, 8 << 10}
	}
	if c.Slice <= 0 {
		c.Slice = 2 * time.Second
		if c.Quick {
			c.Slice = 700 * time.Millisecond
		}
	}
	if c.Rounds <= 0 {
		c.Rounds = 3
		if c.Quick {
			c.Rounds = 2
		}
	}
	if c.Keys <= 0 {
		c.Keys = 10_000
	}
	if c.Versions <= 0 {
		c.Versions = 10_000
		if c.Quick {
			c.Versions = 4_000
		}
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

func (c Config) check() error {
	for name, url := range map[string]string{"hot": c.Hot, "warm": c.Warm, "cold": c.Cold, "backup": c.Backup} {
		if url == "" {
			return fmt.Errorf("bench: the %s tier has no URL", name)
		}
	}
	for _, p := range c.Parts {
		if !slices.Contains(Parts(), p) {
			return fmt.Errorf("bench: there is no part %q: use %q", p, Parts())
		}
	}
	for _, name := range c.Contestants {
		if !slices.Contains(Contestants(), name) {
			return fmt.Errorf("bench: there is no contestant %q: use %q", name, Contestants())
		}
	}
	for _, n := range slices.Concat(c.Writers, c.Sizes) {
		if n < 1 {
			return fmt.Errorf("bench: %d writers or bytes: use 1 or more", n)
		}
	}
	return nil
}

// bench is one run.
type bench struct {
	Config
	report *Report
	id     string // in the name of everything this run makes
	undo   []func(context.Context) error

	processors processors
}

// Run measures. It removes what it made on the servers, also when ctx ends or
// something fails; then the report holds what was measured until then.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	id := "bench_" + strings.ToLower(ulid.Make().String())
	b := &bench{Config: c, id: id, report: &Report{
		ID: id, Started: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version(), Slice: c.Slice.String(), Rounds: c.Rounds, LoadBefore: load(),
	}}
	if err := b.findServers(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	parts := map[Part]func(context.Context) error{
		Writes: b.writes, Delay: b.delay, Reads: b.reads, Archive: b.archive, Keys: b.keys,
	}
	for _, p := range c.Parts {
		err := errors.Join(parts[p](ctx), b.clean(ctx))
		if err != nil {
			return b.report.ended(), fmt.Errorf("bench %s: %w", p, err)
		}
	}
	return b.report.ended(), nil
}

// later notes what clean has to undo.
func (b *bench) later(undo func(context.Context) error) { b.undo = append(b.undo, undo) }

// clean undoes what a part has made, last first, though ctx may have ended.
func (b *bench) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	var errs []error
	for _, undo := range slices.Backward(b.undo) {
		errs = append(errs, undo(ctx))
	}
	b.undo = nil
	return errors.Join(errs...)
}
