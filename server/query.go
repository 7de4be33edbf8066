package server

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// maxLimit is the most items that a page may hold.
const maxLimit = 1000

// query reads the parameters of a request. Its methods keep the first fault in
// err, so that a handler reads them all and looks once.
type query struct {
	values url.Values
	err    error
}

func (q *query) has(name string) bool    { return q.values.Has(name) }
func (q *query) text(name string) string { return q.values.Get(name) }

// list reads names with commas between them.
func (q *query) list(name string) (out []string) {
	for word := range strings.SplitSeq(q.text(name), ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}

func (q *query) failf(format string, args ...any) {
	if q.err == nil {
		q.err = tiering.Invalidf(format, args...)
	}
}

// version reads a version from 1 up, 0 when it is absent.
func (q *query) version(name string) int64 {
	if !q.has(name) {
		return 0
	}
	v, ok := parseVersion(q.text(name))
	if !ok || v == 0 {
		q.failf("%s=%s: want a version, from 1 up", name, q.text(name))
	}
	return v
}

// whole reads a whole number from 1 up, 0 when it is absent.
func (q *query) whole(name string) int64 {
	n := q.count(name)
	if q.has(name) && n == 0 {
		q.failf("%s=%s: want a whole number, from 1 up", name, q.text(name))
	}
	return n
}

// count reads a whole number from 0 up, 0 when it is absent.
func (q *query) count(name string) int64 {
	if !q.has(name) {
		return 0
	}
	v, ok := parseVersion(q.text(name))
	if !ok {
		q.failf("%s=%s: want a whole number, from 0 up", name, q.text(name))
	}
	return v
}

// limit reads the size of a page, 0 when it is absent.
func (q *query) limit() int {
	if !q.has("limit") {
		return 0
	}
	n, err := strconv.Atoi(q.text("limit"))
	if err != nil || n < 1 || n > maxLimit {
		q.failf("limit=%s: want 1 to %d", q.text("limit"), maxLimit)
	}
	return n
}

// flag reads true or false.
func (q *query) flag(name string) bool {
	if !q.has(name) {
		return false
	}
	switch q.text(name) {
	case "true":
		return true
	case "false":
		return false
	}
	q.failf("%s=%s: want true or false", name, q.text(name))
	return false
}

// choice reads one of the allowed words, "" when it is absent.
func (q *query) choice(name string, allowed ...string) string {
	if !q.has(name) {
		return ""
	}
	v := q.text(name)
	if !slices.Contains(allowed, v) {
		q.failf("%s=%s: want %s", name, v, strings.Join(allowed, " or "))
		return ""
	}
	return v
}

// words reads a comma separated list of the allowed words.
func (q *query) words(name string, allowed ...string) map[string]bool {
	out := map[string]bool{}
	if !q.has(name) {
		return out
	}
	for v := range strings.SplitSeq(q.text(name), ",") {
		if slices.Contains(allowed, v) {
			out[v] = true
			continue
		}
		q.failf("%s=%s: want %s, separated by commas", name, q.text(name), strings.Join(allowed, ", "))
	}
	return out
}

// ttl reads a change of expiry, nil when it is absent.
func (q *query) ttl(name string) *tiering.TTL {
	if !q.has(name) {
		return nil
	}
	t, err := tiering.ParseTTL(q.text(name))
	if err != nil && q.err == nil {
		q.err = err
	}
	return t
}

// instant reads RFC 3339 with up to nanoseconds, or whole Unix seconds.
func (q *query) instant(name string) time.Time {
	if !q.has(name) {
		return time.Time{}
	}
	v := q.text(name)
	if secs, err := strconv.ParseInt(v, 10, 64); err == nil && secs > 0 && secs <= maxUnixSeconds {
		return time.Unix(secs, 0).UTC()
	}
	// A plus sign that was not encoded arrives as a space, which RFC 3339 never has.
	t, err := time.Parse(time.RFC3339Nano, strings.ReplaceAll(v, " ", "+"))
	if err != nil || t.IsZero() {
		q.failf("%s=%s: want a time such as 2026-01-31T12:00:00.5Z, or Unix seconds", name, v)
		return time.Time{}
	}
	return t.UTC()
}

// maxUnixSeconds is the end of the year 9999, the last that RFC 3339 can write.
const maxUnixSeconds = 253402300799

// json reads a JSON value, nil when it is absent.
func (q *query) json(name string) json.RawMessage {
	if !q.has(name) {
		return nil
	}
	v := json.RawMessage(q.text(name))
	if !json.Valid(v) {
		q.failf("%s=%s: want a JSON value", name, q.text(name))
	}
	return v
}

// parseVersion reads the one way to write a version: digits without a sign or
// leading zeros.
func parseVersion(s string) (int64, bool) {
	if s == "" || len(s) > 19 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}
