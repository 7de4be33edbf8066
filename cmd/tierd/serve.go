package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.opentelemetry.io/otel/trace"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

type serveCommand struct{ settingFlags }

func (*serveCommand) Help() string {
	return "Each setting is a flag, an environment variable or a key of the YAML file, in that order of precedence: --hot-bytes, TIERD_HOT_BYTES, hot_bytes. " +
		"Without any, everything is kept under ./tierd-data and no other server is needed. " +
		"When it is ready the address is printed on standard output; logs go to standard error. " +
		"SIGTERM and Ctrl-C stop it cleanly, which takes up to 15 s while requests are under way; a second signal ends it at once. " +
		"Relative paths count from the working directory, those in the YAML file from the file's own folder.\n\n" +
		examples("tierd serve", "tierd serve --listen 127.0.0.1:0 --data ./agents --hot-bytes 1GiB", "tierd serve --backup dir:/mnt/other-disk/tierd", "tierd serve --config tierd.yaml")
}

func (c *serveCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	loaded, err := p.loadChecked(given(kctx), checkConfig)
	if err != nil {
		return err
	}
	tlsConfig, err := loadTLS(loaded)
	if err != nil {
		return err
	}
	log := p.logger(loaded)
	traces, err := openTraces(ctx)
	if err != nil {
		return err
	}
	defer traces.shutdown(log)
	// The port is taken first: it is the cheapest to fail on, and clients that
	// come early wait in its queue.
	ln, err := listen(ctx, loaded.Listen)
	if err != nil {
		return err
	}
	node, err := p.openNode(ctx, loaded, log, traces.provider())
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	return errors.Join(p.serve(ctx, loaded, node, ln, tlsConfig, log), closeNode(node))
}

// serve answers on ln until ctx ends, and closes ln.
func (p *process) serve(ctx context.Context, loaded *config.Loaded, node *tierd.Node, ln net.Listener, tlsConfig *tls.Config, log *slog.Logger) error {
	options := server.Options{
		As:       func(who tiering.Principal) tiering.Service { return node.As(who) },
		Ready:    node.Ready,
		Metrics:  node.Metrics(),
		Recorder: node.Telemetry().Server(),
		Version:  buildVersion(),
		Logger:   log,
	}
	options.LocalHosts = !loaded.RequireKeys && !loaded.Insecure && server.IsLocal(loaded.Listen)
	if loaded.RequireKeys {
		options.Authenticate = node.Authenticate
		if keys, err := node.APIKeys(ctx); err == nil && len(keys) == 0 {
			log.Warn("the default tenant has no API key: unless another tenant has one, every request will be refused", "to make one",
				"stop this daemon, then: tierd keys create --data "+loaded.Data)
		}
	}
	srv, err := server.New(options)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := p.announce(loaded, ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	return srv.Serve(ctx, ln, tlsConfig)
}

// announce says on stdout that the daemon is ready and where it is.
func (p *process) announce(loaded *config.Loaded, addr net.Addr) error {
	scheme, auth := "http", ""
	if loaded.TLSCert != "" {
		scheme = "https"
	}
	if loaded.RequireKeys {
		auth = ` -H "Authorization: Bearer $TIERD_API_KEY"`
	}
	local := scheme + "://" + reachable(addr)
	data, err := filepath.Abs(loaded.Data)
	if err != nil {
		data = loaded.Data
	}
	if p.json {
		return p.printJSON(map[string]string{"listening": local, "bound": addr.String(), "api": local + "/v1", "docs": local + "/docs", "data": data})
	}
	if err := p.printf("listening on %s\n", local); err != nil {
		return err
	}
	api := local + "/v1"
	if reachable(addr) != addr.String() {
		api += ", and on every other address of this machine"
	}
	where := []string{"  data", data}
	if !embedded(loaded) {
		where = []string{"  tiers", tierSchemes(loaded)}
	}
	return p.pairs([][]string{
		{"  api", api},
		{"  docs", local + "/docs"},
		where,
		{"  try", fmt.Sprintf(`curl -X PUT %s/v1/state/demo/hello%s -H 'Content-Type: application/json' -d '{"n":1}'`, local, auth)},
	})
}

// embedded reports whether a tier lies in the data folder.
func embedded(loaded *config.Loaded) bool {
	return slices.ContainsFunc([]string{"warm", "cold", "backup"}, func(tier string) bool {
		text := loaded.Value(tier).Text
		return text == "" || strings.HasPrefix(text, "sqlite:") || strings.HasPrefix(text, "dir:")
	})
}

// tierSchemes says what drives each tier.
func tierSchemes(loaded *config.Loaded) string {
	var parts []string
	for _, tier := range []string{"hot", "warm", "cold", "backup"} {
		scheme, _, _ := strings.Cut(loaded.Value(tier).Text, ":")
		parts = append(parts, tier+" "+scheme)
	}
	return strings.Join(parts, ", ")
}

// reachable is the address to type on this machine: one that stands for all
// interfaces cannot be dialled everywhere.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", itoa(tcp.Port))
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is taken, perhaps by another tierd: stop that one, or choose another port with --listen, such as --listen 127.0.0.1:0 for any free one", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen on %s: choose a port above 1023 with --listen", address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return ln, nil
}

