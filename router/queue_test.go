package router

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// slowCommits is warm of which each commit lasts until it is let go.
type slowCommits struct {
	warm.Store
	open chan chan struct{} // commits under way, in the order they began
	rows chan int           // how many rows each has
}

func (s *slowCommits) Commit(_ context.Context, b *warm.Batch) ([][]warm.Result, error) {
	end := make(chan struct{})
	s.rows <- len(b.Changes)
	s.open <- end
	<-end
	results := make([][]warm.Result, len(b.Changes))
	for i := range results {
		results[i] = []warm.Result{{Status: warm.Done}}
	}
	return results, nil
}

// A commit starts at once where none is under way. Another one waits for half as
// many rows as are in flight: a commit has its price, and leaves the processor idle
// while it waits for the disk.
func TestWhenACommitStarts(t *testing.T) {
	// What comes together is all in line before a commit begins to look.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		s := &slowCommits{open: make(chan chan struct{}, 16), rows: make(chan int, 16)}
		q := newQueue(s, 16, time.Minute, discard{})
		q.mark = func(_ context.Context, keys ...tiering.Key) []hotMark { return make([]hotMark, len(keys)) }
		q.settle = func(context.Context, []outcome) {}
		n := 0
		submit := func(rows int) {
			t.Helper()
			for range rows {
				n++
				m := &mutation{key: tiering.Key{Tenant: "t", Namespace: "ns", ID: fmt.Sprint(n)}, row: warm.Row{Op: tiering.OpPut}}
				m.begin()
				if err := q.submit(m); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		started := func(want ...int) {
			t.Helper()
			for _, w := range want {
				select {
				case got := <-s.rows:
					if got != w {
						t.Fatalf("a commit of %d rows started, want %d", got, w)
					}
				default:
					t.Fatalf("no commit of %d rows started", w)
				}
			}
			select {
			case got := <-s.rows:
				t.Fatalf("a commit of %d rows started", got)
			default:
			}
		}
		end := func() {
			close(<-s.open)
			synctest.Wait()
		}

		submit(16)
		started(16) // all that came together
		submit(7)
		started() // fewer than half of what is in flight
		submit(1)
		started(8)
		submit(11)
		started()
		end() // the sixteen: eight are in flight
		started(11)
		end()
		end()
		submit(3)
		started(3) // nothing is under way
		submit(1)
		started()
		end()
		started(1)
		end()
	})
}
