//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// armed is what the environment asks for.
type armed struct {
	step string
	do   func() error
	at   int64
	hits atomic.Int64
}

// plan is read once, as skipped is. They are the only state of a package in this
// repository, and in no build that is delivered.
var plan = sync.OnceValues(func() (*armed, error) {
	asked := os.Getenv("TIERD_FAILPOINT")
	if asked == "" {
		return nil, nil //nolint:nilnil // nothing is armed
	}
	step, what, _ := strings.Cut(asked, "=")
	do, at, _ := strings.Cut(what, "@")
	n, err := strconv.ParseInt(at, 10, 64)
	a := &armed{step: step, do: action(step, do), at: n}
	if err != nil || a.do == nil || !slices.Contains(Steps(), step) {
		return nil, fmt.Errorf("TIERD_FAILPOINT=%q: use STEP=kill@N, STEP=fail@N or STEP=sleep:DURATION@N, with one of %q", asked, Steps())
	}
	return a, nil
})

// action is what a step does when it is its turn; nil for what nobody knows.
func action(step, do string) func() error {
	if wait, sleeps := strings.CutPrefix(do, "sleep:"); sleeps {
		d, err := time.ParseDuration(wait)
		if err != nil {
			return nil
		}
		return func() error {
			time.Sleep(d)
			return nil
		}
	}
	switch do {
	case "kill":
		return kill
	case "fail":
		return func() error { return fmt.Errorf("failpoint %s", step) }
	}
	return nil
}

// kill ends the process as kill -9 does.
func kill() error {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		return err
	}
	select {} // nothing more is done while the signal is on its way
}

var skipped = sync.OnceValue(func() []string { return strings.Split(os.Getenv("TIERD_FAILPOINT_SKIP"), ",") })

// Skips reports whether a check is to be left out. It is safe for concurrent use.
func Skips(check string) bool { return slices.Contains(skipped(), check) }

// Hit reaches a step. It is safe for concurrent use.
func Hit(step string) error {
	a, err := plan()
	if err != nil {
		return err
	}
	if a == nil || a.step != step || a.hits.Add(1) != a.at {
		return nil
	}
	return a.do()
}
