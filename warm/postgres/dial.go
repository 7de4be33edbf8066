package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errSilent is a connection on which an answer did not come in time, while the
// server may well be there for others.
var errSilent = errors.New("PostgreSQL does not answer on a connection")

// answering has connections break on which an answer is not there within a time
// of its question. The server bounds its statements; nothing but this bounds what
// a way in between swallows, or lets through a byte at a time, for a caller
// without a deadline.
func answering(dial pgconn.DialFunc, within time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &answeringConn{Conn: c, within: within}, nil
	}
}

// answeringConn starts the time anew with each question.
type answeringConn struct {
	net.Conn
	within time.Duration

	mu     sync.Mutex
	others bool // a deadline of those who use the connection counts
}

// Write implements net.Conn.
func (c *answeringConn) Write(data []byte) (int, error) {
	c.mu.Lock()
	if !c.others {
		_ = c.Conn.SetDeadline(time.Now().Add(c.within)) // a connection that is closed says so below
	}
	c.mu.Unlock()
	n, err := c.Conn.Write(data)
	return n, c.explain(err)
}

// Read implements net.Conn.
func (c *answeringConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	return n, c.explain(err)
}

// SetDeadline implements net.Conn; the zero time leaves it at the answers' own.
func (c *answeringConn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = !at.IsZero()
	return c.Conn.SetDeadline(at)
}

// explain tells the end of the connection's own time, which ends it, from that of
// a caller's.
func (c *answeringConn) explain(err error) error {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.others {
		return err
	}
	_ = c.Conn.Close() // or pgx would go on asking it to end
	return fmt.Errorf("%w within %v", errSilent, c.within)
}
