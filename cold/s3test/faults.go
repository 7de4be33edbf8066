package s3test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// Faults proves that a driver is right about what a server did that answers as
// no healthy one does. It needs no server.
func Faults(t *testing.T, open Opener) {
	for _, area := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"Create", testCreate},
		{"Read", testRead},
		{"Stat", testStat},
		{"List", testList},
		{"Delete", testDelete},
		{"Ping", testPing},
		{"Open", testOpen},
		{"Credentials", testCredentials},
		{"Wire", testWire},
	} {
		t.Run(area.name, func(t *testing.T) { area.run(t, open) })
	}
}

const (
	accessKey = "tierdaccesskey"
	secretKey = "tierd-secret-key-value"
	tries     = 3
)

// once are the settings of all tests here: retries that do not wait.
func once() Settings { return Settings{Tries: tries, Wait: time.Microsecond} }

// environment is one with credentials and without whatever this machine has.
func environment(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": "",
		"AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "credentials"),
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_CA_BUNDLE": "",
		"MINIO_ROOT_USER": "", "MINIO_ROOT_PASSWORD": "", "MINIO_ACCESS_KEY": "", "MINIO_SECRET_KEY": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
	} {
		t.Setenv(name, value)
		if value == "" {
			if err := os.Unsetenv(name); err != nil { // empty is not unset for all of them
				t.Fatal(err)
			}
		}
	}
}

// fresh is a new server and a bucket on it, opened.
func fresh(t *testing.T, open Opener) (context.Context, *Fake, cold.Bucket) {
	t.Helper()
	environment(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	f := NewFake(t)
	b, err := open(ctx, f.Place().String(), once())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return ctx, f, b
}

var body = bytes.Repeat([]byte("0123456789abcdef"), 4096)

func create(ctx context.Context, b cold.Bucket, name string) error {
	return b.Create(ctx, name, bytes.NewReader(body), int64(len(body)))
}

// isNeither fails when an error passes for an answer about the object.
func isNeither(t *testing.T, err error) {
	t.Helper()
	if err == nil || errors.Is(err, cold.ErrExist) || errors.Is(err, cold.ErrNotExist) {
		t.Errorf("%v, want an error that says nothing about the object", err)
	}
}

// says requires a part of an error's text, and that no secret is in it.
func says(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v, want it to say %q", err, part)
	}
	if err != nil && strings.Contains(err.Error(), secretKey) {
		t.Errorf("the error holds the secret key: %v", err)
	}
}

func put(times int, do doing) Fault {
	return Fault{Method: http.MethodPut, Path: "seg/", Times: times, Do: do}
}

func get(times int, do doing) Fault {
	return Fault{Method: http.MethodGet, Path: "seg/", Times: times, Do: do}
}

func head(times int, do doing) Fault {
	return Fault{Method: http.MethodHead, Path: "seg/", Times: times, Do: do}
}

// outcome is what a Create must come to.
type outcome int

const (
	stored   outcome = iota // nil, and the object is there
	foreign                 // ErrExist, and the other object stays
	failed                  // an error, nothing there
	doubtful                // an error, and something may be there
)

