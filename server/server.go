// Package server is tierd's HTTP API: JSON over HTTP in front of a
// [tiering.Service]. It authenticates, checks what HTTP carries (paths,
// parameters, conditions, the shape of typed bodies), passes documents on as
// the bytes they are, and turns errors into RFC 9457 problem documents. What a
// principal may do is decided behind the service, not here.
//
// Every operation is one row of one table. The mux, the check of parameters,
// the validator of bodies and the OpenAPI document are all built from that
// table, so that none of them can say something else than the others.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Options shapes a server. Only As is required; the zero value of every other
// field works.
type Options struct {
	// As returns the service as one principal sees it. It is called once a
	// request, from many goroutines, and must be cheap.
	As func(tiering.Principal) tiering.Service
	// Authenticate returns whom an API key's secret stands for. Nil: there are
	// no keys, and everyone is the default tenant.
	Authenticate func(ctx context.Context, secret string) (tiering.Principal, error)
	// Ready says why the node cannot serve yet or now; nil: it always can.
	Ready func(ctx context.Context) error
	// Metrics serves /metrics; nil: there is no such page.
	Metrics http.Handler
	// OpenMetrics serves /metrics without a key. Otherwise it takes one with
	// the admin verb, where there are keys.
	OpenMetrics bool
	// Recorder measures requests; nil: nothing does.
	Recorder Recorder
	// LocalHosts lets requests in by the names of loopback alone. It is for a
	// server without keys on loopback: a page whose name was made to mean
	// 127.0.0.1 reaches it from a browser on the same machine, under that name.
	LocalHosts bool
	// Version is tierd's, for the OpenAPI document; "" is "dev".
	Version string
	// Logger gets one debug record a request and an error record for every
	// answer of 500 and above; nil discards them.
	Logger *slog.Logger

	MaxBody        int64         // bytes of a request body; 0: 8 MiB
	MaxHeaderBytes int           // bytes of a request's line and headers; 0: 64 KiB
	MaxWatchers    int           // watch streams at a time; 0: 1024
	HeaderTimeout  time.Duration // to send the headers; 0: 5s
	ReadTimeout    time.Duration // to send a whole request; 0: 30s
	WriteTimeout   time.Duration // from the headers to the end of the answer; 0: 60s, and always above ReadTimeout
	IdleTimeout    time.Duration // between requests of a connection; 0: 2m
	ShutdownGrace  time.Duration // for requests in flight when the server stops; 0: 15s, at least 10s
	StreamTimeout  time.Duration // for one write to a watcher before it is cut; 0: 10s
	Heartbeat      time.Duration // between comments on a quiet stream; 0: 15s
}

// Recorder measures the HTTP API. It is called from many goroutines.
type Recorder interface {
	// Request is called once a request, after its answer: route is the path of
	// the operation's pattern, "" when none matched.
	Request(route, method string, status int, took time.Duration)
}

// Server serves the API. Make one with New. It is safe for concurrent use.
type Server struct {
	opts     Options
	log      *slog.Logger
	mux      *http.ServeMux
	direct   directory
	bodies   map[string]*bodySchema // by component
	origin   *http.CrossOriginProtection
	watchers atomic.Int64
	openapi  []byte

	stopOnce sync.Once
	stopping chan struct{} // closed when the server begins to stop
}

// minShutdownGrace is the least time that requests in flight get to finish.
const minShutdownGrace = 10 * time.Second

// New builds the server. It fails when As is missing or when the table of
// operations does not hold together.
func New(o Options) (*Server, error) {
	if o.As == nil {
		return nil, errors.New("server: Options.As is required")
	}
	s := &Server{
		opts: o.withDefaults(), mux: http.NewServeMux(), direct: directory{}, origin: http.NewCrossOriginProtection(),
		stopping: make(chan struct{}),
	}
	s.log = s.opts.Logger
	ops := s.operations()
	doc := describe(s.opts, ops)
	var err error
	if s.openapi, err = doc.MarshalJSON(); err != nil {
		return nil, err
	}
	if s.bodies, err = compileBodies(s.openapi, doc.Components.Schemas.Map(), ops); err != nil {
		return nil, err
	}
	s.route(ops)
	return s, nil
}

func (o Options) withDefaults() Options {
	fill := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	fill(&o.HeaderTimeout, 5*time.Second)
	fill(&o.ReadTimeout, 30*time.Second)
	fill(&o.WriteTimeout, 60*time.Second)
	fill(&o.IdleTimeout, 2*time.Minute)
	fill(&o.ShutdownGrace, 15*time.Second)
	fill(&o.StreamTimeout, 10*time.Second)
	fill(&o.Heartbeat, 15*time.Second)
	// With an equal or lower write timeout the answer to a body that came too
	// slowly could no longer be written.
	if o.WriteTimeout <= o.ReadTimeout {
		o.WriteTimeout = o.ReadTimeout + 5*time.Second
	}
	o.ShutdownGrace = max(o.ShutdownGrace, minShutdownGrace)
	if o.MaxBody <= 0 {
		o.MaxBody = tiering.MaxBody
	}
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = 64 << 10
	}
	if o.MaxWatchers <= 0 {
		o.MaxWatchers = 1024
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// stop ends the watch streams, so that a shutdown does not wait for them.
func (s *Server) stop() { s.stopOnce.Do(func() { close(s.stopping) }) }
