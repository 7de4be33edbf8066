package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A server that hangs answers nothing, and says nothing: no statement timeout
// of its own ends what waits for it. So a call that found its connection broken,
// or that waits for long, raises a doubt; what settles it is a question on a
// connection of its own. Two that do not get through, while nothing else was
// answered either, and the server is away: calls that wait for it end, and later
// ones fail at once, until a question gets through again. A commit that was on
// its way then has an unknown outcome, which Resolve settles once the server is
// back.
const (
	lookEvery = 250 * time.Millisecond // between looks at what waits, and between questions while the server is away
	longWait  = time.Second            // from when on a call raises a doubt
	askFor    = time.Second            // a question may take
	askPause  = 100 * time.Millisecond // between two questions in doubt
	askTries  = 2
)

// stateFull is a server that has no connection left for us, and serves others.
const stateFull = "53300"

// errAway is what calls fail with while the server is away. Nothing of them
// reached it.
var errAway = &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeUnavailable, RetryAfter: time.Second, Detail: "PostgreSQL does not answer: try again"}

var _ warm.Remote = (*Store)(nil)

// presence is what is known of the server.
type presence struct {
	away    atomic.Bool
	doubt   chan struct{} // a call found its connection broken
	answers atomic.Int64  // calls that the server answered

	mu    sync.Mutex
	busy  map[*pgxpool.Conn]*use // connections in use
	there context.Context        // ends when the server goes away
	leave context.CancelFunc
}

// use is one use of a connection.
type use struct {
	since  time.Time
	broken bool // by interrupt
}

func newPresence() *presence {
	p := &presence{doubt: make(chan struct{}, 1), busy: map[*pgxpool.Conn]*use{}}
	p.there, p.leave = context.WithCancel(context.Background())
	return p
}

// Away implements warm.Remote.
func (s *Store) Away() bool { return s.server.away.Load() }

// acquire takes a connection out of a pool, as long as the server is there.
func (p *presence) acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	p.mu.Lock()
	there := p.there
	p.mu.Unlock()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(there, cancel)()
	use := &use{since: time.Now()}
	conn, err := pool.Acquire(waiting)
	switch {
	case err == nil:
	case there.Err() != nil:
		return nil, errAway
	case ctx.Err() == nil && !reached(err):
		p.doubted()
		return nil, err
	default:
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[conn] = use
	if there.Err() != nil { // too late to be among those that went interrupts
		use.interrupt(conn)
	}
	return conn, nil
}

// release gives a connection back after a call that ended with err.
func (p *presence) release(conn *pgxpool.Conn, err error) {
	p.mu.Lock()
	broken := p.busy[conn].broken
	delete(p.busy, conn)
	p.mu.Unlock()
	if broken { // its deadline would end the next call too
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = conn.Conn().Close(ended) // the pool makes a new one
	}
	switch {
	case err == nil || sqlState(err) != "" && reached(err):
		p.answers.Add(1)
	case conn.Conn().IsClosed():
		p.doubted()
	}
	conn.Release()
}

// doubted raises a doubt.
func (p *presence) doubted() {
	select {
	case p.doubt <- struct{}{}:
	default:
	}
}

// reached reports whether err came from a server that takes part: one that is
// full does, one that ends the session or takes none does not.
func reached(err error) bool {
	if err == nil {
		return true
	}
	e, answered := errors.AsType[*pgconn.PgError](err)
	return answered && (e.Severity != "FATAL" && e.SeverityUnlocalized != "FATAL" || e.Code == stateFull) && !strings.HasPrefix(e.Code, "08")
}

// waits reports whether a call has waited for long.
func (p *presence) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, use := range p.busy {
		if time.Since(use.since) > longWait {
			return true
		}
	}
	return false
}

// went ends every call that waits for the server.
func (p *presence) went() {
	p.away.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
	for conn, use := range p.busy {
		use.interrupt(conn)
	}
}

func (p *presence) came() {
	p.mu.Lock()
	p.there, p.leave = context.WithCancel(context.Background())
	p.mu.Unlock()
	p.away.Store(false)
}

// interrupt breaks a connection, also under a call that waits for it in another
// goroutine. presence.mu is held.
func (u *use) interrupt(conn *pgxpool.Conn) {
	u.broken = true
	// One that cannot take a deadline is closed already.
	_ = conn.Conn().PgConn().Conn().SetDeadline(time.Unix(1, 0))
}

// watchServer keeps what is known of the server, until Close.
func (s *Store) watchServer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.working.Go(func() {
		<-s.closing
		cancel()
	})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		doubted := false
		select {
		case <-ctx.Done():
			s.server.leave()
			return
		case <-s.server.doubt:
			doubted = true
		case <-tick.C:
		}
		switch {
		case s.Away():
			if s.answers(ctx) {
				s.server.came()
			}
		case (doubted || s.server.waits()) && s.gone(ctx):
			s.server.went()
		}
	}
}

// gone settles a doubt.
func (s *Store) gone(ctx context.Context) bool {
	before := s.server.answers.Load()
	for try := range askTries {
		if try > 0 {
			select {
			case <-time.After(askPause):
			case <-ctx.Done():
				return false
			}
		}
		if s.answers(ctx) || ctx.Err() != nil || s.server.answers.Load() != before {
			return false
		}
	}
	return true
}

// answers asks the server on a connection of its own.
func (s *Store) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, s.readers.Config().ConnConfig)
	if err != nil {
		return reached(err)
	}
	_, err = c.PgConn().Exec(ctx, `SELECT 1`).ReadAll()
	_ = c.Close(ctx) // whatever becomes of it: it was asked
	return reached(err)
}
