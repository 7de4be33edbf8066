package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// listen serves s on loopback until the test ends, and returns its address and
// a function that begins the shutdown and returns its outcome.
func listen(t testing.TB, s *Server) (addr string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln, nil) }()
	var result error
	finished := false
	stop = func() error {
		cancel()
		if !finished {
			finished, result = true, <-done
		}
		return result
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().String(), stop
}

// sendRaw sends bytes as they are, which no client library would, and returns the
// answer.
func sendRaw(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res, string(b)
}

// A path that the mux would redirect must be refused: clients resend a
// redirected write, and it would land on another key.
func TestNoPathIsEverRedirected(t *testing.T) {
	f := newFake()
	addr, _ := listen(t, newTest(t, f, nil))
	for _, path := range []string{
		"/v1/state/runs/a/../b", "/v1/state/runs/..", "/v1/state/runs/./b", "/v1/state/runs//b", "/v1/state/runs/b/", "//v1/state/runs/b",
		"/v1/state/runs/%2e%2e/b", "/v1/state/runs/%2E/b", "/v1/state/runs/a%2F%2e%2e%2Fb", "/v1/state/runs/a%2F%2Fb", "/v1/state/runs/a%2F", "/v1/state/runs/.%2e",
		"/v1/state/../state/runs/b", "/%2e%2e/v1/state/runs/b", "http://host/v1/state/runs//b",
	} {
		res, body := sendRaw(t, addr, "PUT "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
		if res.StatusCode != 400 || res.Header.Get("Content-Type") != problemType {
			t.Errorf("PUT %s: %d %s, want a problem of 400", path, res.StatusCode, body)
		}
	}
	if len(f.docs) != 0 {
		t.Errorf("something was written: %v", f.docs)
	}
}

func TestOddRequestsAreProblems(t *testing.T) {
	addr, _ := listen(t, newTest(t, newFake(), nil))
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 405},
		{"CONNECT with a path", "CONNECT /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 405},
		{"an unknown method", "BREW /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 405},
		{"an unknown method nowhere", "BREW /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 404},
		{"no path", "GET http://h HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := sendRaw(t, addr, c.request)
			if res.StatusCode != c.status || res.Header.Get("Content-Type") != problemType {
				t.Errorf("%d %s %s", res.StatusCode, res.Header.Get("Content-Type"), body)
			}
			if c.status == 405 && res.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

// The stored bytes, and nothing else, come back: no newline, no escaping.
func TestBytesTravelUnchanged(t *testing.T) {
	addr, _ := listen(t, newTest(t, newFake(), nil))
	for _, doc := range []string{`{"z":1,"a":1.10,"e":1e2,"n":9007199254740993}`, `"<>&\u0000\ud83d\ude00 "`, `null`, `[]`, `-0`, `"` + strings.Repeat("x", 300<<10) + `"`} {
		req, _ := http.NewRequest("PUT", "http://"+addr+"/v1/state/runs/a", strings.NewReader(doc))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		res, err = http.Get("http://" + addr + "/v1/state/runs/a")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(b) != doc {
			t.Errorf("put %.60q, got %.60q", doc, b)
		}
	}
}

func TestBodiesOverTheLimitAre413(t *testing.T) {
	f := newFake()
	addr, _ := listen(t, newTest(t, f, func(o *Options) { o.MaxBody = 100 }))
	big := strings.Repeat(" ", 100) + "1"
	for _, c := range []struct{ name, request string }{
		// No byte of the body is sent: the answer must come on the header alone.
		{"declared", "PUT /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n"},
		{"chunked", fmt.Sprintf("PUT /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(big), big)},
		{"a typed body", "POST /v1/batch HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := sendRaw(t, addr, c.request)
			if res.StatusCode != 413 || !strings.Contains(body, `"code":"too_large"`) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
	res, _ := sendRaw(t, addr, "PUT /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nConnection: close\r\n\r\n"+big[1:])
	if res.StatusCode != 201 {
		t.Errorf("a body at the limit: %d", res.StatusCode)
	}
}

func TestOptionsOfTheWholeServerIsAProblemToo(t *testing.T) {
	addr, _ := listen(t, newTest(t, newFake(), nil))
	res, body := sendRaw(t, addr, "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if res.StatusCode != 400 || res.Header.Get("Content-Type") != problemType {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestSlowClientsAreCut(t *testing.T) {
	s := newTest(t, newFake(), func(o *Options) {
		o.HeaderTimeout, o.ReadTimeout, o.WriteTimeout = 150*time.Millisecond, 300*time.Millisecond, time.Second
		o.MaxHeaderBytes = 8 << 10
	})
	addr, _ := listen(t, s)
	t.Run("headers that trickle", func(t *testing.T) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: h\r\n")
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		start := time.Now()
		b, _ := io.ReadAll(c)
		if took := time.Since(start); took > 20*time.Second || bytes.Contains(b, []byte("200 OK")) {
			t.Errorf("cut after %s with %q", took, b)
		}
	})
	t.Run("a body that trickles is told so", func(t *testing.T) {
		res, body := sendRaw(t, addr, "PUT /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{")
		if res.StatusCode != 408 || !strings.Contains(body, `"code":"unavailable"`) {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	})
	t.Run("headers without end", func(t *testing.T) {
		res, _ := sendRaw(t, addr, "GET /healthz HTTP/1.1\r\nHost: h\r\nX-Long: "+strings.Repeat("x", 20<<10)+"\r\n\r\n")
		if res.StatusCode != 431 {
			t.Errorf("%d, want 431", res.StatusCode)
		}
	})
	t.Run("a body that ends early", func(t *testing.T) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "PUT /v1/state/runs/a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{")
		c.(*net.TCPConn).CloseWrite()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != 400 {
			t.Errorf("%v %v, want 400", res, err)
		}
	})
}

// large is a service whose documents are more than a connection takes in.
type large struct{ *fake }

func (large) Get(context.Context, string, string, *tiering.GetOptions) (*tiering.Document, error) {
	return &tiering.Document{Body: bytes.Repeat([]byte(" "), 64<<20)}, nil
}

// A client of HTTP/2 that reads nothing any more, and lives, is left as one of
// HTTP/1.1 is: its connection holds no memory for ever.
func TestAClientThatDoesNotReadIsLeft(t *testing.T) {
	s := newTest(t, nil, func(o *Options) {
		o.HeaderTimeout, o.ReadTimeout, o.WriteTimeout = 150*time.Millisecond, 300*time.Millisecond, time.Second
		o.As = func(tiering.Principal) tiering.Service { return large{newFake()} }
	})
	addr, _ := listen(t, s)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	frame := func(kind, flags byte, stream uint32, payload string) string {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
		return string(binary.BigEndian.AppendUint32(append(head, kind, flags), stream)) + payload
	}
	const settings, headers, ping, windowUpdate = 4, 1, 6, 8 // RFC 9113, section 6
	path := "/v1/state/runs/a"
	_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
		frame(settings, 0, 0, "\x00\x04\x7f\xff\xff\xff")+ // windows never close: only TCP does
		frame(windowUpdate, 0, 0, "\x7f\xff\x00\x00")+
		// :method GET, :scheme http, :path and :authority (RFC 7541, appendix A)
		frame(headers, 5, 1, "\x82\x86\x04"+string(rune(len(path)))+path+"\x01"+string(rune(len(addr)))+addr))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := io.WriteString(c, frame(ping, 0, 0, "8 bytes.")); err != nil {
			return // the server has gone
		}
	}
	t.Error("the connection is kept")
}

// stuck is a service whose Get waits.
type stuck struct {
	*fake
	entered, leave chan struct{}
}

func (s stuck) Get(ctx context.Context, ns, id string, o *tiering.GetOptions) (*tiering.Document, error) {
	close(s.entered)
	select {
	case <-s.leave:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.fake.Get(ctx, ns, id, &tiering.GetOptions{Default: []byte("1")})
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	svc := stuck{newFake(), make(chan struct{}), make(chan struct{})}
	s := newTest(t, nil, func(o *Options) { o.As = func(tiering.Principal) tiering.Service { return svc } })
	addr, stop := listen(t, s)
	got := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + addr + "/v1/state/runs/a")
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		got <- fmt.Sprint(res.StatusCode, " ", string(b))
	}()
	<-svc.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-s.stopping // the shutdown has begun with the request in flight
	close(svc.leave)
	if g := <-got; g != "200 1" {
		t.Errorf("the request in flight got %s", g)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		t.Error("the listener is still open")
	}
}

func TestCheckBind(t *testing.T) {
	for _, c := range []struct {
		listen              string
		keys, tls, insecure bool
		ok                  bool
	}{
		{listen: "127.0.0.1:8437", ok: true},
		{listen: "[::1]:8437", ok: true},
		{listen: "localhost:8437", ok: true},
		{listen: "127.5.5.5:0", ok: true},
		{listen: ":8437"},
		{listen: "0.0.0.0:8437"},
		{listen: "[::]:8437"},
		{listen: "192.168.1.2:8437"},
		{listen: "localhost.example.com:8437"},
		{listen: "0.0.0.0:8437", keys: true},
		{listen: "0.0.0.0:8437", tls: true},
		{listen: "0.0.0.0:8437", keys: true, tls: true, ok: true},
		{listen: "0.0.0.0:8437", insecure: true, ok: true},
		{listen: "127.0.0.1", insecure: true},
	} {
		if err := CheckBind(c.listen, c.keys, c.tls, c.insecure); (err == nil) != c.ok {
			t.Errorf("CheckBind(%+v) = %v", c, err)
		}
	}
}

func drain(res *http.Response) {
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

func TestHTTP2(t *testing.T) {
	s := newTest(t, newFake(), nil)
	t.Run("in clear", func(t *testing.T) {
		addr, _ := listen(t, s)
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		res, err := (&http.Client{Transport: &http.Transport{Protocols: &protocols}}).Get("http://" + addr + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		drain(res)
		if res.ProtoMajor != 2 || res.StatusCode != 200 {
			t.Errorf("%s %d", res.Proto, res.StatusCode)
		}
	})
	t.Run("with TLS", func(t *testing.T) {
		// httptest makes a certificate and a client that trusts it.
		donor := httptest.NewTLSServer(http.NotFoundHandler())
		defer donor.Close()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- newTest(t, newFake(), nil).Serve(ctx, ln, &tls.Config{Certificates: donor.TLS.Certificates})
		}()
		transport := donor.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = true
		res, err := (&http.Client{Transport: transport}).Get("https://" + ln.Addr().String() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		drain(res)
		if res.ProtoMajor != 2 || res.StatusCode != 200 {
			t.Errorf("%s %d", res.Proto, res.StatusCode)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}
