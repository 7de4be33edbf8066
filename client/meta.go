package client

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// metaOf reads what the headers of an answer say about a version. ok is false
// when a header that is there cannot be read, so that the answer is not
// tierd's. HTTP dates end at the second; Tierd-Updated-At carries the rest.
func metaOf(ns, id string, h http.Header) (m tiering.Meta, ok bool) {
	m = tiering.Meta{Namespace: ns, ID: id}
	ok = true
	check := func(err error) { ok = ok && err == nil }
	when := func(name string) (t time.Time) {
		if s := h.Get(name); s != "" {
			var err error
			t, err = time.Parse(time.RFC3339Nano, s)
			check(err)
		}
		return t
	}
	if s := h.Get("ETag"); s != "" {
		// A proxy that compresses makes the tag weak; the version is the same.
		v, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(s, "W/"), `"`), 10, 64)
		check(err)
		m.Version = v
	}
	check(m.Digest.UnmarshalText([]byte(h.Get("Tierd-Digest"))))
	m.CreatedAt = when("Tierd-Created-At")
	m.UpdatedAt = when("Tierd-Updated-At")
	m.ExpiresAt = when("Tierd-Expires-At")
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt, _ = http.ParseTime(h.Get("Last-Modified"))
	}
	user, err := url.PathUnescape(h.Get("Tierd-User"))
	check(err)
	m.User = user
	m.Pinned = h.Get("Tierd-Pinned") == "true"
	if s := h.Get("Tierd-Size"); s != "" {
		m.Size, err = strconv.ParseInt(s, 10, 64)
		check(err)
	}
	return m, ok
}

// warningsOf reads Tierd-Warning, a list.
func warningsOf(h http.Header) []string {
	var out []string
	for _, line := range h.Values("Tierd-Warning") {
		for w := range strings.SplitSeq(line, ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}

// setCondition writes a condition as HTTP has it.
func setCondition(h http.Header, c tiering.Condition) {
	v, named := c.Version()
	switch {
	case named:
		h.Set("If-Match", strconv.Quote(strconv.FormatInt(v, 10)))
	case c.Absent():
		h.Set("If-None-Match", "*")
	case c.Exists():
		h.Set("If-Match", "*")
	}
}
