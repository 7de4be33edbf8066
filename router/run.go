package router

import (
	"time"

	"github.com/tierd/tierd/warm"
)

// A mutation may be a run of rows: an append of several entries. It goes through
// the queue like a single row, and is committed or refused as a whole.

// rows is how many rows m sends.
func (m *mutation) rows() int { return 1 + len(m.more) }

// run is the rows of m, in order.
func (m *mutation) run() []warm.Row { return append([]warm.Row{m.row}, m.more...) }

// bytes is how long the bodies of m's rows are.
func (m *mutation) bytes() int {
	n := len(m.row.Body)
	for i := range m.more {
		n += len(m.more[i].Body)
	}
	return n
}

// outcome is what became of m, whose results are the first of those given: that
// of its last row, or of the one that kept the run from being done. Its first
// row carries the idempotency key, so that a replay knows what was created; the
// rows behind it followed in one commit.
func (m *mutation) outcome(results []warm.Result) warm.Result {
	run := results[:m.rows()]
	again := false
	for _, r := range run {
		switch r.Status {
		case warm.Done:
		case warm.Again:
			again = true
		case warm.Replayed:
			r.Head.Version += int64(len(m.more))
			r.Head.UpdatedAt = r.Head.UpdatedAt.Add(time.Duration(len(m.more)) * time.Microsecond)
			return r
		default:
			return r
		}
	}
	if again {
		return warm.Result{Status: warm.Again}
	}
	last := run[len(run)-1]
	last.Created, last.Prev = run[0].Created, run[0].Prev
	return last
}
