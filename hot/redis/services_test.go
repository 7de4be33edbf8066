package redis_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// services are servers of a test's own, which it may kill, freeze and flush.
type services struct {
	t   testing.TB
	dir string
}

// private starts servers that no other test uses. It needs a machine where
// "services up" has worked before.
func private(t testing.TB, groups ...string) *services {
	t.Helper()
	if os.Getenv("FAILOVER") == "" {
		t.Skip("kills, freezes and fails over servers of its own: make failover")
	}
	address(t, "SERVICES_DIR", "redis")
	s := &services{t: t, dir: t.TempDir()}
	t.Cleanup(func() { s.do("down", "--purge") })
	s.do("up", groups...)
	return s
}

// do runs one command of the script and returns what it printed.
func (s *services) do(verb string, names ...string) string {
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

// url is what "services env" prints for a variable.
func (s *services) url(variable string) string {
	s.t.Helper()
	for line := range strings.Lines(s.do("env")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "export "+variable+"='"); ok {
			return strings.TrimSuffix(value, "'")
		}
	}
	s.t.Fatalf("services env prints no %s", variable)
	return ""
}

// address is where a server listens.
func (s *services) address(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.do("status")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			return "127.0.0.1:" + f[1]
		}
	}
	s.t.Fatalf("services status does not list %s", name)
	return ""
}
