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
	env    []string // of the process, beside what it inherits
	log    string   // file for what it says on standard error; "": that of the test
	cmd    *exec.Cmd
}

// buildTierd builds the command and returns the path of the binary.
func buildTierd(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tierd")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "github.com/tierd/tierd/cmd/tierd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func newDaemon(t *testing.T, binary string, env ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, binary: binary, data: filepath.Join(t.TempDir(), "data"), env: env}
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

// command is one run of the binary with the daemon's environment.
func (d *daemon) command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.binary, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIERD_") }), d.env...)
	return cmd
}

// start runs the daemon and returns how long it took until it said that it
// listens.
func (d *daemon) start() time.Duration {
	d.t.Helper()
	began := time.Now()
	d.cmd = d.command("serve", "--listen", d.addr, "--data", d.data)
	d.cmd.Stderr = os.Stderr
	if d.log != "" {
		f, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			d.t.Fatal(err)
		}
		defer f.Close()
		d.cmd.Stderr = f
	}
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

// run carries out one command of the command line on the daemon's tiers.
func (d *daemon) run(args ...string) string {
	d.t.Helper()
	cmd := d.command(args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("tierd %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}
