package redis_test

import (
	"os"
	"testing"

	"github.com/tierd/tierd/internal/servicestest"
)

// private starts servers that no other test uses.
func private(t testing.TB, groups ...string) *servicestest.Services {
	t.Helper()
	if os.Getenv("FAILOVER") == "" {
		t.Skip("kills, freezes and fails over servers of its own: make failover")
	}
	return servicestest.Start(t, groups...)
}
