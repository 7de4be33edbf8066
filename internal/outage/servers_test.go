package outage_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/servicestest"
)

// servers are Redis, PostgreSQL and two MinIO servers of this test's own, which
// it may kill, freeze and spoil.
type servers struct {
	*servicestest.Services
	t *testing.T
}

// startServers starts them once for all cells.
func startServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{servicestest.Start(t), t}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, s.Env(name))
	}
	return s
}

// on returns a function that runs one command of the script.
func (s *servers) on(verb string, names ...string) func() {
	return func() { s.Do(verb, names...) }
}

// redis sends one command to Redis over a connection of its own.
func (s *servers) redis(command string) string {
	s.t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(s.Env("TIERD_HOT"), "redis://"), "/0")
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
