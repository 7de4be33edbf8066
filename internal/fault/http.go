package fault

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// HTTP is HTTP/1.1 without TLS. The text of a request is its method and path, with
// the query. A request's head is forwarded before its body has come, because a
// client may wait for "100 Continue".
func HTTP() Conversation { return &httpTalk{} }

type httpTalk struct {
	body length // of the request whose head was read
	open bool
}

// length says how a body ends.
type length struct {
	bytes   int64
	chunked bool
	toEnd   bool // with the connection
}

func (t *httpTalk) Request(in *bufio.Reader) (Message, error) {
	if t.open {
		t.open = false
		data, err := t.body.read(in, nil)
		return Message{Data: data}, err
	}
	head, line, l, err := httpHead(in)
	if err != nil {
		return Message{Data: head}, err
	}
	method, target, _ := strings.Cut(line, " ")
	target, _, _ = strings.Cut(target, " ")
	l.toEnd = false // a request without a length has no body
	t.body, t.open = l, l.chunked || l.bytes > 0
	return Message{Data: head, Text: method + " " + target, Partial: t.open}, nil
}

func (t *httpTalk) Reply(in *bufio.Reader, request func() string) (Message, error) {
	data, line, l, err := httpHead(in)
	if err != nil {
		return Message{Data: data}, err
	}
	_, status, _ := strings.Cut(line, " ")
	code, _ := strconv.Atoi(status[:min(3, len(status))])
	switch {
	case code < 200:
		return Message{Data: data, Unasked: true}, nil
	case code == http.StatusNoContent, code == http.StatusNotModified, strings.HasPrefix(request(), "HEAD "):
		return Message{Data: data}, nil
	}
	data, err = l.read(in, data)
	return Message{Data: data}, err
}

// httpHead reads the lines up to the empty one.
func httpHead(in *bufio.Reader) (data []byte, line string, l length, err error) {
	for !bytes.HasSuffix(data, []byte("\r\n\r\n")) {
		part, err := in.ReadSlice('\n')
		data = append(data, part...)
		if err != nil {
			return data, "", l, err
		}
	}
	first, rest, _ := strings.Cut(string(data), "\r\n")
	fields, err := textproto.NewReader(bufio.NewReader(strings.NewReader(rest))).ReadMIMEHeader()
	if err != nil {
		return data, "", l, err
	}
	l.chunked = strings.EqualFold(fields.Get("Transfer-Encoding"), "chunked")
	n, err := strconv.ParseInt(fields.Get("Content-Length"), 10, 64)
	l.bytes, l.toEnd = n, err != nil && !l.chunked
	return data, first, l, nil
}

// read reads a body as it stands on the wire, onto data.
func (l length) read(in *bufio.Reader, data []byte) ([]byte, error) {
	switch {
	case l.chunked:
		return readChunks(in, data)
	case l.toEnd:
		rest, err := io.ReadAll(in)
		return append(data, rest...), err
	}
	return take(in, data, l.bytes)
}

// readChunks reads chunks up to the empty one and what trails it.
func readChunks(in *bufio.Reader, data []byte) ([]byte, error) {
	for {
		line, err := in.ReadSlice('\n')
		data = append(data, line...)
		if err != nil {
			return data, err
		}
		text, _, _ := strings.Cut(strings.TrimSpace(string(line)), ";")
		n, err := strconv.ParseInt(text, 16, 64)
		if err != nil {
			return data, err
		}
		if n == 0 {
			break
		}
		if data, err = take(in, data, n+2); err != nil {
			return data, err
		}
	}
	for {
		line, err := in.ReadSlice('\n')
		data = append(data, line...)
		if err != nil || len(bytes.TrimSpace(line)) == 0 {
			return data, err
		}
	}
}
