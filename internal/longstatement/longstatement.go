// Package longstatement runs what PostgreSQL may take hours for, as building an index
// or a vacuum, and notices all the same when the connection that waits for it has gone
// silent: the server is asked on another one whether it is still at work.
package longstatement

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrSilent is a connection on which nothing comes, while the server has nothing to do
// for it.
var ErrSilent = errors.New("PostgreSQL does not answer on a connection, and is not at work for it")

const (
	// Every is how often the server should be asked.
	Every = 10 * time.Second
	// connectWithin bounds connecting, and how long the end is waited for.
	connectWithin = 10 * time.Second
	// idleLooks is how often in a row the server must have nothing to do: between two
	// statements it may, for a moment.
	idleLooks = 3
	// unseenFor is how long is waited behind a pooler that does not pass names on: the
	// server cannot tell then.
	unseenFor = 6 * time.Hour
)

// Look is the question what the server knows of a connection, by the name that it was
// given. Its answer is scanned into a Sight.
const Look = `SELECT count(*) > 0, count(*) FILTER (WHERE state <> 'idle') > 0 FROM pg_stat_activity WHERE starts_with(application_name, $1)`

// Sight is what the server knows of a connection.
type Sight struct {
	There   bool // it has it
	Working bool // and is at work for it
}

// Run connects by config, which it changes, and runs fn, whose context ends when the
// connection is given up. look asks Look of a name elsewhere, in a time of its own, at
// each interval; an error of it says nothing.
func Run(ctx context.Context, config *pgx.ConnConfig, every time.Duration, look func(ctx context.Context, name string) (Sight, error), fn func(context.Context, *pgx.Conn) error) error {
	name := "tierd " + rand.Text()
	config.RuntimeParams["application_name"] = name
	connecting, connected := context.WithTimeout(ctx, connectWithin)
	defer connected()
	c, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return err
	}
	within, give := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		watch(within, give, every, func(ctx context.Context) (Sight, error) { return look(ctx, name) })
	})
	err = fn(within, c)
	if cause := context.Cause(within); err != nil && ctx.Err() == nil && cause != nil {
		err = errors.Join(cause, err)
	}
	give(nil)
	asking.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectWithin)
	defer cancel()
	return errors.Join(err, closed(end, c))
}

// closed closes a connection that is not closed yet.
func closed(ctx context.Context, c *pgx.Conn) error {
	if c.IsClosed() {
		return nil
	}
	return c.Close(ctx)
}

// watch looks until ctx ends, at once and at each interval, and gives up when the
// server, which had the connection, is not at work for it again and again.
func watch(ctx context.Context, give context.CancelCauseFunc, every time.Duration, look func(context.Context) (Sight, error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	began, seen := time.Now(), false
	for idle := 0; ; {
		at, err := look(ctx)
		seen = seen || at.There
		switch {
		case err != nil:
		case at.Working:
			idle = 0
		default:
			idle++
		}
		if idle >= idleLooks && (seen || time.Since(began) >= unseenFor) {
			give(ErrSilent)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
