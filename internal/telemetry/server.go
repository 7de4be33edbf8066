package telemetry

import (
	"net/http"
	"strconv"
	"time"
)

// Server takes the measurements of the HTTP API.
type Server struct{ m *metrics }

// Server returns the recorder of the HTTP API.
func (t *Telemetry) Server() *Server { return &Server{t.m} }

// Request records one answered request. route is the pattern that matched,
// never the path, and "" when none did; a method outside HTTP's own is other.
func (s *Server) Request(route, method string, status int, took time.Duration) {
	method = knownMethod(method)
	s.m.httpDuration.WithLabelValues(route, method).Observe(took.Seconds())
	s.m.httpRequests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
}

// knownMethod bounds a label that a caller of the API chooses.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
