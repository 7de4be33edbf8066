package s3test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/internal/s3url"
)

// Fake is an S3 server in memory, as strict as the strictest of real ones, that
// can be told to misbehave: see Inject. It checks no signatures. It serves path
// style alone.
type Fake struct {
	server *httptest.Server

	mu       sync.Mutex
	buckets  map[string]bool
	objects  map[string][]*fakeObject // by bucket/key, the newest version last
	versions int
	faults   []*Fault
	seen     []*http.Request
	// keepsVersions makes every write a version of its own.
	keepsVersions bool
}

// fakeObject is one version of an object.
type fakeObject struct {
	version string // "null" unless the bucket keeps versions
	hidden  bool   // a delete marker
	data    []byte
	header  http.Header // x-amz-meta-*
	at      time.Time
}

// NewFake starts a server that has one bucket, named bucket, and closes it when
// the test ends.
func NewFake(t testing.TB) *Fake {
	t.Helper()
	f := unstarted()
	f.server.Start()
	t.Cleanup(f.server.Close)
	return f
}

// NewTLSFake is NewFake behind a certificate that nobody trusts but the PEM
// text that it returns.
func NewTLSFake(t testing.TB) (f *Fake, pem []byte) {
	t.Helper()
	f = unstarted()
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f, certificate(f.server.Certificate())
}

func unstarted() *Fake {
	f := &Fake{buckets: map[string]bool{"bucket": true}, objects: map[string][]*fakeObject{}}
	f.server = httptest.NewUnstartedServer(f)
	return f
}

// Place is the server's bucket.
func (f *Fake) Place() s3url.Place {
	return s3url.Place{Bucket: "bucket", Prefix: "p", Endpoint: f.server.URL, PathStyle: true}
}

// Requests returns what was asked so far, oldest first.
func (f *Fake) Requests() []*http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*http.Request(nil), f.seen...)
}

// KeepVersions switches versioning on.
func (f *Fake) KeepVersions() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepsVersions = true
}

// Versions returns how many versions and delete markers a key has.
func (f *Fake) Versions(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.objects["bucket/"+key])
}

// Under returns how many versions and delete markers all keys with a prefix
// have.
func (f *Fake) Under(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for full, all := range f.objects {
		if strings.HasPrefix(full, "bucket/"+prefix) {
			n += len(all)
		}
	}
	return n
}

// Store puts an object there as another program does.
func (f *Fake) Store(key, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store("bucket/"+key, []byte(data), http.Header{})
}

// DropBucket removes the bucket with all that is in it.
func (f *Fake) DropBucket() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.buckets)
	clear(f.objects)
}

// ServeHTTP meets the fault that matches, or serves.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.seen = append(f.seen, r)
	fault := f.pick(r)
	f.mu.Unlock()
	serve := func(w http.ResponseWriter) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.serve(w, r, body)
	}
	if fault == nil {
		serve(w)
		return
	}
	fault.Do(w, r, serve)
}

func (f *Fake) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if key == "" && r.Method == http.MethodPut {
		f.buckets[bucket] = true
		return
	}
	if !f.buckets[bucket] {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	if key == "" {
		f.serveBucket(w, r, bucket, body)
		return
	}
	full := bucket + "/" + key
	switch r.Method {
	case http.MethodPut:
		f.servePut(w, r, full, body)
	case http.MethodGet, http.MethodHead:
		f.serveGet(w, r, full)
	case http.MethodDelete:
		f.remove(full, r.URL.Query().Get("versionId"))
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

func (f *Fake) serveBucket(w http.ResponseWriter, r *http.Request, bucket string, body []byte) {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodHead:
	case r.Method == http.MethodGet && q.Get("list-type") == "2":
		f.serveList(w, q, bucket)
	case r.Method == http.MethodGet && q.Has("versions"):
		f.serveVersions(w, q, bucket)
	case r.Method == http.MethodPost && q.Has("delete"):
		f.serveBatch(w, r, bucket, body)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// servePut is as strict as servers are that know no trailers, and checks every
// digest that was sent.
func (f *Fake) servePut(w http.ResponseWriter, r *http.Request, full string, body []byte) {
	sum := sha256.Sum256(body)
	switch {
	case strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked"), r.Header.Get("X-Amz-Trailer") != "",
		strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING"):
		refuse(w, http.StatusNotImplemented, "NotImplemented")
		return
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
		return
	case r.Header.Get("X-Amz-Checksum-Sha256") != base64.StdEncoding.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "BadDigest")
		return
	case r.Header.Get("If-None-Match") == "*" && f.newest(full) != nil:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	o := f.store(full, body, r.Header)
	w.Header().Set("ETag", etag(body))
	if f.keepsVersions {
		w.Header().Set("X-Amz-Version-Id", o.version)
	}
}

func (f *Fake) store(full string, data []byte, header http.Header) *fakeObject {
	o := &fakeObject{version: f.version(), data: data, header: http.Header{}, at: time.Now().UTC()}
	for name, values := range maps.All(header) {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			o.header[name] = values
		}
	}
	f.add(full, o)
	return o
}

func (f *Fake) version() string {
	if !f.keepsVersions {
		return "null"
	}
	f.versions++
	return fmt.Sprintf("v%06d", f.versions)
}

func (f *Fake) add(full string, o *fakeObject) {
	if !f.keepsVersions {
		f.objects[full] = nil
	}
	f.objects[full] = append(f.objects[full], o)
}

// newest returns the current version, nil when there is none.
func (f *Fake) newest(full string) *fakeObject {
	all := f.objects[full]
	if len(all) == 0 || all[len(all)-1].hidden {
		return nil
	}
	return all[len(all)-1]
}

func (f *Fake) remove(full, version string) {
	switch {
	case version == "" && f.keepsVersions:
		f.add(full, &fakeObject{version: f.version(), hidden: true, at: time.Now().UTC()})
		return
	case version == "":
		version = "null"
	}
	kept := f.objects[full][:0:0]
	for _, o := range f.objects[full] {
		if o.version != version {
			kept = append(kept, o)
		}
	}
	if f.objects[full] = kept; len(kept) == 0 {
		delete(f.objects, full)
	}
}

func (f *Fake) serveGet(w http.ResponseWriter, r *http.Request, full string) {
	o := f.newest(full)
	if o == nil {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	maps.Copy(w.Header(), o.header)
	w.Header().Set("ETag", etag(o.data))
	w.Header().Set("Last-Modified", o.at.Format(http.TimeFormat))
	first, last := 0, len(o.data)-1
	if text := r.Header.Get("Range"); text != "" && r.Method == http.MethodGet {
		from, to, _ := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
		first, _ = strconv.Atoi(from)
		if n, err := strconv.Atoi(to); err == nil {
			last = min(last, n)
		}
		if first >= len(o.data) {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.data)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(last-first+1))
	if w.Header().Get("Content-Range") != "" {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(o.data[first : last+1])
	}
}

func etag(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// refuse answers with an error of S3.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Del("Content-Length")
	w.WriteHeader(status)
	if status != http.StatusNotModified {
		_, _ = io.WriteString(w, errorBody(code))
	}
}

func errorBody(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>said the fake</Message><RequestId>1</RequestId></Error>`
}
