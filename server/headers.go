package server

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
)

// header sets a header of the answer. name is in Go's canonical form.
func (c *call) header(name, value string) {
	if c.used == len(c.values) {
		c.w.Header()[name] = []string{value}
		return
	}
	c.values[c.used] = value
	c.used++
	c.w.Header()[name] = c.values[c.used-1 : c.used : c.used]
}

// headerBlock says where the values of several headers end in one text, so that they
// share one string: each would be an allocation of its own. Its zero value is empty.
type headerBlock struct {
	names [8]string
	ends  [8]int
	n     int
}

// add names the value that text ends with, behind the one before, and returns text. An
// empty value is left out.
func (k *headerBlock) add(name string, text []byte) []byte {
	if k.n == 0 && len(text) == 0 || k.n > 0 && len(text) == k.ends[k.n-1] {
		return text
	}
	k.names[k.n], k.ends[k.n] = name, len(text)
	k.n++
	return text
}

// addTime adds a time to the nanosecond, which HTTP's own dates cannot tell; none for
// the zero time.
func (k *headerBlock) addTime(name string, text []byte, t time.Time) []byte {
	if t.IsZero() {
		return text
	}
	return k.add(name, t.UTC().AppendFormat(text, time.RFC3339Nano))
}

// headers sets what k names.
func (c *call) headers(k *headerBlock, values []byte) {
	text, from := string(values), 0
	for i, name := range k.names[:k.n] {
		c.header(name, text[from:k.ends[i]])
		from = k.ends[i]
	}
}

// metaHeaders says what is known of a stored version, so that a client can
// give its caller the same Meta as an embedded node. A default has version 0
// and none of them.
func (c *call) metaHeaders(m *tiering.Meta) {
	if m.Version == 0 {
		return
	}
	var room [320]byte
	var k headerBlock
	text := k.add("Etag", appendETag(room[:0], m.Version))
	text = k.add("Tierd-Size", strconv.AppendInt(text, m.Size, 10))
	text, _ = m.Digest.AppendText(text)
	text = k.add("Tierd-Digest", text)
	if !m.UpdatedAt.IsZero() {
		text = k.add("Last-Modified", m.UpdatedAt.UTC().AppendFormat(text, http.TimeFormat))
	}
	text = k.addTime("Tierd-Created-At", text, m.CreatedAt)
	text = k.addTime("Tierd-Updated-At", text, m.UpdatedAt)
	text = k.addTime("Tierd-Expires-At", text, m.ExpiresAt)
	c.headers(&k, text)
	if m.User != "" {
		c.header("Tierd-User", url.PathEscape(m.User)) // headers are ASCII, owners are not
	}
	if m.Pinned {
		c.header("Tierd-Pinned", "true")
	}
}

// headerTime writes a time as addTime does.
func (c *call) headerTime(name string, t time.Time) {
	if !t.IsZero() {
		c.header(name, t.UTC().Format(time.RFC3339Nano))
	}
}
