package s3bucket

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tierd/tierd/tiering"
)

// NewTransport is the connection pool of one bucket. Requests as a whole are
// bounded by their context; here stand the waits that say that a server is
// away. AWS_CA_BUNDLE names a file of certificates to trust in place of the
// system's.
func NewTransport(connections int) (*Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second, // from the end of the body
		ExpectContinueTimeout: time.Second,
		MaxConnsPerHost:       connections,
		MaxIdleConns:          connections,
		MaxIdleConnsPerHost:   connections,
		IdleConnTimeout:       20 * time.Second, // sooner than servers close them
		DisableCompression:    true,             // lengths are those of the object
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
	}
	file := os.Getenv("AWS_CA_BUNDLE")
	if file == "" {
		return &Transport{t}, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, tiering.Invalidf("AWS_CA_BUNDLE cannot be read: %v", err)
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, tiering.Invalidf("AWS_CA_BUNDLE holds no certificate")
	}
	return &Transport{t}, nil
}
