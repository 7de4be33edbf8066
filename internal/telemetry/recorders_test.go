package telemetry_test

import (
	"github.com/tierd/tierd/internal/telemetry"
	"github.com/tierd/tierd/router"
)

// The recorder is what the router asks for.
var _ router.Recorder = (*telemetry.Router)(nil)
