package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/server"
	"github.com/tierd/tierd/tiering"
)

// wireSlice is how long a contestant works before it is another one's turn.
const wireSlice = 250 * time.Millisecond

// BenchmarkWireGet reads a document of 1 KB that hot holds over loopback, from an
// embedded node as the daemon serves it and from a bare net/http handler that
// returns the same bytes. The two take turns; an iteration is one turn of each.
//
//	go test -run '^$' -bench Wire -benchtime 20x ./server
//
// of-bare is the median of the ratios of neighbouring turns, by requests a second, and
// of-bare-cpu by processor time of clients and servers together. At least 0.5 is wanted.
func BenchmarkWireGet(b *testing.B) {
	for _, keys := range []bool{false, true} {
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("keys=%t/clients=%d", keys, clients), func(b *testing.B) {
				n := openWire(b, keys)
				doc := wireDocument(b, n.node)
				bare := serveBare(b, doc)
				request := n.request("GET", "/v1/state/runs/run/7", nil)
				race(b, clients,
					contestant{"api", over(n.addr, func(int) []byte { return request }, len(doc))},
					contestant{"bare", over(bare, func(int) []byte { return request }, len(doc))})
			})
		}
	}
}

// BenchmarkWirePut writes documents of 1 KB over loopback and by the router's own
// method, to one embedded node, in turns. of-router is as of-bare of BenchmarkWireGet;
// at least 0.7 is wanted. The third contestant is a bare net/http handler that does
// nothing but read the body, call the router and answer: of-bare is what the API leaves
// of what net/http and its clients, which share the processors, leave of the router.
func BenchmarkWirePut(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			n := openWire(b, false)
			doc := wireDocument(b, n.node)
			requests := make([][]byte, clients)
			for i := range requests {
				requests[i] = n.request("PUT", fmt.Sprint("/v1/state/runs/run/", i), doc)
			}
			bare := serveBarePut(b, n.node)
			race(b, clients,
				contestant{"api", over(n.addr, func(client int) []byte { return requests[client] }, 0)},
				contestant{"bare", over(bare, func(client int) []byte { return requests[client] }, 0)},
				contestant{"router", func(client int) (func() error, func(), error) {
					id := fmt.Sprint("run/", client)
					return func() error {
						_, err := n.node.Put(context.Background(), "runs", id, doc, nil)
						return err
					}, func() {}, nil
				}})
		})
	}
}

// wireNode is an embedded node behind the API, served as the daemon does.
type wireNode struct {
	node *tierd.Node
	addr string
	key  string // the secret of an API key, "" where there are none
}

func openWire(b *testing.B, keys bool) wireNode {
	b.Helper()
	node, err := tierd.Open(b.Context(), tierd.Config{Data: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := node.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	n := wireNode{node: node}
	o := server.Options{As: func(p tiering.Principal) tiering.Service { return node.As(p) }, Ready: node.Ready,
		Metrics: node.Metrics(), Recorder: node.Telemetry().Server(), LocalHosts: !keys}
	if keys {
		o.Authenticate = node.Authenticate
		made, err := node.CreateKey(b.Context(), tiering.APIKey{Name: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		n.key = made.Secret
	}
	s, err := server.New(o)
	if err != nil {
		b.Fatal(err)
	}
	n.addr = serve(b, func(ctx context.Context, ln net.Listener) error { return s.Serve(ctx, ln, nil) })
	return n
}

// serve runs a server on loopback until the benchmark ends.
func serve(b *testing.B, run func(context.Context, net.Listener) error) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, ln) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return ln.Addr().String()
}

// serveBarePut puts what it is sent under its path by the router, and says so.
func serveBarePut(b *testing.B, node *tierd.Node) string {
	return serveHandler(b, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = node.Put(r.Context(), "runs", strings.TrimPrefix(r.URL.Path, "/v1/state/runs/"), body, nil)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Length", "2")
		_, _ = w.Write([]byte("{}"))
	})
}

// serveBare serves doc by a handler that knows nothing else.
func serveBare(b *testing.B, doc []byte) string {
	return serveHandler(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(doc)))
		_, _ = w.Write(doc)
	})
}

