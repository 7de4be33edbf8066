package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// DefaultURL is where `tierd serve` listens unless told otherwise.
const DefaultURL = "http://127.0.0.1:8437"

// The defaults of Options.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultRememberWrites = 4096
	DefaultAttempts       = 4
	DefaultMinDelay       = 50 * time.Millisecond
	DefaultMaxDelay       = 2 * time.Second
	DefaultMaxRetryAfter  = 30 * time.Second
)

// MaxAnswer is the largest answer that the client reads, in bytes. A page of
// bodies above it is too_large: ask with a smaller limit.
const MaxAnswer = 16 << 20

// Options configures a client. The zero value works against a node without API
// keys.
type Options struct {
	// APIKey is sent as a bearer token; it also chooses the tenant.
	APIKey string
	// HTTPClient makes the connections; nil means one of the client's own. It
	// is copied: its CheckRedirect is asked for reads only, because a write is
	// never sent on to another address, and its Timeout does not end a watch.
	HTTPClient *http.Client
	// Timeout bounds one try, on top of the caller's context. 0 means
	// DefaultTimeout, below 0 no bound.
	Timeout time.Duration
	// Retry says how failed tries are repeated.
	Retry Retry
	// RememberWrites is of how many keys the client remembers its own last
	// write. 0 means DefaultRememberWrites; below 0 switches it off: a plain
	// get may then answer what stood before an own write.
	RememberWrites int
}

// Retry bounds repeated tries. Only what tiering.Retryable names and lost
// connections are tried again, and only reads and writes with an
// Idempotency-Key. Delays grow from MinDelay to MaxDelay by doubling, each
// shortened by up to half at random; a Retry-After of the node lengthens them.
type Retry struct {
	Attempts int           // tries in all; 0 means DefaultAttempts, 1 none but the first
	MinDelay time.Duration // 0 means DefaultMinDelay
	MaxDelay time.Duration // 0 means DefaultMaxDelay
	// MaxRetryAfter is the longest Retry-After that is waited for; 0 means
	// DefaultMaxRetryAfter. A longer one ends the tries at once, and the error
	// carries it.
	MaxRetryAfter time.Duration
}

// Client is a tierd node at the other end of HTTP. It is safe for concurrent
// use.
type Client struct {
	base    string // scheme, host and path prefix, without a slash at the end
	apiKey  string
	timeout time.Duration
	retry   Retry

	http   *http.Client // for calls
	stream *http.Client // for watches: the same without a timeout

	own     *recent[docKey, int64]    // versions of own writes
	keyless *recent[string, struct{}] // namespaces that refuse an Idempotency-Key
}

var _ tiering.Service = (*Client)(nil)

type docKey struct{ ns, id string }

// maxKeyless bounds how many namespaces are remembered to refuse an
// Idempotency-Key; forgetting one costs one more request.
const maxKeyless = 1024

// New returns a client of the node at rawURL, such as DefaultURL. It makes no
// connection. The only error is invalid: an address that is not http or https,
// or one with credentials, a query or a fragment in it.
func New(rawURL string, o *Options) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	base, err := parseBase(rawURL)
	if err != nil {
		return nil, tiering.Wrap(err, "open", "", tiering.Key{})
	}
	if strings.ContainsFunc(o.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, tiering.Errorf(tiering.CodeInvalid, "the API key holds a character that a header cannot carry")
	}
	c := &Client{
		base:    base,
		apiKey:  o.APIKey,
		timeout: o.Timeout,
		retry:   o.Retry.withDefaults(),
		http:    httpClient(o.HTTPClient),
		keyless: newRecent[string, struct{}](maxKeyless),
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	stream := *c.http
	stream.Timeout = 0
	c.stream = &stream
	switch {
	case o.RememberWrites == 0:
		c.own = newRecent[docKey, int64](DefaultRememberWrites)
	case o.RememberWrites > 0:
		c.own = newRecent[docKey, int64](o.RememberWrites)
	}
	return c, nil
}

// Close gives idle connections back; ctx is there because an embedded node needs
// one. Calls and watches that run go on; close a watch by its own Close.
func (c *Client) Close(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = DefaultAttempts
	}
	if r.MinDelay <= 0 {
		r.MinDelay = DefaultMinDelay
	}
	if r.MaxDelay <= 0 {
		r.MaxDelay = DefaultMaxDelay
	}
	if r.MaxRetryAfter <= 0 {
		r.MaxRetryAfter = DefaultMaxRetryAfter
	}
	return r
}

func parseBase(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", tiering.Invalidf("the node's address cannot be read: use a form such as %s", DefaultURL)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", tiering.Invalidf("node address %q: use a form such as %s", u.Redacted(), DefaultURL)
	case u.User != nil:
		return "", tiering.Invalidf("node address %q holds credentials: hand over an API key in its place", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", tiering.Invalidf("node address %q: leave out query and fragment", u.Redacted())
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// httpClient copies base, or makes a client whose pool holds enough idle
// connections for many callers of one node; the standard two would make the
// others dial anew each time.
func httpClient(base *http.Client) *http.Client {
	var c http.Client
	if base != nil {
		c = *base
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
		c.Transport = t
	}
	ask := c.CheckRedirect
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if m := via[0].Method; m != http.MethodGet && m != http.MethodHead {
			return http.ErrUseLastResponse
		}
		if ask != nil {
			return ask(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &c
}
