// Package servicestest gives tests the real servers of deploy/local: those that
// the environment names, which all tests share and none may disturb, and servers
// of a test's own, which it may kill, freeze and spoil.
package servicestest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Variable returns an environment variable that "services env" prints. Without
// it the test is skipped, and fails where CI is set.
func Variable(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		const how = `%s is not set: run deploy/local/services up, then eval "$(deploy/local/services env)"`
		if os.Getenv("CI") != "" {
			t.Fatalf(how, name)
		}
		t.Skipf(how, name)
	}
	return value
}

// Services are servers that no other test uses. They end with the test that
// started them.
type Services struct {
	t           testing.TB
	script, dir string
	env         map[string]string
}

// Start starts servers, or groups of them, by the names that "services up"
// takes; none means Redis, PostgreSQL and two MinIO servers. It skips or fails
// as Variable does: it needs a machine where "services up" has worked before.
func Start(t testing.TB, names ...string) *Services {
	t.Helper()
	Variable(t, "SERVICES_DIR")
	script, err := find("deploy/local/services")
	if err != nil {
		t.Fatal(err)
	}
	s := &Services{t: t, script: script, dir: t.TempDir(), env: map[string]string{}}
	t.Cleanup(func() { s.Do("down", "--purge") })
	s.Do("up", names...)
	for line := range strings.Lines(s.Do("env")) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			s.env[name] = strings.Trim(value, "'")
		}
	}
	return s
}

// find returns the path of a file of the repository: a test runs in the folder
// of its package.
func find(name string) (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return filepath.Join(dir, name), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Do runs one command of the script and returns what it printed. It fails the
// test when the command does.
func (s *Services) Do(verb string, names ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.script, append([]string{verb}, names...)...)
	cmd.Env = append(os.Environ(), "SERVICES_DIR="+s.dir)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("services %s %v: %v\n%s", verb, names, err, said.String())
	}
	return string(out)
}

// Env returns what "services env" prints for a variable of the servers that
// were started.
func (s *Services) Env(name string) string {
	s.t.Helper()
	value, ok := s.env[name]
	if !ok {
		s.t.Fatalf("services env prints no %s", name)
	}
	return value
}

// Dir is the folder in which the servers keep their data and logs.
func (s *Services) Dir() string { return s.dir }

// Address returns where a server listens.
func (s *Services) Address(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.Do("status")) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			return "127.0.0.1:" + f[1]
		}
	}
	s.t.Fatalf("services status does not list %s", name)
	return ""
}
