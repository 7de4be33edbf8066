package main

import (
	"fmt"
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
	Hot         string `group:"tiers" placeholder:"memory:" help:"${hot} ($TIERD_HOT)."`
	Warm        string `group:"tiers" placeholder:"sqlite:" help:"${warm} ($TIERD_WARM)."`
	Cold        string `group:"tiers" placeholder:"dir:" help:"${cold} ($TIERD_COLD)."`
	Backup      string `group:"tiers" placeholder:"dir:" help:"The second copy of cold, as cold ($TIERD_BACKUP)."`
	Vector      string `group:"tiers" placeholder:"flat:" help:"${vector}: where memories are searched; beside postgres:// pgvector: unless given ($TIERD_VECTOR)."`
	Embed       string `group:"tiers" placeholder:"static:" help:"${embed}: what makes the vectors of memories ($TIERD_EMBED)."`
	Summarise   string `group:"tiers" placeholder:"extractive:" help:"${summarise}: what makes summaries in contexts; a server is sent old turns of sessions ($TIERD_SUMMARISE)."`
	HotBytes    string `placeholder:"256MiB" help:"Bound of the memory: tier ($TIERD_HOT_BYTES)."`
	AutoCreate  bool   `negatable:"" help:"Make unknown namespaces on first write; on unless --no-auto-create ($TIERD_AUTO_CREATE)."`
	RequireKeys bool   `help:"Refuse requests without an API key ($TIERD_REQUIRE_KEYS)."`
	Insecure    bool   `help:"Allow other machines in without keys or TLS, and requests under any host name ($TIERD_INSECURE)."`
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
	faults := l.Check(now)
	if err := server.CheckBind(l.Listen, l.RequireKeys, l.TLSCert != "", l.Insecure); err != nil {
		faults = append(faults, l.Fault("listen", "%v (--require-keys, --tls-cert with --tls-key, or --insecure)", err))
	}
	// What would be refused without insecure is worth a word with it.
	if err := server.CheckBind(l.Listen, l.RequireKeys, l.TLSCert != "", false); err != nil && l.Insecure {
		f := l.Fault("insecure", "whoever reaches %s is let in %s: see that something in front of it asks who comes, and encrypts", l.Listen, openTo(l))
		f.Warning = true
		faults = append(faults, f)
	}
	return faults
}

// openTo says what a bind that is insecure lacks.
func openTo(l *config.Loaded) string {
	switch {
	case l.RequireKeys:
		return "without TLS, so that others can read its key"
	case l.TLSCert != "":
		return "without an API key"
	}
	return "without an API key and without TLS"
}

// driverNames says for the help of each tier's flag what it takes.
func driverNames() map[string]string {
	out := map[string]string{}
	for _, tier := range tierNames() {
		var forms []string
		for _, scheme := range config.Schemes(tier) {
			if scheme == "postgresql" || strings.HasPrefix(scheme, "rediss") {
				continue // other spellings, and the same over TLS
			}
			forms = append(forms, urlForm(scheme))
		}
		out[tier] = strings.Join(forms, ", ")
		if i := len(forms) - 1; i > 0 {
			out[tier] = strings.Join(forms[:i], ", ") + " or " + forms[i]
		}
	}
	return out
}

// urlForm is what a URL of a scheme looks like.
func urlForm(scheme string) string {
	switch scheme {
	case "memory", "flat", "static", "pgvector", "none", "extractive":
		return scheme + ":"
	case "sqlite":
		return "sqlite:FILE"
	case "dir":
		return "dir:FOLDER"
	case "s3":
		return "s3://BUCKET/PREFIX?endpoint=..."
	case "postgres":
		return "postgres://HOST/DATABASE"
	case "redis+sentinel":
		return "redis+sentinel://HOST,HOST/MASTER"
	case "redis+cluster":
		return "redis+cluster://HOST,HOST"
	case "openai+https", "openai+http":
		return scheme + "://HOST/v1?model=..."
	}
	return scheme + "://HOST"
}

func tierNames() []string {
	return []string{"hot", "warm", "cold", "backup", "vector", "embed", "summarise"}
}
