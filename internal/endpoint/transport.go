package endpoint

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ForbiddenAddress says where a request must not go, whatever name leads there.
type ForbiddenAddress struct{ addr netip.Addr }

func (f *ForbiddenAddress) Error() string {
	return fmt.Sprintf("%s is a link-local address, where clouds keep their credentials: no server is asked there", f.addr)
}

// metadata is where a cloud answers on an address that is not link-local.
var metadata = netip.MustParseAddr("fd00:ec2::254")

// newClient returns a client that follows no redirect, uses no proxy and dials
// no link-local address.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second, Control: control}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 5 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// control looks at the address after the name was resolved, so that no name
// leads around it.
func control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	addr = addr.Unmap().WithZone("")
	if addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr == metadata {
		return &ForbiddenAddress{addr}
	}
	return nil
}
