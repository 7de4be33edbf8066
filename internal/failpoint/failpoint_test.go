package failpoint_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/daemontest"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
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

// TestWhatAStepDoes: the second commit of a daemon fails, sleeps or kills it, and
// nothing else happens to the first. A step that there is not is told of at once.
func TestWhatAStepDoes(t *testing.T) {
	const nap = 400 * time.Millisecond
	binary := daemontest.Build(t, "failpoints")
	for _, c := range []struct {
		plan               string
		first, fails, dies bool // whether the first put succeeds, the second fails, and the daemon has died
	}{
		{failpoint.CommitSent + "=fail@3", true, true, false},
		{failpoint.CommitSent + "=sleep:" + nap.String() + "@3", true, false, false},
		{failpoint.CommitSent + "=kill@3", true, true, true},
		{"commit.snt=kill@1", false, true, false},
		{failpoint.CommitSent + "=sleep:long@1", false, true, false},
		{failpoint.CommitSent, false, true, false},
	} {
		t.Run(c.plan, func(t *testing.T) {
			d := daemontest.New(t, binary, nil)
			if _, err := d.Start("TIERD_FAILPOINT=" + c.plan); err != nil {
				t.Fatal(err)
			}
			s, err := client.New(d.URL(), &client.Options{Timeout: 20 * time.Second, Retry: client.Retry{Attempts: 1}})
			if err != nil {
				t.Fatal(err)
			}
			put := func() error {
				_, err := s.Put(t.Context(), "n", "k", []byte(`1`), nil)
				return err
			}
			// The first makes the namespace too, in a commit of its own.
			if err := put(); (err == nil) != c.first {
				t.Errorf("the first put: %v", err)
			}
			began := time.Now()
			err = put()
			if (err != nil) != c.fails {
				t.Errorf("the second put: %v", err)
			}
			if !c.fails && time.Since(began) < nap {
				t.Errorf("it took %v, want %v at least", time.Since(began), nap)
			}
			if c.dies {
				<-d.Ended()
				if !d.Killed() {
					t.Error("the daemon was not killed")
				}
				return
			}
			if err := s.Ready(t.Context()); err != nil && !errors.Is(err, tiering.ErrUnavailable) {
				t.Errorf("after it the daemon is not there: %v", err)
			}
		})
	}
}
