package fault

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection and the proxy's to the server.
type conn struct {
	proxy          *Proxy
	client, server *net.TCPConn
	talk           Conversation
	ending         sync.Once
	ended          chan struct{} // closed by end
	falling        atomic.Bool   // no reply to the request just sent passes, nor to any other
	holed          atomic.Bool   // nothing passes any more

	mu      sync.Mutex
	waiting []string // texts of requests whose replies have not come
}

// requests forwards what the client says until it, or a fault, ends that.
func (c *conn) requests() {
	defer func() {
		_ = c.server.CloseWrite() // the client's end is passed on
		if c.holed.Load() {
			c.end(Cut)
		}
	}()
	in := bufio.NewReaderSize(c.client, 64<<10)
	var text string
	first := true // the next message begins a request
	for {
		m, err := c.talk.Request(in)
		if err != nil {
			return
		}
		if first && !m.Unasked {
			text = m.Text
			c.begin(text)
		}
		first = !m.Partial
		how := Pass
		if !m.Partial && !m.Unasked {
			// Asked before the server has the whole of it, and so before it can answer.
			how = c.proxy.ask(Event{Sent, text})
			c.falling.Store(how.silences())
		}
		if c.holed.Load() {
			how = Hole
		} else if c.send(c.server, m.Data, how) != nil {
			return
		}
		switch {
		case how.ends():
			c.end(how)
			return
		case how == Hole:
			_, _ = io.Copy(io.Discard, in) // until the client has enough of it
			c.end(Cut)
			return
		case how == HalfClose:
			return
		}
	}
}

// replies forwards what the server says.
func (c *conn) replies() {
	defer func() { _ = c.client.CloseWrite() }()
	in := bufio.NewReaderSize(c.server, 64<<10)
	for {
		m, err := c.talk.Reply(in, c.oldest())
		if c.falling.Load() {
			<-c.ended
			return
		}
		how := Pass
		if err == nil && !m.Partial && !m.Unasked {
			how = c.proxy.ask(Event{Reply, c.answered()})
		}
		switch {
		case how == Half:
			_, _ = c.client.Write(m.Data[:len(m.Data)/2]) // it may have left
			fallthrough
		case how.ends():
			c.end(how)
			return
		case how == HalfClose:
			return
		case how == Hole:
			c.holed.Store(true)
			<-c.ended
			return
		}
		// On an error this is what came before the server ended.
		if wrote := c.send(c.client, m.Data, how); err != nil || wrote != nil {
			return
		}
	}
}

// send writes a message as fast as how lets it.
func (c *conn) send(to *net.TCPConn, data []byte, how Kind) error {
	switch how {
	case Slow:
		c.rest(slowBy)
	case Drip:
		for i := range data {
			if _, err := to.Write(data[i : i+1]); err != nil {
				return err
			}
			c.rest(dripEvery)
		}
		return nil
	}
	_, err := to.Write(data)
	return err
}

// rest waits, unless the connection ends.
func (c *conn) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ended:
	}
}

func (c *conn) begin(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, text)
}

// oldest is the text of the request whose reply comes next.
func (c *conn) oldest() func() string {
	return func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.waiting) == 0 {
			return ""
		}
		return c.waiting[0]
	}
}

// answered takes the oldest request off those that wait.
func (c *conn) answered() (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		text = c.waiting[0]
		c.waiting = c.waiting[1:]
	}
	return text
}

// end closes both sides, in order or by a reset.
func (c *conn) end(how Kind) {
	c.ending.Do(func() {
		for _, side := range []*net.TCPConn{c.client, c.server} {
			if how == Reset {
				_ = side.SetLinger(0)
			}
			_ = side.Close()
		}
		close(c.ended)
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
