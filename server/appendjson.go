package server

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierd/tierd/tiering"
)

// What the most frequent answers are made of is written by hand, as encoding/json writes
// it. Its reflection took longer than all else that the handler of a put does, and most of
// the time of a page of 1,000 documents. A test holds the two together.

// appendReceipt appends rec.
func appendReceipt(b []byte, rec *tiering.Receipt) []byte {
	w := jsonFields{b: b}
	w.meta(&rec.Meta)
	w.flag("hot", rec.Hot)
	w.ifSo("created", rec.Created)
	w.ifSo("replayed", rec.Replayed)
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

// appendPage appends p, whose documents are compact.
func appendPage(b []byte, p *tiering.Page) []byte {
	b = append(b, `{"items":[`...)
	for i := range p.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, &p.Items[i])
	}
	b = append(b, ']')
	if p.NextCursor != "" {
		w := jsonFields{b: b, any: true}
		w.text("next_cursor", p.NextCursor)
		b = w.b
	}
	return append(b, '}')
}

func appendItem(b []byte, it *tiering.Item) []byte {
	w := jsonFields{b: b}
	w.meta(&it.Meta)
	if len(it.Body) > 0 {
		w.name("data")
		w.b = append(w.b, it.Body...)
	}
	w.ifSo("cold", it.Cold)
	return append(w.b, '}')
}

// meta writes the fields of m, which begin an object.
func (w *jsonFields) meta(m *tiering.Meta) {
	w.text("namespace", m.Namespace)
	w.text("id", m.ID)
	w.number("version", m.Version)
	if m.Digest != (tiering.Digest{}) {
		w.name("digest")
		w.b = append(w.b, '"')
		w.b, _ = m.Digest.AppendText(w.b)
		w.b = append(w.b, '"')
	}
	w.number("size", m.Size)
	w.time("created_at", m.CreatedAt)
	w.time("updated_at", m.UpdatedAt)
	w.time("expires_at", m.ExpiresAt)
	if m.User != "" {
		w.text("user", m.User)
	}
	w.ifSo("pinned", m.Pinned)
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

// ifSo leaves out what is false.
func (w *jsonFields) ifSo(name string, v bool) {
	if v {
		w.flag(name, true)
	}
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
