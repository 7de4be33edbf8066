package lifecycle_test

import (
	"fmt"
	"os"
	"testing"
)

// memoryFolder is a folder that is kept in memory, on systems that have one.
const memoryFolder = "/dev/shm"

// TestMain keeps the tests' files in memory where it can. They open thousands
// of stores, and none of them asks what a disk keeps after a loss of power: that
// is what the tests of the drivers do.
func TestMain(m *testing.M) { os.Exit(inMemory(m.Run)) }

func inMemory(run func() int) int {
	dir, err := os.MkdirTemp(memoryFolder, "tierd-lifecycle-")
	if err != nil {
		return run()
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