func serveHandler(b *testing.B, h http.HandlerFunc) string {
	srv := &http.Server{Handler: h}
	return serve(b, func(ctx context.Context, ln net.Listener) error {
		context.AfterFunc(ctx, func() { _ = srv.Close() })
		if err := srv.Serve(ln); err != http.ErrServerClosed {
			return err
		}
		return nil
	})
}

// wireDocument stores a document of 1 KB, and returns it.
func wireDocument(b *testing.B, node *tierd.Node) []byte {
	b.Helper()
	doc := []byte(`{"text":"` + strings.Repeat("x", 1024-11) + `"}`)
	if _, err := node.Put(b.Context(), "runs", "run/7", doc, nil); err != nil {
		b.Fatal(err)
	}
	return doc
}

// request writes a request as it goes over the wire.
func (n wireNode) request(method, path string, body []byte) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\n", method, path, n.addr)
	if n.key != "" {
		fmt.Fprintf(&out, "Authorization: Bearer %s\r\n", n.key)
	}
	if body != nil {
		fmt.Fprintf(&out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}

// contestant is one way of doing the same thing. open makes what one client does
// again and again, and what ends it.
type contestant struct {
	name string
	open func(client int) (do func() error, end func(), err error)
}

// over is a client with one kept connection that does nothing but write a request and
// read the answer, so that what is measured is the server. size is the answer's body
// in bytes; 0: any.
func over(addr string, request func(client int) []byte, size int) func(client int) (func() error, func(), error) {
	return func(client int) (func() error, func(), error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		sent, answers := request(client), bufio.NewReader(conn)
		do := func() error {
			if _, err := conn.Write(sent); err != nil {
				return err
			}
			return readAnswer(answers, size)
		}
		return do, func() { _ = conn.Close() }, nil
	}
}

// readAnswer reads a success over HTTP/1.1 with a Content-Length.
func readAnswer(r *bufio.Reader, size int) error {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 20")):
			return fmt.Errorf("answered %s", line)
		case len(line) <= 2:
			if length < 0 || size > 0 && length != size {
				return fmt.Errorf("a body of %d bytes, want %d", length, size)
			}
			_, err := r.Discard(length)
			return err
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
				return err
			}
		}
	}
}

// turn is what a contestant did while it was its turn.
type turn struct{ rate, micros float64 } // requests a second; processor time of each

// race lets contestants take turns, and reports the first over each of the others.
func race(b *testing.B, clients int, all ...contestant) {
	ratios, thrift := make([][]float64, len(all)), make([][]float64, len(all))
	var rates, micros []float64
	did := make([]turn, len(all))
	for i := 0; b.Loop(); i++ {
		for k := range all {
			which := (k + i) % len(all)
			did[which] = slice(b, clients, all[which])
		}
		for k := 1; k < len(all); k++ {
			ratios[k] = append(ratios[k], did[0].rate/did[k].rate)
			thrift[k] = append(thrift[k], did[k].micros/did[0].micros)
		}
		rates, micros = append(rates, did[0].rate), append(micros, did[0].micros)
	}
	for k := 1; k < len(all); k++ {
		b.ReportMetric(middle(ratios[k]), "of-"+all[k].name)
		b.ReportMetric(middle(thrift[k]), "of-"+all[k].name+"-cpu")
	}
	b.ReportMetric(middle(rates), "ops/s")
	b.ReportMetric(middle(micros), "cpu-us")
	b.ReportMetric(0, "ns/op")
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// slice lets a number of clients do what c does, for about wireSlice.
func slice(b *testing.B, clients int, c contestant) turn {
	b.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	var did []func() error
	for i := range clients {
		do, end, err := c.open(i)
		if err != nil {
			b.Fatal(err)
		}
		defer end()
		did = append(did, do)
		if err := do(); err != nil { // a connection is accepted, and warm
			b.Fatalf("%s: %v", c.name, err)
		}
	}
	spent, began := processorTime(b), time.Now()
	for _, do := range did {
		all.Go(func() {
			n := 0
			for time.Since(began) < wireSlice {
				if err := do(); err != nil {
					b.Errorf("%s: %v", c.name, err)
					return
				}
				n++
			}
			done.Add(int64(n))
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	n := float64(max(1, done.Load()))
	return turn{rate: n / took, micros: (processorTime(b) - spent) / n}
}

// processorTime is what this process has used of the processors, in microseconds:
// clients and servers both.
func processorTime(b *testing.B) float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e3
}
