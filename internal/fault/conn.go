package fault

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection and the proxy's to the server.
type conn struct {
	proxy          *Proxy
	number         int
	client, server *net.TCPConn
	talk           Conversation
	ctx            context.Context // ends with the connection
	cancel         context.CancelFunc
	ending         sync.Once
	// silent: a direction swallows what comes, and the connection stays open
	// for as long as the client wants it.
	silent, hole atomic.Bool

	mu      sync.Mutex
	waiting []asked // requests whose replies have not come
	asked   int
}

// asked is a request that waits for its reply.
type asked struct {
	n    int
	text string
}

// direction is one way through a connection, used by one goroutine.
type direction struct {
	*conn
	to      *net.TCPConn
	trickle time.Duration // a byte each; 0: as they come
	deaf    bool          // what comes is thrown away
}

// requests forwards what the client says until it, or a fault, ends that.
func (c *conn) requests() {
	d := &direction{conn: c, to: c.server}
	defer c.finish(d)
	in := bufio.NewReaderSize(c.client, 64<<10)
	var a asked
	first := true // the next message begins a request
	for {
		m, err := c.talk.Request(in)
		if err != nil {
			return
		}
		if first && !m.Unasked {
			a = c.begin(m.Text)
			if !d.apply(c.proxy.ask(Event{Request, c.number, a.n, a.text}), m.Data) {
				return
			}
		} else if !d.write(m.Data) {
			return
		}
		first = !m.Partial
		if m.Partial || m.Unasked || d.deaf {
			continue
		}
		if !d.apply(c.proxy.ask(Event{Sent, c.number, a.n, a.text}), nil) {
			return
		}
	}
}

// replies forwards what the server says.
func (c *conn) replies() {
	d := &direction{conn: c, to: c.client}
	defer c.finish(d)
	in := bufio.NewReaderSize(c.server, 64<<10)
	for {
		m, err := c.talk.Reply(in, c.oldest())
		if err != nil {
			if len(m.Data) > 0 {
				d.write(m.Data) // what came before the server ended
			}
			return
		}
		if m.Partial || m.Unasked {
			if !d.write(m.Data) {
				return
			}
			continue
		}
		a := c.answered()
		if !d.apply(c.proxy.ask(Event{Reply, c.number, a.n, a.text}), m.Data) {
			return
		}
	}
}

func (c *conn) begin(text string) asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	a := asked{c.asked, text}
	c.waiting = append(c.waiting, a)
	return a
}

// oldest is the text of the request whose reply comes next.
func (c *conn) oldest() func() string {
	return func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.waiting) == 0 {
			return ""
		}
		return c.waiting[0].text
	}
}

func (c *conn) answered() (a asked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		a = c.waiting[0]
		c.waiting = c.waiting[1:]
	}
	return a
}

// apply does what the script said to a message. false: the direction has ended.
func (d *direction) apply(a Action, data []byte) bool {
	switch a.Kind {
	case Slow:
		if !d.pause(a.Wait) {
			return false
		}
	case Trickle:
		d.trickle = a.Wait
	case Drop:
		d.deaf = true
		d.silent.Store(true)
	case BlackHole:
		d.hole.Store(true)
		d.silent.Store(true)
	case Half:
		d.write(data[:len(data)/2])
		d.end(Cut)
		return false
	case HalfClose:
		_ = d.to.CloseWrite()
		d.deaf = true
	case Cut, Reset:
		d.end(a.Kind)
		return false
	}
	return d.write(data)
}

// write forwards data. false: nothing can be forwarded any more.
func (d *direction) write(data []byte) bool {
	if d.deaf || d.hole.Load() || len(data) == 0 {
		return d.ctx.Err() == nil
	}
	if d.trickle == 0 {
		_, err := d.to.Write(data)
		return err == nil
	}
	for i := range data {
		if !d.pause(d.trickle) {
			return false
		}
		if _, err := d.to.Write(data[i : i+1]); err != nil {
			return false
		}
	}
	return true
}

func (d *direction) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// finish passes the end of a direction on. Where a direction is silent the
// server's leaving is not seen, and the client's ends the connection.
func (c *conn) finish(d *direction) {
	switch silent := c.silent.Load(); {
	case silent && d.to == c.server:
		c.end(Cut)
	case silent:
		<-c.ctx.Done()
	default:
		_ = d.to.CloseWrite()
	}
}

// end closes both sides, in order or by a reset.
func (c *conn) end(how Kind) {
	c.ending.Do(func() {
		c.cancel()
		for _, side := range []*net.TCPConn{c.client, c.server} {
			if how == Reset {
				_ = side.SetLinger(0)
			}
			_ = side.Close()
		}
	})
}

// Message is what a protocol cuts from a stream.
type Message struct {
	Data []byte
	// Text of a request says what it asks for: Event.Text.
	Text string
	// Partial: more of the same request or reply follows, and must not wait.
	Partial bool
	// Unasked: no request is waiting for it, or it will get no reply.
	Unasked bool
}

// Conversation cuts both directions of one connection into messages. The two
// methods are called by a goroutine each.
type Conversation interface {
	// Request reads the next message of the client.
	Request(in *bufio.Reader) (Message, error)
	// Reply reads the next message of the server; request is the text of the one
	// it answers, asked once bytes have come. On an error the message holds what
	// had come of it.
	Reply(in *bufio.Reader, request func() string) (Message, error)
}

// Protocol makes the conversation of a connection.
type Protocol func() Conversation

// Bytes is the protocol of which nothing is known: a message is what one read
// gives.
func Bytes() Conversation { return bytesTalk{} }

type bytesTalk struct{}

func (bytesTalk) Request(in *bufio.Reader) (Message, error) {
	return chunk(in)
}

func (bytesTalk) Reply(in *bufio.Reader, _ func() string) (Message, error) {
	return chunk(in)
}

func chunk(in *bufio.Reader) (Message, error) {
	if _, err := in.Peek(1); err != nil {
		return Message{}, err
	}
	data := make([]byte, in.Buffered())
	_, err := io.ReadFull(in, data)
	return Message{Data: data}, err
}

// take reads n bytes onto data, without trusting n with memory.
func take(in *bufio.Reader, data []byte, n int64) ([]byte, error) {
	const most = 64 << 10
	for n > 0 {
		from := len(data)
		data = append(data, make([]byte, min(n, most))...)
		read, err := io.ReadFull(in, data[from:])
		if n -= int64(read); err != nil {
			return data[:from+read], err
		}
	}
	return data, nil
}
