package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierd/tierd/internal/bench"
)

func TestBench(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	got := execute(t, nil, "", "bench", "--data", data, "--for", "20ms", "--writers", "4", "--json")
	var figures bench.Figures
	if err := json.Unmarshal([]byte(got.stdout), &figures); err != nil || got.code != exitDone || len(figures.Rows) < 15 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	for flag, part := range map[string]string{"--for=1ms": "use 10ms or more", "--writers=0": "use 1 to 1024"} {
		if got := execute(t, nil, "", "bench", "--data", data, flag); got.code != exitUsage || !strings.Contains(got.stderr, part) {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// Ctrl-C ends it, with nothing left behind.
func TestBenchIsInterrupted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	cmd := program(t.Context(), nil, "bench", "--data", data, "--for", "200ms")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := make([]byte, 0, 1<<10)
	for !strings.Contains(string(told), "writers") {
		piece := make([]byte, 256)
		n, err := stderr.Read(piece)
		if err != nil {
			t.Fatalf("it ended with %q: %v", told, err)
		}
		told = append(told, piece[:n]...)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until it closes its end
		_, err = stderr.Read(make([]byte, 256))
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("%v: %s", err, told)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}
