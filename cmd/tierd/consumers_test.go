package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tierd/tierd/internal/daemontest"
)

// A tail under a name goes on where it was, through its own end and the daemon's
// death.
func TestTailGoesOnUnderAName(t *testing.T) {
	data := t.TempDir()
	d := start(t, data, nil)
	tail := func() (line func() string, end func()) {
		cmd := exec.CommandContext(t.Context(), os.Getenv(binaryEnv), "tail", "agents", "--consumer", "mailer", "--from", "start")
		cmd.Env = daemontest.Environ("TIERD_URL=" + d.url)
		w := &daemon{t: t, cmd: cmd}
		return follow(t, w), func() {
			w.signal(syscall.SIGINT)
			if code, _ := w.wait(); code != exitDone {
				t.Errorf("exit code %d", code)
			}
		}
	}
	d.must("put", "agents/a", "--value", "1")
	line, end := tail()
	if got := line(); !strings.Contains(got, "agents/a") {
		t.Errorf("first: %q", got)
	}
	end()
	d.must("put", "agents/b", "--value", "2")
	d.kill()
	d = start(t, data, nil)
	line, end = tail()
	if got := line(); !strings.Contains(got, "agents/b") {
		t.Errorf("after a restart: %q", got)
	}
	end()
	if got := d.must("consumers", "ls"); !strings.Contains(got, "mailer") || !strings.Contains(got, " agents ") {
		t.Errorf("listed: %s", got)
	}
	d.must("consumers", "rm", "mailer")
	if got := d.must("consumers", "ls"); strings.Contains(got, "mailer") {
		t.Errorf("listed: %s", got)
	}
}