func testCreate(t *testing.T, open Opener) {
	storeForeign := func(f *Fake) doing {
		return func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) {
			f.Store("p/seg/a", "a stranger's")
			panic(http.ErrAbortHandler)
		}
	}
	storeOther := func(f *Fake) doing {
		return func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
			serve(w) // the other's Create, whose answer is this one's
			f.mark("p/seg/a", "another")
			panic(http.ErrAbortHandler)
		}
	}
	for _, c := range []struct {
		name   string
		faults func(f *Fake) []Fault
		want   outcome
		code   tiering.Code
		says   string
	}{
		{"nothing", nil, stored, "", ""},
		{"503 twice", one(put(2, answer(503, "SlowDown"))), stored, "", ""},
		{"500 for ever", one(put(0, answer(500, "InternalError"))), failed, "", "500"},
		{"429 once", one(put(1, answer(429, "TooManyRequests"))), stored, "", ""},
		{"stored, but 500 is answered", one(put(1, done(500, "InternalError"))), stored, "", ""},
		{"stored, and the connection is reset", one(put(1, reset(true))), stored, "", ""},
		{"stored, and the connection is reset twice", one(put(2, reset(true))), stored, "", ""},
		{"the connection is reset before", one(put(1, reset(false))), stored, "", ""},
		{"reset for ever", one(put(0, reset(false))), failed, "", ""},
		{"200 with an error in the body, once", one(put(1, answer(200, "InternalError"))), stored, "", ""},
		{"200 with an error in the body, for ever", one(put(0, answer(200, "InternalError"))), failed, "", ""},
		{"200, and nothing is stored", one(put(0, func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) {})), failed, "", "not there"},
		{"200, and a part is stored", one(head(0, headed("65535"))), doubtful, "", "of 65536"},
		{"200, and the check fails for a moment", one(head(1, answer(503, ""))), stored, "", ""},
		{"409 once", one(put(1, answer(409, "ConditionalRequestConflict"))), stored, "", ""},
		{"409 for ever", one(put(0, answer(409, "ConditionalRequestConflict"))), failed, "", "409"},
		{"412", one(put(1, answer(412, "PreconditionFailed"))), foreign, "", ""},
		{"304 in place of 412", one(put(1, answer(304, ""))), foreign, "", ""},
		{"412 behind a 409", one(put(1, answer(409, "ConditionalRequestConflict")), put(1, answer(412, "PreconditionFailed"))), foreign, "", ""},
		{"reset, while another writer wins", func(f *Fake) []Fault { return []Fault{put(1, storeOther(f))} }, foreign, "", ""},
		{"reset, while something without a mark lands", func(f *Fake) []Fault { return []Fault{put(1, storeForeign(f))} }, doubtful, "", "who wrote it"},
		{"a clock that is off", one(put(0, answer(403, "RequestTimeTooSkewed"))), failed, "", "clocks"},
		{"no permission", one(put(0, answer(403, "AccessDenied"))), failed, "", "PutObject"},
		{"a wrong secret", one(put(0, answer(403, "SignatureDoesNotMatch"))), failed, "", "secret key is wrong"},
		{"another region", one(put(0, answer(301, "PermanentRedirect"))), failed, "", "region="},
		{"a full disk", one(put(0, answer(507, "XMinioStorageFull"))), failed, tiering.CodeOutOfSpace, "full"},
		{"a quota", one(put(0, answer(403, "QuotaExceeded"))), failed, tiering.CodeOutOfSpace, "quota"},
		{"a body damaged on its way, once", one(put(1, answer(400, "BadDigest"))), stored, "", ""},
		{"a body damaged for ever", one(put(0, answer(400, "XAmzContentSHA256Mismatch"))), failed, "", "XAmzContentSHA256Mismatch"},
		{"something that is not implemented", one(put(0, answer(501, "NotImplemented"))), failed, "", "501"},
		{"the bucket is gone", one(put(0, answer(404, "NoSuchBucket"))), failed, "", "NoSuchBucket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, f, b := fresh(t, open)
			if c.faults != nil {
				f.Inject(c.faults(f)...)
			}
			err := create(ctx, b, "seg/a")
			f.Clear(t)
			switch c.want {
			case stored:
				if err != nil {
					t.Fatalf("create: %v", err)
				}
				if got, err := b.Read(ctx, "seg/a", 0, -1); err != nil || !bytes.Equal(got, body) {
					t.Fatalf("read: %d bytes, %v", len(got), err)
				}
			case foreign:
				if !errors.Is(err, cold.ErrExist) {
					t.Fatalf("create: %v, want ErrExist", err)
				}
			default:
				isNeither(t, err)
				if c.want == failed && f.Versions("p/seg/a") > 0 {
					t.Error("the object is there")
				}
			}
			if tiering.CodeOf(err) != c.code {
				t.Errorf("code %q of %v, want %q", tiering.CodeOf(err), err, c.code)
			}
			if c.says != "" {
				says(t, err, c.says)
			}
		})
	}
	t.Run("what cannot get better is asked for once", func(t *testing.T) {
		for _, status := range []int{400, 403, 404, 405, 412, 501, 507} {
			ctx, f, b := fresh(t, open)
			f.Inject(put(0, answer(status, "Whatever")))
			before := len(f.Requests())
			if err := create(ctx, b, "seg/a"); err == nil {
				t.Errorf("%d: no error", status)
			}
			if n := len(f.Requests()) - before; n != 1 {
				t.Errorf("%d: %d requests", status, n)
			}
		}
	})
	t.Run("what may get better is tried as often as was said", func(t *testing.T) {
		ctx, f, b := fresh(t, open)
		f.Inject(put(0, answer(503, "SlowDown")))
		before := len(f.Requests())
		isNeither(t, create(ctx, b, "seg/a"))
		if n := len(f.Requests()) - before; n != tries {
			t.Errorf("%d requests, want %d", n, tries)
		}
	})
}

// one is faults that do not depend on the server.
func one(faults ...Fault) func(*Fake) []Fault { return func(*Fake) []Fault { return faults } }

// mark changes who an object says it is from.
func (f *Fake) mark(key, by string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.newest("bucket/" + key); o != nil {
		o.header.Set("X-Amz-Meta-Tierd-Write", by)
	}
}
