// Package daemontest gives tests the real command: built, run as a process that
// they wait for, kill and start again.
package daemontest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options shape a Daemon.
type Options struct {
	Env  []string // of the process, beside Environ
	Args []string // of serve, beside --listen and --data
}

// Daemon is "tierd serve" as a process, on an address and a data folder that stay
// the same over its lives. It is used by one goroutine, and killed when the test
// ends.
type Daemon struct {
	t            testing.TB
	binary, addr string
	data, log    string
	o            Options
	cmd          *exec.Cmd
	ended        chan struct{} // closed once the process has
}

// New returns a daemon that has not started. What it says on standard error is
// shown where the test fails.
func New(t testing.TB, binary string, o *Options) *Daemon {
	t.Helper()
	dir := t.TempDir()
	d := &Daemon{t: t, binary: binary, addr: freeAddress(t), data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log")}
	if o != nil {
		d.o = *o
	}
	t.Cleanup(func() {
		d.Kill()
		if said, err := os.ReadFile(d.log); err == nil && t.Failed() {
			t.Logf("the daemon at %s said at last:\n%s", d.addr, said[max(0, len(said)-3000):])
		}
	})
	return d
}

// freeAddress is one that nobody listens on, and that no connection of anybody is
// given while the daemon is dead: those begin at 32768.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// URL is where the daemon serves once it has started.
func (d *Daemon) URL() string { return "http://" + d.addr }

// Addr is its host and port.
func (d *Daemon) Addr() string { return d.addr }

// Data is its data folder.
func (d *Daemon) Data() string { return d.data }

var errEarly = errors.New("the daemon ended before it listened")

// EndedEarly reports whether a Start failed because the process ended by itself.
func EndedEarly(err error) bool { return errors.Is(err, errEarly) }

// MustStart is Start that has to succeed.
func (d *Daemon) MustStart() time.Duration {
	d.t.Helper()
	took, err := d.Start()
	if err != nil {
		d.t.Fatal(err)
	}
	return took
}

// Start runs the daemon, with env beside its own, and returns how long it took
// until it said that it listens. It waits for 30 s.
func (d *Daemon) Start(env ...string) (time.Duration, error) {
	began := time.Now()
	cmd := d.Command(append([]string{"serve", "--listen", d.addr, "--data", d.data}, d.o.Args...)...)
	cmd.Env = append(cmd.Env, env...)
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	ended, listens := make(chan struct{}), make(chan struct{})
	d.cmd, d.ended = cmd, ended
	go func() { // ends with the process
		defer close(ended)
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !said && strings.HasPrefix(lines.Text(), "listening on ") {
				said = true
				close(listens)
			}
		}
		_ = cmd.Wait() // how it ended is asked of its state
	}()
	select {
	case <-listens:
		return time.Since(began), nil
	case <-ended:
		return 0, errEarly
	case <-time.After(30 * time.Second):
		d.Kill()
		return 0, errors.New("the daemon did not listen within 30 s")
	}
}

// Process is the id of the process that Start ran.
func (d *Daemon) Process() int { return d.cmd.Process.Pid }

// Ended is closed once the process that Start ran has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Killed reports whether the process has ended by SIGKILL. It waits until it has
// ended.
func (d *Daemon) Killed() bool {
	<-d.ended
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Pause stops the process in its tracks, and returns once all of it stands still.
func (d *Daemon) Pause() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		d.t.Fatal(err)
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(d.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			d.t.Fatalf("the daemon was to be stopped: %v, %v", status, err)
		}
		return
	}
}

// Resume has a process that was paused go on.
func (d *Daemon) Resume() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		d.t.Fatal(err)
	}
}

// Kill ends the process, if it has not ended, as kill -9 does.
func (d *Daemon) Kill() {
	if d.ended != nil {
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}

// Stop asks the daemon to end, and waits until it has, in order.
func (d *Daemon) Stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		d.t.Fatal("the daemon did not stop within a minute")
	}
	if !d.cmd.ProcessState.Success() {
		d.t.Fatalf("the daemon did not stop cleanly: %v", d.cmd.ProcessState)
	}
}

// Command is one run of the binary with the daemon's environment.
func (d *Daemon) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.binary, args...)
	cmd.Env = Environ(d.o.Env...)
	return cmd
}

// Run carries out one command to its end, which has to be a good one, and returns
// what it printed.
func (d *Daemon) Run(args ...string) string {
	d.t.Helper()
	cmd := d.Command(args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("tierd %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}
