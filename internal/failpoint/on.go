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
	step, do string
	at       int64
	hits     atomic.Int64
}

// plan is read once, as skipped is. They are the only state of a package in this
// repository, and in no build that is delivered.
var plan = sync.OnceValue(func() *armed {
	step, what, ok := strings.Cut(os.Getenv("TIERD_FAILPOINT"), "=")
	do, at, counted := strings.Cut(what, "@")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || !counted || err != nil {
		return nil
	}
	return &armed{step: step, do: do, at: n}
})

var skipped = sync.OnceValue(func() []string { return strings.Split(os.Getenv("TIERD_FAILPOINT_SKIP"), ",") })

// Skips reports whether a check is to be left out. It is safe for concurrent use.
func Skips(check string) bool { return slices.Contains(skipped(), check) }

// Hit reaches a step. It is safe for concurrent use.
func Hit(step string) error {
	a := plan()
	if a == nil || a.step != step || a.hits.Add(1) != a.at {
		return nil
	}
	switch wait, sleeps := strings.CutPrefix(a.do, "sleep:"); {
	case a.do == "kill":
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			return err
		}
		select {} // nothing more is done while the signal is on its way
	case sleeps:
		d, err := time.ParseDuration(wait)
		if err != nil {
			return err
		}
		time.Sleep(d)
		return nil
	}
	return fmt.Errorf("failpoint %s", step)
}
