package failpoint_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingIsLeftOfThem: the command has nothing of this package, unless it was
// built with the tag.
func TestNothingIsLeftOfThem(t *testing.T) {
	for _, c := range []struct {
		tags string
		has  bool
	}{{"", false}, {"failpoints", true}} {
		binary := filepath.Join(t.TempDir(), "tierd")
		if out, err := exec.Command("go", "build", "-tags="+c.tags, "-o", binary, "github.com/tierd/tierd/cmd/tierd").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		names, err := exec.Command("go", "tool", "nm", binary).Output()
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(names), "internal/failpoint."); has != c.has {
			t.Errorf("built with tags %q: symbols of failpoints %t, want %t", c.tags, has, c.has)
		}
	}
}
