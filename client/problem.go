package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tierd/tierd/tiering"
)

// maxQuoted is how many bytes of a foreign answer an error shows.
const maxQuoted = 200

// errorOf turns an answer outside 2xx into the error that an embedded node
// would have returned.
func errorOf(res *http.Response, body []byte) *tiering.Error {
	var e *tiering.Error
	switch {
	case !isType(res.Header, "application/problem+json"):
		e = foreign(res.StatusCode, res.Header, body)
	case res.Request != nil && res.Request.Method == http.MethodHead:
		// No body: the status and, where it is ambiguous, the header say it.
		e = &tiering.Error{Code: tiering.Code(res.Header.Get("Tierd-Code"))}
		if e.Code == "" {
			e.Code = tiering.CodeForStatus(res.StatusCode)
		}
		e.Unprocessable = e.Code == tiering.CodeInvalid && res.StatusCode == http.StatusUnprocessableEntity
	default:
		var p tiering.Problem
		if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
			e = foreign(res.StatusCode, res.Header, body)
			break
		}
		e = p.Error()
	}
	e.RetryAfter = parseRetryAfter(res.Header.Get("Retry-After"), time.Now())
	return e
}

// isType reports whether an answer is of a media type, whatever its parameters.
func isType(h http.Header, want string) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == want
}

// foreign is the error of an answer that tierd did not write: a proxy's page, a
// wrong address. It never says not_found or gone: only tierd knows what it
// holds.
func foreign(status int, header http.Header, body []byte) *tiering.Error {
	code := tiering.CodeInvalid
	detail := "is the address right?"
	switch {
	case status == 401, status == 403, status == 413, status == 429:
		code, detail = tiering.CodeForStatus(status), "something in front of the node refused"
	case status == 408, status == 425, status >= 500:
		code, detail = tiering.CodeUnavailable, "something in front of the node could not reach it"
	case status >= 300 && status < 400:
		detail = "redirected to " + strconv.Quote(clip([]byte(header.Get("Location")))) + ": use that address if you trust it"
	}
	e := tiering.Errorf(code, "status %d, not an answer of tierd's: %s", status, detail)
	if text := clip(body); text != "" {
		e.Detail += ": " + strconv.Quote(text)
	}
	return e
}

// clip returns the first bytes of a text, cut between runes.
func clip(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > maxQuoted {
		b = b[:maxQuoted]
		for range utf8.UTFMax - 1 {
			if r, n := utf8.DecodeLastRune(b); r != utf8.RuneError || n != 1 {
				break
			}
			b = b[:len(b)-1]
		}
	}
	return strings.ToValidUTF8(string(b), "?")
}

// parseRetryAfter reads seconds or a date (RFC 9110, 10.2.3); 0 for neither.
func parseRetryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*tiering.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// asError returns err as an *Error; everything in this package is one.
func asError(err error) *tiering.Error {
	if e, ok := errors.AsType[*tiering.Error](err); ok {
		return e
	}
	return &tiering.Error{Code: tiering.CodeUnavailable, Err: err}
}

// transportError is the error of a try that brought no whole answer.
func transportError(ctx context.Context, err error) *tiering.Error {
	e := &tiering.Error{Code: tiering.CodeUnavailable, Err: err}
	if u, ok := errors.AsType[*url.Error](err); ok {
		e.Err = u.Err // the address and the method say nothing new
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Detail, e.Err = "the deadline passed first", ctx.Err()
	case ctx.Err() != nil:
		e.Detail, e.Err = "the caller went away", ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		e.Detail = "the node did not answer in time"
	default:
		e.Detail = "the node cannot be reached, or the connection broke"
	}
	return e
}