func loadTLS(loaded *config.Loaded) (*tls.Config, error) {
	if loaded.TLSCert == "" {
		return nil, nil //nolint:nilnil // no TLS is no error
	}
	pair, err := tls.LoadX509KeyPair(loaded.TLSCert, loaded.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("load the TLS certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// loadChecked reads the settings and refuses those that check finds faulty.
func (p *process) loadChecked(flags map[string]string, check func(*config.Loaded, time.Time) []config.Fault) (*config.Loaded, error) {
	loaded, err := p.loadConfig(flags)
	if err != nil {
		return nil, err
	}
	faults, warnings := config.Split(check(loaded, time.Now()))
	for _, w := range warnings {
		p.notef("warning: %s", w)
	}
	if len(faults) > 0 {
		return nil, &configError{faults}
	}
	return loaded, nil
}

// logger writes to stderr, at the level and in the form of the settings.
func (p *process) logger(loaded *config.Loaded) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(loaded.LogLevel))); err != nil {
		level = slog.LevelInfo // the settings were checked: cannot happen
	}
	options := &slog.HandlerOptions{Level: level}
	if loaded.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(p.stderr, options))
	}
	return slog.New(slog.NewTextHandler(p.stderr, options))
}

// openNode opens the tiers. Only what somebody set is passed on, so that the
// node's own defaults hold for the rest.
func (p *process) openNode(ctx context.Context, loaded *config.Loaded, log *slog.Logger, traces trace.TracerProvider) (*tierd.Node, error) {
	node, err := tierd.Open(ctx, tierd.Config{
		Data:         loaded.Data,
		Hot:          loaded.Given("hot"),
		Warm:         loaded.Given("warm"),
		Cold:         loaded.Given("cold"),
		Backup:       loaded.Given("backup"),
		Vector:       loaded.Given("vector"),
		Embed:        loaded.Given("embed"),
		Summarise:    loaded.Given("summarise"),
		HotBytes:     loaded.HotBytes,
		NoAutoCreate: !loaded.AutoCreate,
		Logger:       log,
		Version:      buildVersion(),

		TracerProvider: traces,
	})
	if err == nil {
		return node, nil
	}
	err = fmt.Errorf("open the tiers: %w", err)
	switch {
	case errors.Is(err, tierd.ErrInUse):
	case tiering.CodeOf(err) == tiering.CodeUnavailable:
		return nil, &advisedError{err, startAdvice(err)}
	default:
		return nil, err
	}
	return nil, &advisedError{err, fmt.Sprintf("one daemon at a time may use a data folder: stop the other one that uses %s, or name another with --data", loaded.Data)}
}

// startAdvice says what to do about a tier that could not be opened: no daemon
// runs yet that would come back to it.
func startAdvice(err error) string {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) {
		return "see that the server runs and can be reached at that address, then start again"
	}
	return "waiting does not cure this: correct it, then start again"
}

// closeGrace is how long a node may take to put its tiers away.
const closeGrace = 30 * time.Second

// closeNode closes a node whatever became of the context it was used under.
func closeNode(node *tierd.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	return node.Close(ctx)
}
