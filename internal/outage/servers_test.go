package outage_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// servers are Redis, PostgreSQL and two MinIO servers of this test's own, which
// it may kill, freeze and spoil.
type servers struct {
	t   *testing.T
	dir string
	env map[string]string // what "services env" exports
}

// startServers starts them once for all cells. It needs a machine where
// "services up" has worked before.
func startServers(t *testing.T) *servers {
	t.Helper()
	if os.Getenv("SERVICES_DIR") == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("SERVICES_DIR is not set: start the servers with deploy/local/services up")
		}
		t.Skip(`SERVICES_DIR is not set: deploy/local/services up; eval "$(deploy/local/services env)"`)
	}
	s := &servers{t: t, dir: t.TempDir(), env: map[string]string{}}
	t.Cleanup(func() { s.do("down", "--purge") })
	s.do("up")
	for line := range strings.Lines(s.do("env")) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok {
			s.env[name] = strings.Trim(value, "'")
		}
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, s.env[name])
	}
	return s
}

// do runs one command of the script and returns what it printed.
func (s *servers) do(verb string, names ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../deploy/local/services", append([]string{verb}, names...)...)
	cmd.Env = append(os.Environ(), "SERVICES_DIR="+s.dir)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("services %s %v: %v\n%s", verb, names, err, said.String())
	}
	return string(out)
}

// on returns a function that runs one command of the script.
func (s *servers) on(verb string, names ...string) func() {
	return func() { s.do(verb, names...) }
}

// redis sends one command to Redis over a connection of its own.
func (s *servers) redis(command string) string {
	s.t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(s.env["TIERD_HOT"], "redis://"), "/0")
	c, err := net.DialTimeout("tcp", host, 5*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		s.t.Fatal(err)
	}
	reply := make([]byte, 4096)
	n, err := c.Read(reply)
	if err != nil || reply[0] == '-' {
		s.t.Fatalf("redis %s: %q, %v", command, reply[:n], err)
	}
	return string(reply[:n])
}
