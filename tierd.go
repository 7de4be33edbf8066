// Package tierd keeps the state of AI agents: documents with compare-and-set,
// history and rollback, over four tiers. Open puts a node together in process;
// package client speaks to a daemon; both satisfy tiering.Service, so a program
// moves from one to the other by changing the line that opens it.
//
//	node, err := tierd.Open(ctx, tierd.Config{Data: "./agent-state"})
//	if err != nil {
//		return err
//	}
//	defer node.Close(ctx)
//	_, err = node.Put(ctx, "prefs", "ada", []byte(`{"seat":"window"}`), nil)
package tierd

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/internal/telemetry"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm/sqlite"
)

// Config says where each tier is. The zero value keeps everything under
// ./tierd-data, with no server at all.
type Config struct {
	// Data is the folder of the embedded tiers; "" is ./tierd-data.
	Data string
	// Hot, Warm, Cold and Backup are URLs; "" is memory:, sqlite: under Data,
	// and two dir: under Data.
	Hot, Warm, Cold, Backup string
	// Vector and Embed say what memories are found with; "" is flat: beside an
	// embedded warm store, pgvector: in PostgreSQL, and static:.
	Vector, Embed string
	// Summarise says what makes the summaries in contexts of sessions: the URL of a
	// chat server (see window/chat), to which old turns are sent then. "" or
	// extractive: makes them here, and sends nothing.
	Summarise string
	// HotBytes bounds the embedded hot tier; 0 is 256 MiB.
	HotBytes int64
	// NoAutoCreate refuses writes to namespaces that were not created first.
	NoAutoCreate bool
	// SegmentAge is how long a change may wait for the archive; 0 is 10 s.
	SegmentAge time.Duration

	// Logger takes what goes wrong behind the scenes; nil discards it.
	Logger *slog.Logger
	// TracerProvider receives spans; nil makes none.
	TracerProvider trace.TracerProvider
	// Version is what status and metrics say this program is; "" is what the Go
	// toolchain recorded.
	Version string
	// Clock is the clock of the embedded warm tier, for tests; nil is time.Now.
	Clock func() time.Time
	// Disk is the file system of the data folder and of dir: buckets, for tests
	// that make it fail; nil is the machine's.
	Disk dir.Disk
}

func (c Config) withDefaults() Config {
	if c.Data == "" {
		c.Data = "tierd-data"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = Version()
	}
	return c
}

// Node is a tierd in this process. Its methods are those of router.Router, for
// the whole default tenant; As narrows it. It is safe for concurrent use.
type Node struct {
	*router.Router
	tiers   tiers
	engine  *lifecycle.Engine
	metrics *telemetry.Telemetry
	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ tiering.Service = (*Node)(nil)

// ErrInUse says that another process has the data folder open.
var ErrInUse = sqlite.ErrInUse

// Open puts a node together and starts its background work. One process at a
// time may open the same data folder.
func Open(ctx context.Context, c Config) (*Node, error) {
	c = c.withDefaults()
	m, err := telemetry.New(telemetry.Options{Version: c.Version, TracerProvider: c.TracerProvider})
	if err != nil {
		return nil, err
	}
	t, err := openTiers(ctx, c)
	if err != nil {
		return nil, err
	}
	n := &Node{tiers: t, metrics: m}
	hot, warm := m.Hot(t.hot), m.Warm(t.warm)
	archive := cold.NewArchive(m.Bucket(t.primary, tiering.Primary), m.Bucket(t.backup, tiering.Backup), &cold.ArchiveOptions{
		OnBad: func(name string, copied tiering.Copy, err error) {
			c.Logger.Error("a cold copy did not serve", "segment", name, "copy", copied, "err", err)
			if errors.Is(err, tiering.ErrCorrupt) {
				m.Router().Corrupt(tiering.Cold)
				n.engine.Suspect(name, copied)
			}
		},
	})
	found, err := t.openRecall(ctx, c, warm)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	summariser, err := t.openSummariser(c)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	n.tiers = t
	n.engine = lifecycle.New(lifecycle.Config{
		Warm: warm, Archive: archive, Hot: hot, Memories: found.ofEngine(), Holder: t.holder, SegmentAge: c.SegmentAge, Recorder: m.Lifecycle(), Logger: c.Logger,
	})
	n.Router = router.New(router.Config{
		Hot: hot, Warm: warm, Archive: archive, Memories: found.ofRouter(), Summaries: summariser, Background: n.engine, Committers: t.committers, HotTimeout: t.hotTimeout, NoAutoCreate: c.NoAutoCreate,
		Recorder: m.Router(), Logger: c.Logger, Version: c.Version, Drivers: t.drivers,
	})
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.running.Go(func() { n.engine.Run(run) })
	if t.gate != nil {
		n.running.Go(func() { t.gate.keep(run, t.membership, t.renewHot, c.Logger) })
	}
	return n, nil
}

// Ready reports whether the node can serve: its warm tier answers, and its hot
// tier is the one that the daemons on a shared warm store use.
func (n *Node) Ready(ctx context.Context) error {
	if g := n.tiers.gate; g != nil && g.closed() {
		return errGate
	}
	return n.Router.Ready(ctx)
}

// Close finishes what was accepted, archives what it can before ctx ends, and
// closes the tiers. Changes that could not be archived are at the next start.
func (n *Node) Close(ctx context.Context) error {
	n.Router.Close()
	n.stop()
	n.running.Wait()
	flushed := n.engine.FlushIfFree(ctx)
	if tiering.CodeOf(flushed) == tiering.CodeLeaseHeld {
		flushed = nil // another daemon archives what this one committed
	}
	var resigned error
	if n.tiers.shared { // an embedded store's next process goes on with its leases
		resigned = n.engine.Resign(ctx)
	}
	return errors.Join(flushed, resigned, n.tiers.leave(ctx), n.tiers.close())
}

// Archive writes everything committed so far to cold, now.
func (n *Node) Archive(ctx context.Context) error { return n.engine.Flush(ctx) }

// Metrics serves the node's metrics in Prometheus' text format.
func (n *Node) Metrics() http.Handler { return n.metrics.Handler() }

// Telemetry is what measures the node, for the server in front of it.
func (n *Node) Telemetry() *telemetry.Telemetry { return n.metrics }

// Version is the version of tierd as the Go toolchain recorded it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// holder names this daemon in leases. An embedded warm store has one daemon at
// a time, under the data lock: a new process goes on with the leases of the one
// before it.
func holder(shared bool) string {
	if !shared {
		return "embedded"
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + ulid.Make().String()
}
