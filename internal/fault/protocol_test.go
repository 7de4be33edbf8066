package fault_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tierd/tierd/internal/fault"
)

// packet is a message of PostgreSQL's protocol.
func packet(kind string, body ...string) string {
	all := strings.Join(body, "")
	return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(all)+4))) + all
}

const startup = "\x00\x03\x00\x00user\x00tierd\x00\x00"

// streams are what a client says and a server answers, cut into messages by hand.
var streams = []struct {
	name             string
	protocol         fault.Protocol
	requests         []string
	texts            []string // of those requests that are answered
	replies          []string
	partial, unasked string // of the replies: a digit for each that is
}{
	{
		"postgres", fault.Postgres,
		[]string{
			packet("", "\x04\xd2\x16\x2f"), packet("", startup), packet("p", "secret\x00"),
			packet("P", "s1\x00INSERT INTO batch\x00\x00\x00") + packet("D", "Ss1\x00") + packet("S"),
			packet("B", "\x00s1\x00\x00\x00\x00\x00\x00\x00") + packet("E", "\x00\x00\x00\x00\x00") + packet("S"),
			packet("Q", "commit\x00"), packet("X"),
		},
		[]string{"startup", "INSERT INTO batch", "INSERT INTO batch", "commit"},
		[]string{
			"N", packet("R", "\x00\x00\x00\x03"), packet("R", "\x00\x00\x00\x00"), packet("S", "k\x00v\x00") + packet("Z", "I"),
			packet("1") + packet("t", "\x00\x00") + packet("n") + packet("Z", "I"), packet("A", "news"),
			packet("2") + packet("C", "INSERT 0 1\x00") + packet("Z", "I"), packet("C", "COMMIT\x00") + packet("Z", "I"),
		},
		"125", "0",
	},
	{
		"http", fault.HTTP,
		[]string{
			"HEAD /b/a?x=1 HTTP/1.1\r\nHost: h\r\n\r\n", "PUT /b/a HTTP/1.1\r\nContent-Length: 4\r\n\r\n", "body",
			"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "3;sig=1\r\nabc\r\n0\r\nX: y\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET /z HTTP/1.1\r\n\r\n",
		},
		[]string{"HEAD /b/a?x=1", "PUT /b/a", "POST /b", "GET /", "GET /z"},
		[]string{
			"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\n\r\nto the end",
		},
		"", "1",
	},
	{
		"redis", fault.Redis,
		[]string{
			"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "*1\r\n$4\r\nPING\r\n",
			"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\na\r\nb\r\n\r\n", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "*1\r\n$4\r\nINFO\r\n",
		},
		[]string{"HELLO 3", "PING", "SET k", "GET ", "INFO"},
		[]string{
			"%2\r\n+server\r\n$5\r\nredis\r\n+proto\r\n:3\r\n", "+PONG\r\n", ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
			"|1\r\n+ttl\r\n:3\r\n*3\r\n$-1\r\n*0\r\n$4\r\n\r\n\r\n\r\n", "_\r\n", "-ERR no\r\n",
		},
		"", "2",
	},
}

// TestMessages: streams are cut where their messages end, however the bytes
// arrive.
func TestMessages(t *testing.T) {
	for _, s := range streams {
		for how, split := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "in halves": iotest.HalfReader,
		} {
			t.Run(s.name+" "+how, func(t *testing.T) {
				talk := s.protocol()
				in := bufio.NewReader(split(strings.NewReader(strings.Join(s.requests, ""))))
				var texts []string
				for i, want := range s.requests {
					m, err := talk.Request(in)
					if err != nil || string(m.Data) != want {
						t.Fatalf("request %d is %q, %v, want %q", i, m.Data, err, want)
					}
					if m.Text != "" && !m.Unasked {
						texts = append(texts, m.Text)
					}
				}
				if got, want := strings.Join(texts, "|"), strings.Join(s.texts, "|"); got != want {
					t.Errorf("texts %s, want %s", got, want)
				}
				in = bufio.NewReader(split(strings.NewReader(strings.Join(s.replies, ""))))
				for i, want := range s.replies {
					m, err := talk.Reply(in, func() string { return texts[0] })
					if err != nil || string(m.Data) != want {
						t.Fatalf("reply %d is %q, %v, want %q", i, m.Data, err, want)
					}
					digit := string(rune('0' + i))
					if m.Partial != strings.Contains(s.partial, digit) || m.Unasked != strings.Contains(s.unasked, digit) {
						t.Errorf("reply %d: partial %t, unasked %t", i, m.Partial, m.Unasked)
					}
					if s.name == "http" && !m.Unasked {
						texts = texts[1:]
					}
				}
			})
		}
	}
}

