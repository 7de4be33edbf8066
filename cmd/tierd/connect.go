package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/tiering"
)

// apiKeyEnv holds an API key's secret. There is no flag for it: a process list
// shows flags to everyone on the machine.
const apiKeyEnv = "TIERD_API_KEY"

// connectFlags say which daemon a client command talks to.
type connectFlags struct {
	URL        string `name:"url" group:"connection" placeholder:"http://127.0.0.1:8437" help:"Address of the daemon ($TIERD_URL)."`
	APIKeyFile string `name:"api-key-file" group:"connection" placeholder:"FILE" help:"File that holds the API key ($TIERD_API_KEY holds the key itself)."`
}

// dial returns a client. It makes no connection yet.
func (f connectFlags) dial(p *process) (tiering.Service, error) {
	return f.dialWith(p, client.Options{})
}

func (f connectFlags) dialWith(p *process, o client.Options) (*client.Client, error) {
	p.url = f.URL
	if p.url == "" {
		p.url = p.getenv("TIERD_URL")
	}
	if p.url == "" {
		p.url = client.DefaultURL
	}
	key, err := f.apiKey(p)
	if err != nil {
		return nil, err
	}
	o.APIKey = key
	c, err := client.New(p.url, &o)
	if err != nil {
		return nil, usagef("--url or TIERD_URL: %v", detailOf(err))
	}
	return c, nil
}

func (f connectFlags) apiKey(p *process) (string, error) {
	if f.APIKeyFile == "" {
		return p.getenv(apiKeyEnv), nil
	}
	raw, err := os.ReadFile(f.APIKeyFile)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", usagef("--api-key-file %s: want one key and nothing else in the file", f.APIKeyFile)
	}
	return key, nil
}

// changeFlags are what a command takes that writes to a daemon.
type changeFlags struct {
	writeFlags
	connectFlags
}

// begin returns the daemon to write to, and what guards the write.
func (f changeFlags) begin(p *process) (tiering.Service, tiering.WriteOptions, error) {
	o, err := f.options()
	if err != nil {
		return nil, o, err
	}
	service, err := f.dial(p)
	return service, o, err
}
