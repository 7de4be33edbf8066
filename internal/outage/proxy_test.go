package outage_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/servicestest"
)

// proxy stands before an S3 server and answers in its place while it spoils.
type proxy struct {
	url    string // of the bucket, through the proxy
	spoils atomic.Pointer[http.HandlerFunc]
}

// newProxy stands before the server of a variable's bucket, under a prefix of
// this test's own.
func newProxy(t *testing.T, variable string) *proxy {
	t.Helper()
	bucket, err := url.Parse(servicestest.Variable(t, variable))
	if err != nil {
		t.Fatal(err)
	}
	q := bucket.Query()
	server, err := url.Parse(q.Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(server)
		r.Out.Host = r.In.Host // which is signed
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.spoils.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	q.Set("endpoint", front.URL)
	bucket.Path = fmt.Sprintf("/outage-%d", time.Now().UnixNano())
	bucket.RawQuery = q.Encode()
	p.url = bucket.String()
	return p
}

// answering returns what spoils the answers of proxies, and passing what ends it.
func answering(answer http.HandlerFunc, of ...*proxy) func() {
	return func() {
		for _, p := range of {
			p.spoils.Store(&answer)
		}
	}
}

func passing(of ...*proxy) func() {
	return func() {
		for _, p := range of {
			p.spoils.Store(nil)
		}
	}
}

// refuses answers every request with an error of S3. A HEAD has no body that
// could say so: where the status is 200 it is broken off.
func refuses(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if status == http.StatusOK && r.Method == http.MethodHead {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>not now</Message></Error>`, code)
	}
}

// resets breaks every connection off.
func resets(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// hangs takes requests and never answers.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else it is not seen when the client goes
	<-r.Context().Done()
}

// TestWhenABucketAnswersErrors: a bucket that is there and does not do what it
// is asked, or says so in ways of its own, is a bucket that is down.
func TestWhenABucketAnswersErrors(t *testing.T) {
	t.Setenv("NO_PROXY", "127.0.0.1")
	primary, backup := newProxy(t, "TIERD_COLD"), newProxy(t, "TIERD_BACKUP")
	n := startNode(t, tierd.Config{
		Data: t.TempDir(), Cold: primary.url, Backup: backup.url + "&client=minio", SegmentAge: 500 * time.Millisecond,
	})
	prepare(n)
	none := normal
	none.cold = "503"
	one := func(tier, how string, p *proxy, long bool, answer http.HandlerFunc) outage {
		return outage{tier: tier, how: how, long: long, down: answering(answer, p), up: passing(p), sees: normal, more: demotionWaits}
	}
	both := func(how string, long bool, answer http.HandlerFunc) outage {
		return outage{tier: "both", how: how, long: long, down: answering(answer, primary, backup), up: passing(primary, backup),
			sees: none, prompt: 3500 * time.Millisecond, more: demotionWaits}
	}
	runAll(t, n, []outage{
		one("primary", "503", primary, true, refuses(503, "SlowDown")),
		one("primary", "500", primary, true, refuses(500, "InternalError")),
		one("primary", "200 with an error", primary, false, refuses(200, "InternalError")),
		one("primary", "resets", primary, true, resets),
		one("backup", "503", backup, true, refuses(503, "SlowDown")),
		one("backup", "200 with an error", backup, true, refuses(200, "InternalError")),
		one("backup", "resets", backup, true, resets),
		one("backup", "no answer", backup, true, hangs),
		both("503", true, refuses(503, "SlowDown")),
		both("200 with an error", true, refuses(200, "InternalError")),
		both("no answer", false, hangs),
	})
}
