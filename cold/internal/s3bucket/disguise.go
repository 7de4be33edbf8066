package s3bucket

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
)

// Transport is a pool of connections. An error that comes with a status of 200,
// as S3 may send one when it had begun to answer, gets the status 500 before any
// library sees it: minio-go would read a listing without an object out of it.
type Transport struct{ pool *http.Transport }

// RoundTrip sends one request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.pool.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK || req.Method == http.MethodHead {
		return res, err
	}
	body := bufio.NewReaderSize(res.Body, disguised)
	if isError(body) {
		res.StatusCode, res.Status = http.StatusInternalServerError, "500 Internal Server Error"
	}
	res.Body = readAhead{body, res.Body}
	return res, nil
}

// CloseIdleConnections closes those that no request uses.
func (t *Transport) CloseIdleConnections() { t.pool.CloseIdleConnections() }

// disguised is how far into a body its first element is looked for: servers send
// white space while they are not done.
const disguised = 4096

var errorElement = regexp.MustCompile(`^\s*(<\?xml[^>]*\?>)?\s*<Error[\s>]`)

// isError reports whether a body is an <Error> document. No object of ours
// begins as XML does, so that the first byte decides for nearly all.
func isError(body *bufio.Reader) bool {
	first, err := body.Peek(1)
	if err != nil || first[0] != '<' && len(bytes.TrimSpace(first)) > 0 {
		return false
	}
	head, _ := body.Peek(disguised) // less where the body ends
	return errorElement.Match(head)
}

// readAhead is a body of which some was read.
type readAhead struct {
	io.Reader
	io.Closer
}
