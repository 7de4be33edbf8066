package torture

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// daemon is a tierd process of a build with failpoints.
type daemon struct {
	binary, addr string
	args         []string // of serve
	env          []string
	cmd          *exec.Cmd
	ended        chan struct{} // closed once the process has
	log          string
}

var errEarly = errors.New("it ended before it listened")

// buildDaemon builds the command with failpoints.
func buildDaemon(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tierd")
	build := exec.Command("go", "build", "-tags", "failpoints", "-ldflags=-s -w", "-o", binary, "github.com/tierd/tierd/cmd/tierd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// newDaemon is a daemon that has not started; args are those of serve.
func newDaemon(t *testing.T, binary string, env []string, args ...string) *daemon {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{binary: binary, addr: l.Addr().String(), env: env, args: args, log: filepath.Join(t.TempDir(), "log")}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	return d
}

// start runs the daemon, with a failpoint ("": none), and returns how long it took
// until it listened. A daemon that died before that is an error.
func (d *daemon) start(failpoint string) (time.Duration, error) {
	began := time.Now()
	d.cmd = exec.Command(d.binary, append([]string{"serve", "--listen", d.addr}, d.args...)...)
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIERD_") })
	d.cmd.Env = append(append(inherited, d.env...), "TIERD_FAILPOINT="+failpoint)
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	ended, listens := make(chan struct{}), make(chan struct{})
	d.ended = ended
	go func() {
		defer close(ended)
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !said && strings.HasPrefix(lines.Text(), "listening on ") {
				said = true
				close(listens)
			}
		}
		_ = d.cmd.Wait() // killed
	}()
	select {
	case <-listens:
		return time.Since(began), nil
	case <-ended:
		return 0, errEarly
	case <-time.After(30 * time.Second):
		d.kill()
		return 0, errors.New("it did not listen within 30 s")
	}
}

// kill ends the process if it has not ended, as kill -9 does.
func (d *daemon) kill() {
	if d.ended == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	<-d.ended
	d.ended = nil
}
