package fault_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/fault"
)

// counter is a server that answers each request with how many have come.
type counter struct {
	*httptest.Server
	got atomic.Int64
}

func startCounter(t *testing.T) *counter {
	t.Helper()
	s := &counter{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		_, _ = fmt.Fprintf(w, "number %02d", s.got.Add(1)) // the client may have been cut off
	}))
	t.Cleanup(s.Close)
	return s
}

// proxied starts a proxy, which has to end with the test.
func proxied(t *testing.T, target string, speaks fault.Protocol) *fault.Proxy {
	t.Helper()
	p, err := fault.Listen(target, speaks)
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

// always does k to whatever matches.
func always(m fault.Match, k fault.Kind) fault.Script { return fault.Sometimes(1, 1, m, k) }

const reply = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nnumber 0"

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

// TestFaults: what a client sees when the second of its requests, or the reply to
// it, is hit. A reply that is hit was made: the server has done what was asked.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		at   fault.Point
		do   fault.Kind
		sees string // what the client reads of the second reply
		end  string // and then
	}{
		{fault.Reply, fault.Pass, reply + "2", "open"},
		{fault.Reply, fault.Half, reply[:len(reply+"2")/2], "EOF"},
		{fault.Reply, fault.Cut, "", "EOF"},
		{fault.Reply, fault.Reset, "", "reset"},
		{fault.Sent, fault.Cut, "", "EOF"},
		{fault.Sent, fault.Reset, "", "reset"},
		{fault.Reply, fault.HalfClose, "", "EOF"},
		{fault.Sent, fault.HalfClose, reply + "2", "EOF"},
		{fault.Reply, fault.Hole, "", "open"},
		{fault.Sent, fault.Hole, "", "open"},
		{fault.Reply, fault.Drip, reply[:1], "open"},
		{fault.Reply, fault.Slow, reply + "2", "open"},
		{fault.Sent, fault.Slow, reply + "2", "open"},
	} {
		t.Run(fmt.Sprintf("%v %s", c.at, c.do), func(t *testing.T) {
			s := startCounter(t)
			p := proxied(t, s.Listener.Addr().String(), fault.HTTP)
			p.Play(always(fault.At(c.at, "GET /second"), c.do))
			client, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ask := func(path, want string) {
				if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				_ = client.SetReadDeadline(time.Now().Add(10 * time.Second))
				got := make([]byte, len(want))
				if n, err := io.ReadFull(client, got); err != nil || string(got) != want {
					t.Errorf("of the reply to %s the client reads %q, %v, want %q", path, got[:n], err, want)
				}
			}
			ask("/first", reply+"1")
			ask("/second", c.sees)
			wait := 10 * time.Second
			if c.end == "open" {
				wait = 50 * time.Millisecond
			}
			_ = client.SetReadDeadline(time.Now().Add(wait))
			if n, err := client.Read(make([]byte, 1)); n != 0 || ending(err) != c.end {
				t.Errorf("then %d bytes and %s, want %s", n, ending(err), c.end)
			}
			if c.at == fault.Reply && s.got.Load() != 2 {
				t.Errorf("the server has done %d requests, want 2", s.got.Load())
			}
			if want := min(1, len(c.do)); p.Faults()[c.do] != want {
				t.Errorf("faults are counted as %v", p.Faults())
			}
		})
	}
}

// TestHalfClosed: behind a reply that did not come the server still gets what the client
// says.
func TestHalfClosed(t *testing.T) {
	s := startCounter(t)
	p := proxied(t, s.Listener.Addr().String(), fault.HTTP)
	p.Play(fault.Nth(2, fault.At(fault.Reply), fault.HalfClose))
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 3 {
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != reply+"1" {
		t.Errorf("%q, %v: want the first reply alone", got, err)
	}
	for end := time.Now().Add(10 * time.Second); s.got.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server has done %d requests, want 3", s.got.Load())
		}
	}
}

// TestSlowness: what is slow comes later, and what drips a byte at a time.
func TestSlowness(t *testing.T) {
	for k, least := range map[fault.Kind]time.Duration{fault.Slow: 500 * time.Millisecond, fault.Drip: time.Second} {
		s := startCounter(t)
		p := proxied(t, s.Listener.Addr().String(), fault.HTTP)
		p.Play(always(fault.At(fault.Reply), k))
		client, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		began := time.Now()
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, make([]byte, 2)); err != nil || time.Since(began) < least {
			t.Errorf("%s: two bytes after %v, %v: want %v at least", k, time.Since(began), err, least)
		}
	}
}

// TestSometimes: which events are hit follows from the seed.
func TestSometimes(t *testing.T) {
	play := func(seed uint64) (said string) {
		s := fault.Sometimes(seed, 4, fault.At(fault.Reply), fault.Cut, fault.Half)
		for range 200 {
			if k := s(fault.Event{Point: fault.Sent}); k != fault.Pass {
				t.Errorf("an event that does not match is answered %v", k)
			}
			said += string(s(fault.Event{Point: fault.Reply})) + ","
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
