package telemetry_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/internal/racedetector"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
	"github.com/tierd/tierd/warm/warmtest"
)

func TestWrappedWarmConforms(t *testing.T) {
	if racedetector.On {
		t.Skip("make test runs it without the race detector")
	}
	tel := traced(t)
	dir := t.TempDir()
	warmtest.Run(t, warmtest.Harness{
		Capabilities: warm.Capabilities{Committers: 1},
		// Crash is the driver's own affair: the wrapper keeps nothing.
		Open: func(t *testing.T, place string, o warmtest.Options) warm.Store {
			t.Helper()
			file := filepath.Join(dir, strings.NewReplacer("/", "_", "#", "_").Replace(place)+".db")
			s, err := sqlite.Open(t.Context(), file, &sqlite.Options{Clock: o.Clock, AfterCommit: o.AfterCommit})
			if err != nil {
				t.Fatal(err)
			}
			return tel.Warm(s)
		},
	})
}
