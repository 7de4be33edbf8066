package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierd/tierd/tiering"
)

// replyWrite answers a write of one document with its receipt.
func (c *call) replyWrite(rec *tiering.Receipt) error {
	c.receiptHeaders(rec)
	c.send(c.writeStatus(rec), "application/json", appendReceipt(make([]byte, 0, 384), rec))
	return nil
}

// replyReceipt answers a write with v, which embeds its receipt.
func (c *call) replyReceipt(rec *tiering.Receipt, v any) error {
	c.receiptHeaders(rec)
	return c.reply(c.writeStatus(rec), v)
}

// writeStatus is the status of a write that was done. What was created is located.
func (c *call) writeStatus(rec *tiering.Receipt) int {
	if !rec.Created {
		return http.StatusOK
	}
	u := url.URL{Path: "/v1/state/" + rec.Namespace + "/" + rec.ID}
	c.w.Header().Set("Location", u.EscapedPath())
	return http.StatusCreated
}

func (c *call) receiptHeaders(rec *tiering.Receipt) {
	if rec.Version > 0 {
		c.header("Etag", etag(rec.Version))
	}
	c.headerTime("Tierd-Expires-At", rec.ExpiresAt)
	if rec.Replayed {
		c.header("Idempotent-Replayed", "true")
	}
	if len(rec.Warnings) > 0 {
		c.header("Tierd-Warning", strings.Join(rec.Warnings, ", "))
	}
}

// appendReceipt appends rec as encoding/json writes it, whose reflection took longer
// than all else that the handler of a put does. A test holds the two together.
func appendReceipt(b []byte, rec *tiering.Receipt) []byte {
	w := jsonFields{b: b}
	w.text("namespace", rec.Namespace)
	w.text("id", rec.ID)
	w.number("version", rec.Version)
	if rec.Digest != (tiering.Digest{}) {
		w.name("digest")
		w.b = append(w.b, '"')
		w.b, _ = rec.Digest.AppendText(w.b)
		w.b = append(w.b, '"')
	}
	w.number("size", rec.Size)
	w.time("created_at", rec.CreatedAt)
	w.time("updated_at", rec.UpdatedAt)
	w.time("expires_at", rec.ExpiresAt)
	if rec.User != "" {
		w.text("user", rec.User)
	}
	if rec.Pinned {
		w.flag("pinned", true)
	}
	w.flag("hot", rec.Hot)
	if rec.Created {
		w.flag("created", true)
	}
	if rec.Replayed {
		w.flag("replayed", true)
	}
	if len(rec.Warnings) > 0 {
		w.name("warnings")
		for i, warning := range rec.Warnings {
			w.b = append(w.b, "[,"[min(i, 1)])
			w.string(warning)
		}
		w.b = append(w.b, ']')
	}
	return append(w.b, '}')
}

// jsonFields writes an object of fields whose names need no escape.
type jsonFields struct {
	b   []byte
	any bool // a field was written
}

func (w *jsonFields) name(name string) {
	begin := byte(',')
	if !w.any {
		begin, w.any = '{', true
	}
	w.b = append(append(append(w.b, begin, '"'), name...), '"', ':')
}

// string writes s. What is no UTF-8 becomes U+FFFD, of which the error tells.
func (w *jsonFields) string(s string) { w.b, _ = jsontext.AppendQuote(w.b, s) }

func (w *jsonFields) text(name, s string) {
	w.name(name)
	w.string(s)
}

func (w *jsonFields) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *jsonFields) flag(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

// time leaves out the zero time.
func (w *jsonFields) time(name string, t time.Time) {
	if t.IsZero() {
		return
	}
	w.name(name)
	w.b = append(w.b, '"')
	w.b = t.AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
}