// FuzzMessages: no stream makes a conversation panic or invent bytes.
func FuzzMessages(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(strings.Join(s.requests, "")))
		f.Add([]byte(strings.Join(s.replies, "")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range []fault.Protocol{fault.Postgres, fault.HTTP, fault.Redis} {
			for _, read := range []func(fault.Conversation, *bufio.Reader) (fault.Message, error){
				fault.Conversation.Request,
				func(c fault.Conversation, in *bufio.Reader) (fault.Message, error) {
					return c.Reply(in, func() string { return "" })
				},
			} {
				talk, in, rest := p(), bufio.NewReader(bytes.NewReader(data)), data
				for {
					m, err := read(talk, in)
					if !bytes.HasPrefix(rest, m.Data) {
						t.Fatalf("%q is not how %q begins", m.Data, rest)
					}
					if rest = rest[len(m.Data):]; err != nil || len(m.Data) == 0 {
						break
					}
				}
			}
		}
	})
}

// TestCommitReply: the server has a commit whose reply the client never sees, and
// nothing else is touched.
func TestCommitReply(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var running sync.WaitGroup
	defer running.Wait()
	got := make(chan string, 4)
	running.Go(func() { // a server of one connection
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		talk, in := fault.Postgres(), bufio.NewReader(c)
		for {
			m, err := talk.Request(in)
			if err != nil {
				close(got)
				return
			}
			got <- m.Text
			_, _ = io.WriteString(c, packet("C", "DONE\x00")+packet("Z", "I"))
		}
	})
	p := proxied(t, l.Addr().String(), fault.Postgres)
	p.Play(always(fault.At(fault.Reply, "commit"), fault.Reset))
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := packet("C", "DONE\x00") + packet("Z", "I")
	for _, said := range []string{packet("", startup), packet("Q", "begin\x00")} {
		if _, err := io.WriteString(c, said); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len(done))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(c, packet("Q", "commit\x00")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || ending(err) != "reset" {
		t.Errorf("%d bytes of the reply, then %s", n, ending(err))
	}
	var texts []string
	for text := range got {
		texts = append(texts, text)
	}
	if s := strings.Join(texts, ","); s != "startup,begin,commit" {
		t.Errorf("the server got %s", s)
	}
}

// TestHTTPFaults: a real client and server of HTTP with the proxy between them.
func TestHTTPFaults(t *testing.T) {
	body := strings.Repeat("x", 64<<10)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, body)
		}
	}))
	defer origin.Close()
	p := proxied(t, origin.Listener.Addr().String(), fault.HTTP)
	transport := &http.Transport{ExpectContinueTimeout: 5 * time.Second, DisableCompression: true}
	defer transport.CloseIdleConnections()
	do := func(method, path string) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", "100-continue")
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return len(b), err
	}
	began := time.Now()
	for _, method := range []string{http.MethodPut, http.MethodHead, http.MethodGet} {
		if n, err := do(method, "/b/o"); err != nil || method != http.MethodHead && n != len(body) {
			t.Errorf("%s without a fault: %d bytes, %v", method, n, err)
		}
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("three calls took %v: a client waited in vain for 100 Continue", took)
	}
	p.Play(always(fault.At(fault.Reply, "GET /b/cut"), fault.Half))
	if n, err := do(http.MethodGet, "/b/cut"); !errors.Is(err, io.ErrUnexpectedEOF) || n == 0 || n >= len(body) {
		t.Errorf("a truncated body: %d bytes, %v", n, err)
	}
	p.Play(always(fault.At(fault.Reply, "PUT "), fault.Reset))
	if _, err := do(http.MethodPut, "/b/o"); err == nil {
		t.Error("a put whose reply was reset succeeded")
	}
	if n, err := do(http.MethodGet, "/b/o"); err != nil || n != len(body) {
		t.Errorf("after it: %d bytes, %v", n, err)
	}
}
