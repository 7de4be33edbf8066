package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/internal/longstatement"
	"github.com/tierd/tierd/tiering"
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

// What may take hours has a connection without that bound. One that goes silent there is
// given up when the server has nothing to do for it.
func TestASilentConnectionHoldsUpNothingThatTakesLong(t *testing.T) {
	behind, proxy := through(t, testURL(t))
	defer func() { _ = proxy.Close() }()
	s := open(t, behind, nil)
	begin(t, s)
	mustPut(t, s, "k", `1`)
	for _, c := range []struct {
		name, statement string
		do              func() error
	}{
		{"a scrub", "VACUUM", func() error { return s.Scrub(context.Background()) }},
		{"an index of a namespace", "CREATE INDEX", func() error {
			return s.IndexQueries(context.Background(), []tiering.Key{{Tenant: "acme", Namespace: "notes"}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			usual := s.looksAfter
			s.looksAfter = 200 * time.Millisecond
			proxy.Play(fault.Nth(1, fault.At(fault.Reply, c.statement), fault.Hole))
			_, err := later(func() (none struct{}, err error) { return none, c.do() }).wait(t)
			if !errors.Is(err, longstatement.ErrSilent) {
				t.Errorf("%v, want that the connection is silent", err)
			}
			proxy.Play(nil)
			s.looksAfter = usual
			if err := c.do(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// The server tells, to another connection, that it is at work for one.
func TestTheServerTellsThatItIsAtWork(t *testing.T) {
	s, _ := fresh(t)
	err := s.leisurely(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		asleep := later(func() (none struct{}, err error) {
			_, err = c.Exec(within, `SELECT pg_sleep(600)`)
			return none, err
		})
		name := c.Config().RuntimeParams["application_name"]
		for at := (longstatement.Sight{}); !at.Working; {
			if err := s.readers.QueryRow(ctx, longstatement.Look, name).Scan(&at.There, &at.Working); err != nil {
				return err
			}
			if !at.There {
				t.Error("the server does not know the connection")
				break
			}
		}
		cancel()
		_, _ = asleep.wait(t)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
