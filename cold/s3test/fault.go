package s3test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Fault is a request that goes wrong.
type Fault struct {
	// Method is what the request has to have, "" for any. Path is what its
	// path has to contain, Query what its query has to.
	Method, Path, Query string
	// Times is how many matching requests it befalls; 0 is all.
	Times int
	// Do answers. serve does what the server would do.
	Do func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter))

	met bool
}

// Inject adds a fault. Of several that match, the first one added befalls.
func (f *Fake) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		f.faults = append(f.faults, &fault)
	}
}

// Clear removes all faults, and fails the test when one of them befell nothing:
// it proved nothing.
func (f *Fake) Clear(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		if !fault.met {
			t.Errorf("no request met the fault %s %s?%s", fault.Method, fault.Path, fault.Query)
		}
	}
	f.faults = nil
}

func (f *Fake) pick(r *http.Request) *Fault {
	for i, fault := range f.faults {
		if fault.Method != "" && fault.Method != r.Method || !strings.Contains(r.URL.Path, fault.Path) || !strings.Contains(r.URL.RawQuery, fault.Query) {
			continue
		}
		fault.met = true
		switch fault.Times {
		case 0:
		case 1:
			f.faults = slices.Delete(f.faults, i, i+1)
		default:
			fault.Times--
		}
		return fault
	}
	return nil
}

type doing = func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter))

// answer refuses without doing anything.
func answer(status int, code string) doing {
	return func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { refuse(w, status, code) }
}

// done does it and then answers something else.
func done(status int, code string) doing {
	return func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
		serve(httptest.NewRecorder())
		refuse(w, status, code)
	}
}

// reset cuts the connection, after having done it or before.
func reset(after bool) doing {
	return func(_ http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
		if after {
			serve(httptest.NewRecorder())
		}
		panic(http.ErrAbortHandler)
	}
}

// answered is an answer of the server that is changed before it is sent.
func answered(change func(h http.Header, body []byte) []byte) doing {
	return func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
		rec := httptest.NewRecorder()
		serve(rec)
		h := rec.Header()
		body := change(h, rec.Body.Bytes())
		maps.Copy(w.Header(), h)
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	}
}

// cutShort promises the whole body and sends less, then cuts the connection.
func cutShort(by int) doing {
	return answered(func(_ http.Header, body []byte) []byte { return body[:len(body)-by] })
}

// smaller sends less, and says so in its length.
func smaller(by int) doing {
	return answered(func(h http.Header, body []byte) []byte {
		h.Set("Content-Length", strconv.Itoa(len(body)-by))
		return body[:len(body)-by]
	})
}

// longer sends more, and says so in its length.
func longer(by int) doing {
	return answered(func(h http.Header, body []byte) []byte {
		h.Set("Content-Length", strconv.Itoa(len(body)+by))
		return append(body, make([]byte, by)...)
	})
}

// endless sends more, without a length.
func endless(by int) doing {
	return answered(func(h http.Header, body []byte) []byte {
		h.Del("Content-Length")
		h.Set("Transfer-Encoding", "chunked")
		return append(body, make([]byte, by)...)
	})
}

// flipped inverts a bit of the body.
func flipped() doing {
	return answered(func(_ http.Header, body []byte) []byte {
		body = slices.Clone(body)
		body[len(body)/2] ^= 1
		return body
	})
}

// unconditional serves the request as if it had no condition.
func unconditional(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) {
	r.Header.Del("If-None-Match")
	serve(w)
}

// headed answers a HEAD with another length.
func headed(length string) doing {
	return answered(func(h http.Header, _ []byte) []byte {
		h.Set("Content-Length", length)
		return nil
	})
}
