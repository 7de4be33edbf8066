package warmtest

import "testing"

func testMachine(t *testing.T, h Harness) {}
