package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// still is a service that answers at once, so that what is measured is HTTP.
type still struct {
	tiering.Service
	doc *tiering.Document
	rec *tiering.Receipt
}

func (s still) Get(context.Context, string, string, *tiering.GetOptions) (*tiering.Document, error) {
	return s.doc, nil
}

func (s still) Put(context.Context, string, string, []byte, *tiering.PutOptions) (*tiering.Receipt, error) {
	return s.rec, nil
}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header         { return s.h }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// The overhead of the API on one request: compare api with bare, a handler that
// writes the same bytes with a content type and nothing else. BenchmarkWireGet has it
// over sockets, and with a node behind it.
func BenchmarkGet(b *testing.B) {
	doc := &tiering.Document{Meta: tiering.Meta{Namespace: "runs", ID: "run/7", Version: 3, CreatedAt: fakeNow, UpdatedAt: fakeNow, Size: 1024},
		Body: []byte(`"` + strings.Repeat("x", 1022) + `"`), Tier: tiering.Hot}
	s := newTest(b, nil, func(o *Options) { o.As = func(tiering.Principal) tiering.Service { return still{doc: doc} } })
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(doc.Body)))
		w.Write(doc.Body)
	})
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"api", s.Handler()}, {"bare", bare}} {
		b.Run("handler="+c.name, func(b *testing.B) {
			r, _ := http.NewRequest("GET", "http://h/v1/state/runs/run/7", nil)
			b.ReportAllocs()
			for b.Loop() {
				c.handler.ServeHTTP(sink{http.Header{}}, r)
			}
		})
	}
}

func BenchmarkBatchValidation(b *testing.B) {
	body := []byte(`{"ops":[` + strings.TrimSuffix(strings.Repeat(`{"op":"put","namespace":"runs","id":"run/7","data":{"text":"`+strings.Repeat("x", 1000)+`"},"if_version":3},`, 100), ",") + `]}`)
	s := schemaOf(b, "Batch")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.check(body); err != nil {
			b.Fatal(err)
		}
	}
}
