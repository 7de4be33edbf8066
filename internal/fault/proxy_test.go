package fault_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/fault"
)

// counter is a server that speaks as much of RESP as one command needs: it
// answers each with how many have come.
type counter struct {
	net.Listener
	got     atomic.Int64
	running sync.WaitGroup
}

func startCounter(t *testing.T) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &counter{Listener: l}
	s.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					if line, err := in.ReadString('\n'); err != nil {
						return
					} else if !strings.HasPrefix(line, "INCR") {
						continue
					}
					if _, err := fmt.Fprintf(c, "$9\r\nnumber %02d\r\n", s.got.Add(1)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.running.Wait()
	})
	return s
}

// proxied starts a proxy, which has to end with the test.
func proxied(t *testing.T, target string, o *fault.Options) *fault.Proxy {
	t.Helper()
	p, err := fault.Listen(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

const (
	command = "*1\r\n$4\r\nINCR\r\n"
	reply1  = "$9\r\nnumber 01\r\n"
	reply2  = "$9\r\nnumber 02\r\n"
)

// ending is how a connection ends for its client.
func ending(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "open"
	}
	return fmt.Sprint(err)
}

// TestFaults: what a client sees, and a server has done, when the second of three
// pipelined commands or its reply is hit.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		at   fault.Point
		do   fault.Kind
		sees string // what the client reads
		end  string // and then
		done int64  // by the server
	}{
		{fault.Reply, fault.Pass, reply1 + reply2 + "$9\r\nnumber 03\r\n", "open", 3},
		{fault.Reply, fault.Slow, reply1 + reply2 + "$9\r\nnumber 03\r\n", "open", 3},
		{fault.Reply, fault.Trickle, reply1 + reply2 + "$9\r\nnumber 03\r\n", "open", 3},
		{fault.Reply, fault.Drop, reply1, "open", 3},
		{fault.Reply, fault.BlackHole, reply1, "open", -1},
		{fault.Reply, fault.Half, reply1 + reply2[:7], "EOF", -1},
		{fault.Reply, fault.HalfClose, reply1, "EOF", 3},
		{fault.Reply, fault.Cut, reply1, "EOF", -1},
		{fault.Reply, fault.Reset, reply1, "reset", -1},
		{fault.Request, fault.Drop, reply1, "open", 1},
		{fault.Request, fault.BlackHole, reply1, "open", 1},
		{fault.Request, fault.HalfClose, reply1, "EOF", 1}, // the server ends once its client did
		{fault.Request, fault.Cut, reply1, "EOF", 1},
		{fault.Request, fault.Reset, reply1, "reset", 1},
		{fault.Sent, fault.Drop, reply1 + reply2, "open", 2},
	} {
		t.Run(fmt.Sprintf("%v %s", c.at, c.do), func(t *testing.T) {
			s := startCounter(t)
			// The first exchange is over before the second begins, so that a fault
			// on the way out does not meet the first reply.
			script := fault.First(fault.Nth(2, fault.At(c.at, "INCR"), fault.Action{Kind: c.do, Wait: time.Millisecond}))
			p := proxied(t, s.Addr().String(), &fault.Options{Protocol: fault.Redis, Script: script})
			client, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			in := bufio.NewReader(client)
			read := func(n int) string {
				_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
				b := make([]byte, n)
				n, err := io.ReadFull(in, b)
				if err != nil {
					t.Errorf("read: %v", err)
				}
				return string(b[:n])
			}
			write := func(s string) {
				if _, err := io.WriteString(client, s); err != nil {
					t.Fatal(err)
				}
			}
			write(command)
			got := read(len(reply1))
			write(command + command)
			if more := len(c.sees) - len(got); more > 0 {
				got += read(more)
			}
			if got != c.sees {
				t.Errorf("the client reads %q, want %q", got, c.sees)
			}
			wait := 5 * time.Second
			if c.end == "open" {
				wait = 50 * time.Millisecond
			}
			_ = client.SetReadDeadline(time.Now().Add(wait))
			if n, err := in.Read(make([]byte, 1)); n != 0 || ending(err) != c.end {
				t.Errorf("then %d bytes and %s, want %s", n, ending(err), c.end)
			}
			for end := time.Now().Add(5 * time.Second); c.done > s.got.Load() && time.Now().Before(end); {
				time.Sleep(time.Millisecond) // on its way past a reply that was held up
			}
			if c.done >= 0 && s.got.Load() != c.done {
				t.Errorf("the server has done %d commands, want %d", s.got.Load(), c.done)
			}
			if want := min(1, len(c.do)); p.Faults()[c.do] != want {
				t.Errorf("faults are counted as %v", p.Faults())
			}
		})
	}
}

// TestTrickle: a byte at a time.
func TestTrickle(t *testing.T) {
	const each = 4 * time.Millisecond
	s := startCounter(t)
	p := proxied(t, s.Addr().String(), &fault.Options{Protocol: fault.Redis,
		Script: fault.Nth(1, fault.At(fault.Reply), fault.Action{Kind: fault.Trickle, Wait: each})})
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	began := time.Now()
	if _, err := io.WriteString(client, command); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, len(reply1))); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Duration(len(reply1))*each {
		t.Errorf("%d bytes took %v at a byte every %v", len(reply1), took, each)
	}
}

// TestResetAll: every open connection, and none after it.
func TestResetAll(t *testing.T) {
	s := startCounter(t)
	p := proxied(t, s.Addr().String(), &fault.Options{Protocol: fault.Redis})
	for range 2 {
		client, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, command); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, make([]byte, len(reply1))); err != nil {
			t.Fatal(err)
		}
		p.ResetAll()
		if _, err := client.Read(make([]byte, 1)); ending(err) != "reset" {
			t.Errorf("%s, want reset", ending(err))
		}
		client.Close()
	}
}

// TestSometimes: which events are hit follows from the seed.
func TestSometimes(t *testing.T) {
	play := func(seed uint64) (said string) {
		s := fault.Sometimes(seed, 4, fault.At(fault.Reply), fault.Action{Kind: fault.Cut}, fault.Action{Kind: fault.Half})
		for n := range 200 {
			if a := s(fault.Event{Point: fault.Request, N: n}); a.Kind != fault.Pass {
				t.Errorf("an event that does not match is answered %v", a)
			}
			said += string(s(fault.Event{Point: fault.Reply, N: n}).Kind) + ","
		}
		return said
	}
	one := play(1)
	if play(1) != one || play(2) == one {
		t.Error("not what the seed says")
	}
	cuts, halves := strings.Count(one, string(fault.Cut)), strings.Count(one, string(fault.Half))
	if cuts+halves < 25 || cuts+halves > 80 || cuts == 0 || halves == 0 {
		t.Errorf("%d cuts and %d halves of 200 events, at one in 4", cuts, halves)
	}
}
