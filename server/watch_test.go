package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// follower reads a watch stream block by block.
type follower struct {
	t   *testing.T
	res *http.Response
	in  *bufio.Reader
}

func follow(t *testing.T, addr, query, lastID string) *follower {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/v1/watch?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return &follower{t: t, res: res, in: bufio.NewReader(res.Body)}
}

// block returns the next block of lines, "" at the end of the stream.
func (f *follower) block() string {
	f.t.Helper()
	var b strings.Builder
	for {
		line, err := f.in.ReadString('\n')
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

func put(t *testing.T, f *fake, id string) {
	t.Helper()
	if _, err := f.Put(context.Background(), "runs", id, []byte(`{"n":1.10,"s":"<"}`), &tiering.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestWatchStreamsAndResumes(t *testing.T) {
	f := newFake()
	addr, _ := listen(t, newTest(t, f, nil))
	put(t, f, "a")
	w := follow(t, addr, "from=start&include=data&namespace=runs", "")
	if got := w.res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	if got := w.block(); got != ": watching\n" {
		t.Fatalf("first block %q", got)
	}
	want := "id: e.0.0\nevent: state.put\n" +
		`data: {"type":"state.put","namespace":"runs","id":"a","version":1,"prev_version":0,"time":"2026-01-31T12:00:00.0000005Z","data":{"n":1.10,"s":"<"}}` + "\n"
	if got := w.block(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	put(t, f, "b") // while the stream waits
	if got := w.block(); !strings.HasPrefix(got, "id: e.1.0\n") {
		t.Errorf("second event %q", got)
	}
	w.res.Body.Close()
	put(t, f, "c")

	// A browser comes back with the URL of its first request.
	again := follow(t, addr, "from=start", "e.1.0")
	again.block()
	if got := again.block(); !strings.HasPrefix(got, "id: e.2.0\n") || strings.Contains(got, "1.10") {
		t.Errorf("after the resume %q, want e.2.0 without its body", got)
	}
	if after := follow(t, addr, "after=e.0.0", ""); after.block() != ": watching\n" || !strings.HasPrefix(after.block(), "id: e.1.0\n") {
		t.Error("?after= does not resume")
	}
}

func TestWatchTooOldIs410(t *testing.T) {
	addr, _ := listen(t, newTest(t, newFake(), nil))
	w := follow(t, addr, "", "old")
	b, _ := io.ReadAll(w.res.Body)
	if w.res.StatusCode != 410 || !strings.Contains(string(b), `"code":"gone"`) {
		t.Errorf("%d %s", w.res.StatusCode, b)
	}
}

func TestWatchEndsWithAProblem(t *testing.T) {
	f := newFake()
	addr, _ := listen(t, newTest(t, f, nil))
	w := follow(t, addr, "", "")
	w.block()
	f.mu.Lock()
	f.fail = &tiering.Error{Code: tiering.CodeGone, Detail: "fell behind", Err: fmt.Errorf("secret cause")}
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	got := w.block()
	if !strings.HasPrefix(got, "event: problem\ndata: {") || !strings.Contains(got, `"code":"gone"`) || strings.Contains(got, "secret") {
		t.Errorf("last event %q", got)
	}
	if rest := w.block(); rest != "" {
		t.Errorf("the stream goes on: %q", rest)
	}
}

func TestAQuietStreamBeats(t *testing.T) {
	// The read timeout passes many times over: it limits requests, not answers.
	addr, _ := listen(t, newTest(t, newFake(), func(o *Options) {
		o.Heartbeat, o.ReadTimeout, o.WriteTimeout = 20*time.Millisecond, 50*time.Millisecond, 80*time.Millisecond
	}))
	w := follow(t, addr, "", "")
	w.block()
	for i := range 12 {
		if got := w.block(); got != ": \n" {
			t.Fatalf("beat %d: %q", i, got)
		}
	}
}

func TestHeadOfAWatchReturnsAtOnce(t *testing.T) {
	addr, _ := listen(t, newTest(t, newFake(), nil))
	res, err := (&http.Client{Timeout: 5 * time.Second}).Head("http://" + addr + "/v1/watch")
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %v", res, err)
	}
}

func TestWatchersAreCounted(t *testing.T) {
	s := newTest(t, newFake(), func(o *Options) { o.MaxWatchers = 1 })
	addr, _ := listen(t, s)
	first := follow(t, addr, "", "")
	first.block()
	second := follow(t, addr, "", "")
	if second.res.StatusCode != 429 || second.res.Header.Get("Retry-After") == "" {
		t.Errorf("second watcher: %d", second.res.StatusCode)
	}
	first.res.Body.Close()
	for deadline := time.Now().Add(5 * time.Second); s.watchers.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatal("a watcher that left is still counted")
		}
		time.Sleep(time.Millisecond)
	}
	third := follow(t, addr, "", "")
	if third.res.StatusCode != 200 {
		t.Errorf("after the first left: %d", third.res.StatusCode)
	}
}

func TestShutdownEndsStreamsWithAComment(t *testing.T) {
	addr, stop := listen(t, newTest(t, newFake(), nil))
	w := follow(t, addr, "", "")
	w.block()
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if got := w.block(); got != ": the server stops\n" {
		t.Errorf("last block %q", got)
	}
	if rest := w.block(); rest != "" {
		t.Errorf("the stream goes on: %q", rest)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// A reader that stops reading must not hold its stream's memory for ever.
func TestASlowReaderIsCut(t *testing.T) {
	f := newFake()
	s := newTest(t, f, func(o *Options) { o.StreamTimeout = 100 * time.Millisecond })
	addr, _ := listen(t, s)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4 << 10)
	io.WriteString(c, "GET /v1/watch?include=data&from=start HTTP/1.1\r\nHost: h\r\n\r\n")
	f.mu.Lock()
	big := []byte(`"` + strings.Repeat("x", 4<<20) + `"`)
	for i := range 8 {
		f.events = append(f.events, tiering.Event{ID: fmt.Sprintf("e.%d.0", i), Type: "state.put", Namespace: "runs", Key: "a", Data: big})
	}
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	deadline := time.Now().Add(10 * time.Second)
	for watching := false; ; time.Sleep(time.Millisecond) {
		n := s.watchers.Load()
		watching = watching || n == 1
		if watching && n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the stream lives on; seen: %v", watching)
		}
	}
}

// placed is a watcher that knows where it stands.
type placed struct{ tiering.Watcher }

func (placed) Position() string { return "e.41" }

type placing struct{ *fake }

func (p placing) Watch(ctx context.Context, o *tiering.WatchOptions) (tiering.Watcher, error) {
	w, err := p.fake.Watch(ctx, o)
	return placed{w}, err
}

func TestAStreamBeginsWithItsPosition(t *testing.T) {
	addr, _ := listen(t, newTest(t, nil, func(o *Options) {
		o.As = func(tiering.Principal) tiering.Service { return placing{newFake()} }
	}))
	if got := follow(t, addr, "", "").block(); got != "id: e.41\n: watching\n" {
		t.Errorf("first block %q", got)
	}
}

func TestNoValueBreaksAnEvent(t *testing.T) {
	f := newFake()
	f.events = []tiering.Event{{ID: "e.0.0\nevent: forged", Type: "state.put\r\ndata: forged", Key: "a\nb"}}
	addr, _ := listen(t, newTest(t, f, nil))
	w := follow(t, addr, "from=start", "")
	w.block()
	lines := strings.Split(strings.TrimSuffix(w.block(), "\n"), "\n")
	if len(lines) != 3 {
		t.Errorf("an event of %d lines: %q", len(lines), lines)
	}
}

// stepping is a watch whose position a test moves.
type stepping struct {
	*fake
	at     atomic.Pointer[string]
	events chan tiering.Event
}

func (s *stepping) Watch(context.Context, *tiering.WatchOptions) (tiering.Watcher, error) {
	return s, nil
}
func (s *stepping) Position() string { return *s.at.Load() }
func (s *stepping) Close() error     { return nil }
func (s *stepping) stand(at string)  { s.at.Store(&at) }
func (s *stepping) Next(ctx context.Context) (tiering.Event, error) {
	select {
	case e := <-s.events:
		return e, nil
	case <-ctx.Done():
		return tiering.Event{}, ctx.Err()
	}
}

// A heartbeat says how far the feed was searched; its id never leads a client back
// behind an event that it has.
func TestAHeartbeatSaysHowFarTheFeedWasSearched(t *testing.T) {
	f := &stepping{fake: newFake(), events: make(chan tiering.Event)}
	f.stand("e.1")
	s, err := New(Options{As: func(tiering.Principal) tiering.Service { return f }, Heartbeat: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := listen(t, s)
	w := follow(t, addr, "", "")
	expect := func(step, want string) {
		t.Helper()
		for {
			got := w.block()
			if got == ": \n" && want != got {
				continue // nothing is news yet
			}
			if got != want {
				t.Fatalf("%s: %q, want %q", step, got, want)
			}
			return
		}
	}
	expect("at first", "id: e.1\n: watching\n")
	expect("nothing is news", ": \n")
	f.stand("e.5")
	expect("searched on", "id: e.5\n: \n")
	f.events <- tiering.Event{ID: "e.8.0", Type: "state.put"}
	for got := ""; !strings.HasPrefix(got, "id: e.8.0\n"); { // behind heartbeats that were on their way
		if got = w.block(); got != ": \n" && !strings.HasPrefix(got, "id: e.8.0\n") {
			t.Fatalf("the event: %q", got)
		}
	}
	for range 3 { // the position is still that before the event
		if got := w.block(); strings.HasPrefix(got, "id: e.5") {
			t.Fatalf("it leads back: %q", got)
		}
	}
	f.stand("e.9")
	expect("behind the event", "id: e.9\n: \n")
}
