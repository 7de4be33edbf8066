package replay_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemon is a tierd process of its own, so that it can be killed.
type daemon struct {
	t      *testing.T
	binary string
	data   string
	addr   string
	cmd    *exec.Cmd
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{t: t, data: filepath.Join(t.TempDir(), "data"), binary: filepath.Join(t.TempDir(), "tierd")}
	build := exec.Command("go", "build", "-o", d.binary, "github.com/tierd/tierd/cmd/tierd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.addr = l.Addr().String()
	l.Close()
	t.Cleanup(func() {
		if d.cmd != nil {
			d.kill()
		}
	})
	return d
}

func (d *daemon) url() string { return "http://" + d.addr }

// start runs the daemon and returns how long it took until it said that it
// listens.
func (d *daemon) start() time.Duration {
	d.t.Helper()
	began := time.Now()
	d.cmd = exec.Command(d.binary, "serve", "--listen", d.addr, "--data", d.data)
	d.cmd.Stderr = os.Stderr
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIERD_") })
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ready := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "listening on ") {
				ready <- nil
			}
		}
		select {
		case ready <- fmt.Errorf("the daemon ended before it listened"):
		default:
		}
	}()
	select {
	case err := <-ready:
		if err != nil {
			d.t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		d.t.Fatal("the daemon did not listen within 30 s")
	}
	return time.Since(began)
}

// kill ends the daemon as a power button would, but for the page cache.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
	d.cmd = nil
}

// stop asks the daemon to end and waits until it has.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Fatalf("the daemon did not stop cleanly: %v", err)
	}
	d.cmd = nil
}
