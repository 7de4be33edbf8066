package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// collector keeps what was posted to it.
type collector struct {
	mu    sync.Mutex
	paths []string
	body  bytes.Buffer
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, r.Method+" "+r.URL.Path)
	_, _ = io.Copy(&c.body, r.Body)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func TestOTLPSendsSpans(t *testing.T) {
	tests := []struct{ name, base, path string }{
		{"the endpoint alone", "", "POST /v1/traces"},
		{"an endpoint with a path", "/otel", "POST /otel/v1/traces"},
		{"a trailing slash", "/otel/", "POST /otel/v1/traces"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &collector{}
			srv := httptest.NewServer(c)
			defer srv.Close()
			tp, err := OTLP(t.Context(), srv.URL+tt.base)
			if err != nil {
				t.Fatal(err)
			}
			tel, err := New(Options{TracerProvider: tp, NoRuntime: true})
			if err != nil {
				t.Fatal(err)
			}
			_ = tel.Hot(stubHot{}).Mark(t.Context(), tiering.Key{}, 1)
			if err := tp.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.paths) != 1 || c.paths[0] != tt.path {
				t.Errorf("requests = %q, want %q", c.paths, tt.path)
			}
			// Strings stand in protobuf as they are.
			for _, want := range []string{"hot.mark", "service.name", "tierd"} {
				if !strings.Contains(c.body.String(), want) {
					t.Errorf("the request lacks %q", want)
				}
			}
		})
	}
}

func TestOTLPRefusesWhatIsNoURL(t *testing.T) {
	for _, endpoint := range []string{"", "localhost:4318", "grpc://h:4317", "http://", "http://[::1", "/v1/traces"} {
		if tp, err := OTLP(t.Context(), endpoint); err == nil {
			t.Errorf("%q was taken", endpoint)
			_ = tp.Shutdown(t.Context())
		}
	}
}

func TestCallsDoNotWaitForTheCollector(t *testing.T) {
	block := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer srv.Close()
	defer close(block)
	tp, err := OTLP(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := New(Options{TracerProvider: tp, NoRuntime: true})
	if err != nil {
		t.Fatal(err)
	}
	h := tel.Hot(stubHot{})
	began := time.Now()
	for range 10_000 { // several times the queue of the exporter
		_ = h.Ping(t.Context())
	}
	if took := time.Since(began); took > 30*time.Second { // waiting for it would take minutes
		t.Errorf("10,000 calls took %v beside a collector that hangs", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tp.Shutdown(ctx); err == nil {
		t.Error("Shutdown reached a collector that hangs: this test proves nothing")
	}
}
