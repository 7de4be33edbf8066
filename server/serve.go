package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Serve answers on ln until ctx ends, then stops gracefully: it accepts no
// more, ends watch streams with a comment, and lets requests in flight finish
// for Options.ShutdownGrace. It closes ln and returns nil after a clean stop.
// With a tls.Config, which must hold a certificate, it speaks TLS; without, it
// speaks HTTP/1.1 and HTTP/2 in clear. A Server serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener, tlsConfig *tls.Config) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	if tlsConfig != nil {
		protocols.SetHTTP2(true)
		tlsConfig = tlsConfig.Clone()
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}
	srv := &http.Server{
		Handler:           s.Handler(),
		TLSConfig:         tlsConfig,
		Protocols:         &protocols,
		ReadHeaderTimeout: s.opts.HeaderTimeout,
		ReadTimeout:       s.opts.ReadTimeout,
		WriteTimeout:      s.opts.WriteTimeout,
		IdleTimeout:       s.opts.IdleTimeout,
		// The others end a stream; a client that takes nothing any more is left.
		HTTP2:          &http.HTTP2Config{WriteByteTimeout: s.opts.WriteTimeout},
		MaxHeaderBytes: s.opts.MaxHeaderBytes,
		// OPTIONS * gets the answer of every other path that is none.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		// Requests in flight outlive ctx: they end by themselves or by the grace.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	srv.RegisterOnShutdown(s.stop)

	failed := make(chan error, 1)
	go func() {
		if tlsConfig != nil {
			failed <- srv.ServeTLS(ln, "", "")
			return
		}
		failed <- srv.Serve(ln)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.ShutdownGrace)
	defer cancel()
	err := srv.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests still ran after %s", s.opts.ShutdownGrace), srv.Close())
	}
	if end := <-failed; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// CheckBind refuses an address that others can reach while anyone who reaches
// it may read everything: a bind that is not loopback takes API keys and TLS,
// unless insecure says that something in front provides them.
func CheckBind(listen string, hasKeys, hasTLS, insecure bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("listen address %q: want host:port: %w", listen, err)
	}
	if insecure || isLoopback(host) {
		return nil
	}
	var missing []string
	if !hasKeys {
		missing = append(missing, "API keys")
	}
	if !hasTLS {
		missing = append(missing, "TLS")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("listening on %q, which is not a loopback address, without %s: set them up, listen on 127.0.0.1, or allow an insecure bind",
		listen, strings.Join(missing, " and without "))
}

// IsLocal reports whether listen is an address that this machine alone reaches.
func IsLocal(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isLoopback(host)
}

// localHost reports whether a request's host is a name of loopback, with any port
// or none. Names below localhost mean loopback to every browser (RFC 6761, 6.3).
func localHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return isLoopback(host) || strings.HasSuffix(host, ".localhost")
}

// isLoopback reports whether host can be reached from this machine alone. A
// name other than localhost is not looked up: what it means may change.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	host, _, _ = strings.Cut(host, "%")
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
