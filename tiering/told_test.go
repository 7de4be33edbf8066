package tiering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whatever goes wrong in a tier, its caller is told what and what to do.
func TestEveryErrorHasADetail(t *testing.T) {
	for _, tier := range []Tier{"", Hot, Warm, Cold, Vector} {
		for _, code := range Codes() {
			var e *Error
			if !errors.As(Wrap(&Error{Code: code}, "get", tier, Key{}), &e) || len(e.Detail) < 10 {
				t.Errorf("%s in %q: %v", code, tier, e)
			}
		}
		for _, cause := range []error{errors.New("open /var/lib/x: denied"), context.DeadlineExceeded, context.Canceled} {
			var e *Error
			if !errors.As(Wrap(cause, "get", tier, Key{}), &e) || len(e.Detail) < 10 || strings.Contains(e.Detail, "/var") {
				t.Errorf("%v in %q: %v", cause, tier, e)
			}
		}
	}
	if e := ErrNotFound; e.Detail != "" {
		t.Errorf("wrapping changed the sentinel: %v", e)
	}
}

func TestToldLeavesTheCauseOut(t *testing.T) {
	for _, err := range []error{
		errors.New("open /var/lib/x: denied"),
		&Error{Op: "ping", Tier: Cold, Code: CodeUnavailable, Err: errors.New("dial 10.0.0.7")},
		errors.Join(errors.New("/var/lib/x"), &Error{Code: CodeOutOfSpace, Detail: "the disk is full", Err: errors.New("/var/lib/x")}),
	} {
		if got := Told(err); strings.ContainsAny(got, "/0") || !strings.Contains(got, ": ") {
			t.Errorf("%v is told as %q", err, got)
		}
	}
	if Told(nil) != "" {
		t.Errorf("nothing wrong is told as %q", Told(nil))
	}
}

func TestBodyFaultNamesNoGoType(t *testing.T) {
	var into struct {
		A struct {
			N int64 `json:"n"`
		} `json:"a"`
		At  time.Time `json:"at"`
		TTL Duration  `json:"ttl"`
		MemoryBody
	}
	for body, want := range map[string]string{
		`{"a":{"n":1.0}}`:      "/a/n: number 1.0 is not what this field takes",
		`{"a":[]}`:             "/a: array is not what this field takes",
		`{"at":"noon"}`:        ": not a time such as 2026-01-31T12:00:00Z",
		`{"ttl":"soon"}`:       `: duration "soon": use whole seconds, or a number with s, m, h or d such as 30m or 7d`,
		`{"colour":1}`:         "/colour: unknown field",
		`{"embedding":[1e39]}`: "/embedding: number 1e39 is too large: use numbers of single precision, up to 3.4e38",
		`{"a":{"n":1}`:         ": the body does not have the form that is asked for",
		`{"a":{"n":1e99}}`:     "/a/n: number 1e99 is not what this field takes",
	} {
		dec := json.NewDecoder(strings.NewReader(body))
		dec.DisallowUnknownFields()
		e := BodyFault(dec.Decode(&into))
		if got := e.Pointer + ": " + e.Detail; got != want || e.Status() != 422 {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestAKeyIsWrittenAsUsersWriteIt(t *testing.T) {
	for want, k := range map[string]Key{"docs/a/1": {Namespace: "docs", ID: "a/1"}, "docs": {Namespace: "docs"}, "": {}} {
		if got := fmt.Sprint(k); got != want {
			t.Errorf("%+v is written %q, want %q", k, got, want)
		}
	}
	if got := (&Error{Op: "list", Key: Key{Namespace: "docs"}, Code: CodeForbidden}).Error(); got != "list docs: forbidden" {
		t.Errorf("an error of a namespace reads %q", got)
	}
}

// What describes no version says nothing of its bytes and times.
func TestAbsentValuesAreLeftOutOfJSON(t *testing.T) {
	for _, v := range []any{
		Receipt{Meta: Meta{Namespace: "docs", ID: "a"}}, Document{Meta: Meta{Namespace: "docs", ID: "a"}, Default: "absent"},
		VersionInfo{Version: 3, Op: OpDelete, CreatedAt: time.Unix(1, 0)}, Explanation{}, Edited{},
	} {
		b, err := json.Marshal(v)
		if err != nil || strings.Contains(string(b), "digest") || strings.Contains(string(b), "0001-01-01") || strings.Contains(string(b), "null") {
			t.Errorf("%T is %s, %v", v, b, err)
		}
	}
}
