package redis_test

import (
	"crypto/tls"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/servicestest"
)

// TestTLS puts TLS before the server, under a certificate that nobody signed.
func TestTLS(t *testing.T) {
	t.Parallel()
	server, err := url.Parse(servicestest.Variable(t, "TIERD_HOT"))
	if err != nil {
		t.Fatal(err)
	}
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	new(proxy).listen(t, l, server.Host)
	for query, trusts := range map[string]bool{"?skip_verify=true": true, "": false} {
		s, err := redis.Open(t.Context(), "rediss://"+l.Addr().String()+server.Path+query, &redis.Options{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); (err == nil) != trusts || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("rediss://...%s: %v", query, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
