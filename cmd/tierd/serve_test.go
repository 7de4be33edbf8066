package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/config"
)

func TestAnnouncement(t *testing.T) {
	data := t.TempDir()
	for _, c := range []struct {
		name   string
		config config.Config
		addr   string
		want   string
	}{
		{"loopback", config.Config{Data: data}, "127.0.0.1:8437", `listening on http://127.0.0.1:8437
  api   http://127.0.0.1:8437/v1
  docs  http://127.0.0.1:8437/docs
  data  ` + data + `
  try   curl -X PUT http://127.0.0.1:8437/v1/state/demo/hello -H 'Content-Type: application/json' -d '{"n":1}'
`},
		{"all interfaces with keys and TLS", config.Config{Data: data, RequireKeys: true, TLSCert: "c.pem"}, "0.0.0.0:443", `listening on https://127.0.0.1:443
  api   https://127.0.0.1:443/v1, and on every other address of this machine
  docs  https://127.0.0.1:443/docs
  data  ` + data + `
  try   curl -X PUT https://127.0.0.1:443/v1/state/demo/hello -H "Authorization: Bearer $TIERD_API_KEY" -H 'Content-Type: application/json' -d '{"n":1}'
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, err := net.ResolveTCPAddr("tcp", c.addr)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := (&process{stdout: &out}).announce(&config.Loaded{Config: c.config}, addr); err != nil || out.String() != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, out.String(), c.want)
			}
		})
	}
}

// What the configuration takes for a driver is one that opens.
func TestEveryKnownDriverOpens(t *testing.T) {
	for _, tier := range []string{"hot", "warm", "cold", "backup"} {
		for _, scheme := range config.Schemes(tier) {
			dir := t.TempDir()
			url := scheme + "://127.0.0.1:1/x"
			switch scheme {
			case "memory":
				url = "memory:"
			case "sqlite", "dir":
				url = scheme + ":" + filepath.Join(dir, tier)
			}
			c := tierd.Config{Data: dir}
			switch tier {
			case "hot":
				c.Hot = url
			case "warm":
				c.Warm = url
			case "cold":
				c.Cold = url
			case "backup":
				c.Backup = url
			}
			node, err := tierd.Open(t.Context(), c)
			if err == nil {
				if err := node.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "is not one this build") {
				t.Errorf("%s %s: %v", tier, scheme, err)
			}
		}
	}
}
