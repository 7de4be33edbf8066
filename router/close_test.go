package router

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// stuck is a warm store whose commits heed no deadline.
type stuck struct {
	warm.Store
	began, release chan struct{}
}

func (s *stuck) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	if b.Changes[0].Key.ID != "k" {
		return s.Store.Commit(ctx, b)
	}
	close(s.began)
	<-s.release
	return s.Store.Commit(context.WithoutCancel(ctx), b)
}

// A commit that never ends does not keep the node from stopping: Close gives it
// its time, refuses what stands behind it, and says what it left.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	s := &stuck{began: make(chan struct{}), release: make(chan struct{})}
	var log bytes.Buffer
	w := open(t, setup{
		warm: func(inner warm.Store) warm.Store { s.Store = inner; return s },
		config: func(c *Config) {
			c.CommitTimeout, c.HotTimeout, c.Logger = 2*time.Second, 100*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
		},
	})
	w.put("before", `1`)
	first := w.startPut("k", `1`, tiering.Condition{})
	<-s.began
	second := w.startPut("k", `2`, tiering.Condition{})
	w.inLine(1)
	began := time.Now()
	w.r.Close()
	if took := time.Since(began); took < 2*time.Second || took > patience/2 {
		t.Errorf("Close took %s", took)
	}
	if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "refused=1 in_flight=1") {
		t.Errorf("it logged %q", got)
	}
	if _, err := second(); tiering.CodeOf(err) != tiering.CodeUnavailable {
		t.Errorf("what stood in line answers %v", err)
	}
	close(s.release)
	if rc, err := first(); err != nil || rc.Version != 1 {
		t.Errorf("the commit that ended after all answers %+v, %v", rc, err)
	}
}
