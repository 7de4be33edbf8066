package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/fault"
)

// A connection that goes silent, or lets an answer through a byte a second, beside
// a server that is there: whoever waits without a deadline of its own, as workers
// do, is not held up by it for good. A read is read again elsewhere.
func TestASilentConnectionHoldsNobodyUp(t *testing.T) {
	behind, proxy := through(t, testURL(t))
	defer func() { _ = proxy.Close() }()
	s := open(t, behind, &Options{StatementTimeout: 500 * time.Millisecond})
	begin(t, s)
	mustPut(t, s, "k", `1`)
	const question = `SELECT name FROM namespace WHERE nid > $1 LIMIT 1`
	pool, err := s.Pool(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var name string
	read := func() error {
		return s.read(context.Background(), func(q querier) error { return q.QueryRow(context.Background(), question, 0).Scan(&name) })
	}
	bare := func() error { return pool.QueryRow(context.Background(), question, 0).Scan(&name) }
	for _, c := range []struct {
		name string
		do   func() error
		want error
	}{{"a read", read, nil}, {"an index's own pool", bare, errSilent}} {
		for _, kind := range []fault.Kind{fault.Hole, fault.Drip} {
			t.Run(c.name+", "+string(kind), func(t *testing.T) {
				if err := c.do(); err != nil { // the statement is prepared
					t.Fatal(err)
				}
				before := proxy.Faults()[kind]
				proxy.Play(fault.Nth(1, fault.At(fault.Reply, question), kind))
				defer proxy.Play(nil)
				if _, err := later(func() (none struct{}, err error) { return none, c.do() }).wait(t); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if proxy.Faults()[kind] != before+1 {
					t.Error("no answer was lost")
				}
			})
		}
	}
}
