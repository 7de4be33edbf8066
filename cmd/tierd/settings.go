package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/server"
)

// settingFlags are the settings of a daemon as flags. They are text here and
// read by package config, which knows the other sources too; a test holds the
// two lists together.
type settingFlags struct {
	Config      string `placeholder:"FILE" help:"YAML file with settings; flags and variables win over it ($TIERD_CONFIG)."`
	Listen      string `placeholder:"127.0.0.1:8437" help:"Address to listen on ($TIERD_LISTEN)."`
	Data        string `placeholder:"./tierd-data" help:"Folder of the embedded tiers ($TIERD_DATA)."`
	Hot         string `group:"tiers" placeholder:"memory:" help:"memory:, redis://, rediss://, redis+sentinel:// or redis+cluster:// ($TIERD_HOT)."`
	Warm        string `group:"tiers" placeholder:"sqlite:" help:"sqlite: or postgres:// ($TIERD_WARM)."`
	Cold        string `group:"tiers" placeholder:"dir:" help:"dir: or s3://bucket/prefix?endpoint=... ($TIERD_COLD)."`
	Backup      string `group:"tiers" placeholder:"dir:" help:"The second copy of cold, as cold ($TIERD_BACKUP)."`
	Vector      string `group:"tiers" placeholder:"flat:" help:"flat: or pgvector: ($TIERD_VECTOR)."`
	Embed       string `group:"tiers" placeholder:"static:" help:"static: or openai+https://host/v1?model=... ($TIERD_EMBED)."`
	HotBytes    string `placeholder:"256MiB" help:"Bound of the memory: tier ($TIERD_HOT_BYTES)."`
	AutoCreate  bool   `negatable:"" help:"Make unknown namespaces on first write; on unless --no-auto-create ($TIERD_AUTO_CREATE)."`
	RequireKeys bool   `help:"Refuse requests without an API key ($TIERD_REQUIRE_KEYS)."`
	Insecure    bool   `help:"Allow other machines in without keys or TLS ($TIERD_INSECURE)."`
	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM ($TIERD_TLS_CERT)."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Private key of the certificate, PEM ($TIERD_TLS_KEY)."`
	LogLevel    string `placeholder:"info" help:"debug, info, warn or error ($TIERD_LOG_LEVEL)."`
	LogFormat   string `placeholder:"text" help:"text or json ($TIERD_LOG_FORMAT)."`
}

// given returns the flags that stood on the command line, by setting name.
func given(kctx *kong.Context) map[string]string {
	out := map[string]string{}
	for _, path := range kctx.Path {
		if path.Flag == nil || path.Resolved {
			continue
		}
		out[strings.ReplaceAll(path.Flag.Name, "-", "_")] = fmt.Sprint(path.Flag.Target.Interface())
	}
	return out
}

// loadConfig reads the settings from the flags given, the environment and the
// YAML file.
func (p *process) loadConfig(flags map[string]string) (*config.Loaded, error) {
	return config.Load(config.Sources{Flags: flags, Environ: p.environ, Others: []string{"TIERD_URL", apiKeyEnv}})
}

// checkConfig returns everything that is wrong with settings for serve.
func checkConfig(l *config.Loaded, now time.Time) []config.Fault {
	faults := append(l.Check(now), checkDrivers(l)...)
	if err := server.CheckBind(l.Listen, l.RequireKeys, l.TLSCert != "", l.Insecure); err != nil {
		faults = append(faults, l.Fault("listen", "is refused: %v (--require-keys, --tls-cert with --tls-key, or --insecure)", err))
	}
	return faults
}

// drivers returns the URL schemes that tierd.Open takes for a tier in this
// build, some of those that package config knows.
func drivers(tier string) []string {
	switch tier {
	case "hot":
		return []string{"memory"}
	case "warm":
		return []string{"sqlite"}
	case "cold", "backup":
		return []string{"dir"}
	case "vector":
		return []string{"flat"}
	case "embed":
		return []string{"static"}
	}
	return nil
}

// checkDrivers refuses a tier whose driver is not in this build, before
// anything is opened.
func checkDrivers(l *config.Loaded) []config.Fault {
	var faults []config.Fault
	for _, tier := range []string{"hot", "warm", "cold", "backup", "vector", "embed"} {
		scheme, _, _ := strings.Cut(l.Value(tier).Text, ":")
		if slices.Contains(config.Schemes(tier), scheme) && !slices.Contains(drivers(tier), scheme) {
			faults = append(faults, l.Fault(tier, "is %s:, which this build of tierd does not have: use %s:", scheme, strings.Join(drivers(tier), ":, ")))
		}
	}
	return faults
}
