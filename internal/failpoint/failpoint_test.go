package failpoint_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/tierd/tierd/internal/daemontest"
)

// TestNothingIsLeftOfThem: the command knows nothing of the variable that arms a
// step, unless it was built with the tag.
func TestNothingIsLeftOfThem(t *testing.T) {
	for _, c := range []struct {
		tags []string
		has  bool
	}{{nil, false}, {[]string{"failpoints"}, true}} {
		binary, err := os.ReadFile(daemontest.Build(t, c.tags...))
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(binary, []byte("TIERD_FAILPOINT")); has != c.has {
			t.Errorf("built with tags %q: failpoints %t, want %t", c.tags, has, c.has)
		}
	}
}
