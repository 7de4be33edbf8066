package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tierd/tierd/tiering"
)

// once is a client's options without a second try.
var once = &Options{Retry: Retry{Attempts: 1}}

func TestAProblemComesBackAsTheErrorItWasMadeFrom(t *testing.T) {
	whole := &tiering.Error{
		Code: tiering.CodeInvalid, Detail: "two faults", Pointer: "/a/b", Unprocessable: true,
		Faults: []tiering.Fault{{Pointer: "/a", Detail: "too short"}}, Siblings: []string{"c"},
	}
	cases := []*tiering.Error{
		whole,
		{Code: tiering.CodeVersionConflict, Detail: "another stands", CurrentVersion: 9007199254740993, Batch: true, FailedOp: 3},
		{Code: tiering.CodeUnavailable, Detail: "warm is away", RetryAfter: 7 * time.Second},
	}
	for _, code := range tiering.Codes() {
		cases = append(cases, &tiering.Error{Code: code, Detail: "because"})
	}
	for _, want := range cases {
		t.Run(string(want.Code), func(t *testing.T) {
			c, _ := dial(t, once, problem(want))
			_, err := c.Get(t.Context(), "n", "k", nil)
			var got *tiering.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v", err)
			}
			if got.Op != "get" || got.Key != (tiering.Key{Namespace: "n", ID: "k"}) {
				t.Errorf("op %q, key %v", got.Op, got.Key)
			}
			same := *want
			same.Op, same.Key = got.Op, got.Key
			if got.Error() != same.Error() || got.Status() != same.Status() || got.CurrentVersion != want.CurrentVersion ||
				got.Batch != want.Batch || got.FailedOp != want.FailedOp || got.RetryAfter != want.RetryAfter ||
				len(got.Faults) != len(want.Faults) || len(got.Siblings) != len(want.Siblings) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAnAnswerToHeadHasNoBody(t *testing.T) {
	for _, c := range []struct {
		status int
		header string // Tierd-Code
		want   tiering.Code
	}{
		{404, "", tiering.CodeNotFound},
		{412, "", tiering.CodeVersionConflict},
		{400, "", tiering.CodeInvalid},
		{400, "unsupported", tiering.CodeUnsupported},
		{422, "", tiering.CodeInvalid},
		{500, "corrupt", tiering.CodeCorrupt},
		{500, "", tiering.CodeUnavailable},
		{503, "", tiering.CodeUnavailable},
	} {
		cl, _ := dial(t, once, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			if c.header != "" {
				w.Header().Set("Tierd-Code", c.header)
			}
			w.WriteHeader(c.status)
		})
		if _, err := cl.Head(t.Context(), "n", "k", nil); tiering.CodeOf(err) != c.want {
			t.Errorf("%d %q: got %v, want %s", c.status, c.header, err, c.want)
		}
	}
}

// What a proxy or a wrong address says is never taken for tierd's word on what
// it holds.
func TestAForeignAnswer(t *testing.T) {
	page := "<html><body>" + strings.Repeat("ü", 500) + "</body></html>"
	for _, c := range []struct {
		status int
		want   tiering.Code
	}{
		{200, tiering.CodeInvalid}, {404, tiering.CodeInvalid}, {405, tiering.CodeInvalid}, {409, tiering.CodeInvalid},
		{410, tiering.CodeInvalid}, {412, tiering.CodeInvalid}, {418, tiering.CodeInvalid},
		{401, tiering.CodeUnauthenticated}, {403, tiering.CodeForbidden}, {413, tiering.CodeTooLarge}, {429, tiering.CodeRateLimited},
		{408, tiering.CodeUnavailable}, {500, tiering.CodeUnavailable}, {502, tiering.CodeUnavailable}, {503, tiering.CodeUnavailable}, {504, tiering.CodeUnavailable},
	} {
		cl, _ := dial(t, once, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(c.status)
			io.WriteString(w, page)
		})
		for op, call := range map[string]func() error{
			"get":  func() error { _, err := cl.Get(t.Context(), "n", "k", nil); return err },
			"put":  func() error { _, err := cl.Put(t.Context(), "n", "k", []byte(`1`), nil); return err },
			"list": func() error { _, err := cl.List(t.Context(), "n", nil); return err },
			"head": func() error { _, err := cl.Head(t.Context(), "n", "k", nil); return err },
		} {
			err := call()
			if tiering.CodeOf(err) != c.want {
				t.Errorf("%s %d: got %v, want %s", op, c.status, err, c.want)
				continue
			}
			text := err.Error()
			if !utf8.ValidString(text) || len(text) > 500 {
				t.Errorf("%s %d: %d bytes: %s", op, c.status, len(text), text)
			}
			if op == "get" && !strings.Contains(text, "<html>") {
				t.Errorf("%s %d: %s shows nothing of the page", op, c.status, text)
			}
		}
	}
	t.Run("a problem of another service", func(t *testing.T) {
		cl, _ := dial(t, once, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"title":"no such host"}`)
		})
		if _, err := cl.Get(t.Context(), "n", "k", nil); !errors.Is(err, tiering.ErrInvalid) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestClipCutsBetweenRunes(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		"  short \n":                          "short",
		strings.Repeat("a", 300):              strings.Repeat("a", 200),
		"a" + strings.Repeat("ü", 200):        "a" + strings.Repeat("ü", 99),
		strings.Repeat("a", 198) + "\u20ac":   strings.Repeat("a", 198),
		strings.Repeat("a", 199) + "\xff\xff": strings.Repeat("a", 199),
		"\xff\xfe text":                       "? text",
	} {
		if got := clip([]byte(in)); got != want {
			t.Errorf("%.20q: got %q, want %q", in, got, want)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-3": 0, "soon": 0, "99999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := parseRetryAfter(in, now); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestErrorsOfATransportKeepTheirCause(t *testing.T) {
	c := dialTo(t, "http://node", &Options{Retry: Retry{Attempts: 1}, HTTPClient: &http.Client{
		Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })}})
	_, err := c.Get(context.Background(), "n", "k", nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, tiering.ErrUnavailable) {
		t.Fatal(err)
	}
}
