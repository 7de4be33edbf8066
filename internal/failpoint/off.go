//go:build !failpoints

package failpoint

// Hit does nothing in this build.
func Hit(string) error { return nil }

// Skips is false in this build.
func Skips(string) bool { return false }
