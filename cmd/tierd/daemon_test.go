package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/daemontest"
)

// binaryEnv tells tests where TestMain has built the program.
const binaryEnv = "TIERD_TEST_BINARY"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tierd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "tierd")
	if err := daemontest.BuildAt(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(binaryEnv, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// program prepares the built binary.
func program(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Getenv(binaryEnv), args...)
	cmd.Env = daemontest.Environ(env...)
	return cmd
}

// execute runs the built binary to its end.
func execute(t *testing.T, env []string, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := program(ctx, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// daemon is a running tierd serve.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr *bytes.Buffer // read it after the end
	url    string
	banner []string // what it printed when it was ready
	ended  bool
}

// start serves a data folder on any free port, and waits until it is ready.
func start(t *testing.T, data string, env []string, args ...string) *daemon {
	t.Helper()
	return startOn(t, env, append([]string{"--listen", "127.0.0.1:0", "--data", data}, args...)...)
}

func startOn(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: program(context.Background(), env, append([]string{"serve"}, args...)...), stderr: &bytes.Buffer{}}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.kill() })
	d.out = bufio.NewReader(stdout)
	for len(d.banner) < 5 {
		line, err := d.out.ReadString('\n')
		if err != nil {
			d.kill()
			t.Fatalf("serve ended before it was ready: %v\n%s%s", err, strings.Join(d.banner, "\n"), d.stderr)
		}
		d.banner = append(d.banner, strings.TrimSuffix(line, "\n"))
	}
	d.url = strings.TrimPrefix(d.banner[0], "listening on ")
	return d
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	if !d.ended {
		d.ended = true
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	}
}

// stop sends SIGTERM and returns the exit code and what else was printed.
func (d *daemon) stop() (code int, rest string) {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	return d.wait()
}

func (d *daemon) signal(s os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// wait waits for the end of the daemon, and kills one that does not come to it.
func (d *daemon) wait() (code int, rest string) {
	d.t.Helper()
	stuck := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer stuck.Stop()
	more, err := io.ReadAll(d.out)
	if err != nil {
		d.t.Error(err)
	}
	d.ended = true
	var exit *exec.ExitError
	if err := d.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return d.cmd.ProcessState.ExitCode(), string(more)
}

// run runs a client command against the daemon.
func (d *daemon) run(args ...string) outcome {
	d.t.Helper()
	return invoke(d.t, []string{"TIERD_URL=" + d.url}, "", args...)
}

// must is run for a command that has to succeed; it returns what was printed.
func (d *daemon) must(args ...string) string {
	d.t.Helper()
	got := d.run(args...)
	if got.code != exitDone {
		d.t.Fatalf("tierd %s: %+v", strings.Join(args, " "), got)
	}
	return got.stdout
}

// follow starts a program that prints line after line, and returns what reads
// the next one.
func follow(t *testing.T, d *daemon) func() string {
	t.Helper()
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.kill() })
	d.out = bufio.NewReader(stdout)
	return func() string {
		t.Helper()
		stuck := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
		defer stuck.Stop()
		line, err := d.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(line, "\n")
	}
}
