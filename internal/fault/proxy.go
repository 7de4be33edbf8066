// Package fault breaks what tierd stands on, on purpose and repeatably: a TCP
// proxy that knows the messages of Redis, PostgreSQL and HTTP and ends, halves, delays or
// swallows a chosen one (Proxy), and a journal of what was written to a disk, from which the disk is made as
// a loss of power would have left it (Journal).
//
// It is for tests and campaigns; no binary contains it.
package fault

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy forwards connections to a server, with faults. It is safe for concurrent
// use.
type Proxy struct {
	target   string
	protocol Protocol
	script   atomic.Pointer[Script]
	listener net.Listener
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]struct{}
	done  map[Kind]int
}

// Listen starts a proxy to the TCP address target, whose server speaks p, on a
// loopback port of its own. It passes everything until Play. Close ends it.
func Listen(target string, speaks Protocol) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, protocol: speaks, listener: l, conns: map[*conn]struct{}{}, done: map[Kind]int{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.Play(nil)
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Play has s decide from now on, also on connections that are open; nil passes
// everything. What was done to a connection stays done.
func (p *Proxy) Play(s Script) {
	if s == nil {
		s = func(Event) Kind { return Pass }
	}
	p.script.Store(&s)
}

// Faults is how often each kind was done so far.
func (p *Proxy) Faults() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.done)
}

// Close ends the proxy and its connections, and waits for them.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.end(Cut)
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client left before it was accepted
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve joins one client with the server until both directions have ended.
func (p *Proxy) serve(client net.Conn) {
	var d net.Dialer
	server, err := d.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		_ = client.Close() // as if it had been refused, a moment late
		return
	}
	c := &conn{proxy: p, client: client.(*net.TCPConn), server: server.(*net.TCPConn), talk: p.protocol(), ended: make(chan struct{})}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		c.end(Cut) // Close may not have seen it
	}
	var both sync.WaitGroup
	both.Go(c.requests)
	both.Go(c.replies)
	both.Wait()
	c.end(Cut)
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// ask has the script decide, and counts what it decided.
func (p *Proxy) ask(e Event) Kind {
	k := (*p.script.Load())(e)
	if k != Pass {
		p.mu.Lock()
		p.done[k]++
		p.mu.Unlock()
	}
	return k
}
