package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// call is one request to one operation, on its way through the handler.
type call struct {
	s   *Server
	op  *operation
	w   http.ResponseWriter
	r   *http.Request
	svc tiering.Service
	ns  string // of the path, "" where it has none
	id  string // of the path or the query, "" where the operation has none
	q   query

	// The values of the answer's headers, which would otherwise be an
	// allocation each: there are a dozen on every read.
	values [16]string
	used   int
}

func (c *call) ctx() context.Context { return c.r.Context() }

// serve returns the handler of op: it authenticates, checks what is the same
// for all operations, runs it and answers with its error.
func (s *Server) serve(op *operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.answer(&call{s: s, op: op, w: w, r: r, ns: r.PathValue("ns"), id: r.PathValue("id")})
	})
}

// answer runs c's operation and answers with its error.
func (s *Server) answer(c *call) {
	if rec, ok := c.w.(*recorder); ok {
		rec.route = c.op.path
	}
	if err := c.handle(); err != nil {
		s.refuse(c.w, c.r, err)
	}
}

func (c *call) handle() error {
	principal, err := c.s.authenticate(c.w, c.r, c.op.access)
	if err != nil {
		return err
	}
	if err := c.refuseGuards(); err != nil {
		return err
	}
	if err := c.parseQuery(); err != nil {
		return err
	}
	if err := c.findID(); err != nil {
		return err
	}
	if c.op.access == keyed {
		c.svc = c.s.opts.As(principal)
	}
	return c.op.run(c)
}

// parseQuery refuses a parameter that the operation does not know: a typing
// error must not change what a request means without a word.
func (c *call) parseQuery() error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return tiering.Invalidf("query string: %v", err)
	}
	for name, v := range values {
		if !c.op.knows(name) {
			return tiering.Invalidf("unknown query parameter %q: %s", name, c.op.queryNames())
		}
		if len(v) > 1 {
			return tiering.Invalidf("query parameter %q is given %d times", name, len(v))
		}
	}
	c.q.values = values
	return nil
}

// findID takes the document's id from the path or from "?id=".
func (c *call) findID() error {
	if !c.op.onDocument() {
		return nil
	}
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	if c.q.has("id") {
		if c.id != "" {
			return tiering.Invalidf("the id is in the path and in ?id=: give one")
		}
		c.id = c.q.text("id")
	} else if c.id == "" {
		return tiering.Invalidf("the document's id is missing: %s/ID, or ?id=ID", c.r.URL.Path)
	}
	return tiering.ValidateID(c.id)
}

// smallBody is up to where a body's declared length is trusted with memory.
const smallBody = 64 << 10

// readBody returns the whole body, refusing one over the limit before reading
// it where its length is declared.
func (c *call) readBody() ([]byte, error) {
	limit := c.s.opts.MaxBody
	if c.op.body != nil {
		limit = max(limit, c.op.body.most)
	}
	tooLarge := func() error {
		return tiering.Errorf(tiering.CodeTooLarge, "the body is larger than %d bytes", limit)
	}
	n := c.r.ContentLength
	if n > limit {
		if c.r.ProtoMajor == 1 {
			// Otherwise the answer would wait for what is not wanted.
			c.w.Header().Set("Connection", "close")
		}
		return nil, tooLarge()
	}
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "Content-Encoding %q: send the body as it is", enc)
	}
	var b []byte
	var err error
	if n >= 0 && n <= smallBody { // net/http lets no more through than was declared
		b = make([]byte, n)
		_, err = io.ReadFull(c.r.Body, b)
	} else {
		body := http.MaxBytesReader(c.w, c.r.Body, limit)
		var buf bytes.Buffer
		buf.Grow(smallBody)
		_, err = buf.ReadFrom(body)
		b = buf.Bytes()
	}
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return b, nil
	case errors.As(err, &over):
		return nil, tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &statusError{status: http.StatusRequestTimeout,
			err: &tiering.Error{Code: tiering.CodeUnavailable, Detail: "the body came too slowly", Err: err}}
	}
	return nil, &tiering.Error{Code: tiering.CodeInvalid, Detail: "the body ended early", Err: err}
}

// decode reads a typed body into v after it passed the operation's schema.
func (c *call) decode(v any) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if len(b) == 0 && c.op.body.optional {
		return nil
	}
	return c.s.bodies[c.op.body.component].decode(b, v)
}

// reply writes v as JSON.
func (c *call) reply(status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // documents inside an answer keep their exact bytes
	if err := enc.Encode(v); err != nil {
		return err
	}
	c.send(status, "application/json", bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
	return nil
}

// send writes b, and for HEAD its headers alone. An answer may be kept but not
// used again unasked, unless the operation said something stricter.
func (c *call) send(status int, contentType string, b []byte) {
	h := c.w.Header()
	c.header("Content-Type", contentType)
	// Last-Modified without this would let a cache guess how long to keep it.
	if h.Get("Cache-Control") == "" {
		c.header("Cache-Control", "no-cache")
	}
	c.header("Content-Length", strconv.Itoa(len(b)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(b) // a caller that went away cannot be told
	}
}
