package redis_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets many tests run side by side: they wait for Redis' clock, and
// need no processor for it.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
