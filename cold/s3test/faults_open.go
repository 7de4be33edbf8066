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

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/tiering"
)

// close1 closes a bucket that opened.
func close1(t *testing.T, b cold.Bucket, err error) {
	t.Helper()
	if err != nil {
		return
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func testOpen(t *testing.T, open Opener) {
	ignores := Fault{Method: http.MethodPut, Do: unconditional}
	t.Run("a server that ignores conditions is refused", func(t *testing.T) {
		environment(t)
		f := NewFake(t)
		f.Inject(ignores)
		b, err := open(t.Context(), f.Place().String(), once())
		close1(t, b, err)
		if !errors.Is(err, tiering.ErrUnsupported) {
			t.Fatalf("open: %v, want unsupported", err)
		}
		says(t, err, "If-None-Match")
	})
	t.Run("unless that is accepted", func(t *testing.T) {
		environment(t)
		f := NewFake(t)
		f.Inject(ignores)
		s := once()
		s.AllowOverwrite = true
		b, err := open(t.Context(), f.Place().String(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := create(t.Context(), b, "seg/a"); err != nil {
			t.Errorf("create: %v", err)
		}
		if err := create(t.Context(), b, "seg/a"); !errors.Is(err, cold.ErrExist) {
			t.Errorf("create again: %v, want ErrExist", err)
		}
	})
	t.Run("a server that is known to honour them is asked once", func(t *testing.T) {
		_, f, b := fresh(t, open)
		before := len(f.Requests())
		again, err := open(t.Context(), f.Place().String(), once())
		close1(t, again, err)
		if n := len(f.Requests()) - before; err != nil || n != 2 {
			t.Errorf("%v after %d requests, want a look at the bucket and one refused write", err, n)
		}
		_ = b
	})
	t.Run("a missing bucket is named", func(t *testing.T) {
		environment(t)
		f := NewFake(t)
		p := f.Place()
		p.Bucket = "none"
		b, err := open(t.Context(), p.String(), once())
		close1(t, b, err)
		isNeither(t, err)
		says(t, err, `"none"`)
		s := once()
		s.EnsureBucket = true
		for range 2 {
			b, err = open(t.Context(), p.String(), s)
			close1(t, b, err)
			if err != nil {
				t.Errorf("with EnsureBucket: %v", err)
			}
		}
	})
	t.Run("a server that is away does not keep the bucket from opening", func(t *testing.T) {
		environment(t)
		f := NewFake(t)
		f.Inject(Fault{Do: reset(false)})
		b, err := open(t.Context(), f.Place().String(), once())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer b.Close()
		isNeither(t, b.Ping(t.Context()))
		isNeither(t, create(t.Context(), b, "seg/a"))
		f.Clear(t)
		if err := create(t.Context(), b, "seg/a"); err != nil {
			t.Errorf("when it is back: %v", err)
		}
	})
	t.Run("but what it would have refused is refused at the first write", func(t *testing.T) {
		environment(t)
		f := NewFake(t)
		f.Inject(Fault{Times: tries, Do: reset(false)}, ignores)
		b, err := open(t.Context(), f.Place().String(), once())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer b.Close()
		if err := create(t.Context(), b, "seg/a"); !errors.Is(err, tiering.ErrUnsupported) {
			t.Errorf("create: %v, want unsupported", err)
		}
	})
	t.Run("credentials that may only read can read", func(t *testing.T) {
		ctx, f, writer := fresh(t, open)
		if err := create(ctx, writer, "seg/a"); err != nil {
			t.Fatal(err)
		}
		f.Inject(Fault{Method: http.MethodPut, Do: answer(403, "AccessDenied")})
		b, err := open(ctx, f.Place().String(), once())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer b.Close()
		if got, err := b.Read(ctx, "seg/a", 0, -1); err != nil || !bytes.Equal(got, body) {
			t.Errorf("read: %d bytes, %v", len(got), err)
		}
		isNeither(t, create(ctx, b, "seg/b"))
	})
	t.Run("a context that has ended", func(t *testing.T) {
		environment(t)
		f := NewFake(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b, err := open(ctx, f.Place().String(), once())
		close1(t, b, err)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
	})
	t.Run("a closed bucket", func(t *testing.T) {
		ctx, _, b := fresh(t, open)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		isNeither(t, create(ctx, b, "seg/a"))
		_, err := b.Stat(ctx, "seg/a")
		isNeither(t, err)
		_, err = collect(ctx, b)
		isNeither(t, err)
	})
	t.Run("TLS", func(t *testing.T) {
		environment(t)
		f, pem := NewTLSFake(t)
		b, err := open(t.Context(), f.Place().String(), once())
		close1(t, b, err)
		says(t, err, "certificate")
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("AWS_CA_BUNDLE", file)
		b, err = open(t.Context(), f.Place().String(), once())
		if err != nil {
			t.Fatalf("with AWS_CA_BUNDLE: %v", err)
		}
		defer b.Close()
		if err := create(t.Context(), b, "seg/a"); err != nil {
			t.Errorf("create: %v", err)
		}
	})
}

func testCredentials(t *testing.T, open Opener) {
	files := func(t *testing.T) {
		t.Helper()
		for name, text := range map[string]string{
			"AWS_SHARED_CREDENTIALS_FILE": "[default]\naws_access_key_id = defaultkey\naws_secret_access_key = s\n[backup]\naws_access_key_id = backupkey\naws_secret_access_key = s\n",
			"AWS_CONFIG_FILE":             "[default]\n[profile backup]\n",
		} {
			if err := os.WriteFile(os.Getenv(name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	unset := func(t *testing.T) {
		t.Helper()
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		prepare []func(*testing.T)
		profile string
		region  string
		want    string // in the Authorization header; "": invalid
	}{
		{"the environment", nil, "", "", accessKey + "/"},
		{"the environment before files", []func(*testing.T){files}, "", "", accessKey + "/"},
		{"files", []func(*testing.T){files, unset}, "", "", "defaultkey/"},
		{"a profile before the environment", []func(*testing.T){files}, "backup", "", "backupkey/"},
		{"a profile that AWS_PROFILE names", []func(*testing.T){files, unset, func(t *testing.T) { t.Setenv("AWS_PROFILE", "backup") }}, "", "", "backupkey/"},
		{"a profile that is not there", []func(*testing.T){files}, "none", "", ""},
		{"none", []func(*testing.T){unset}, "", "", ""},
		{"us-east-1 when no region is named", nil, "", "", "/us-east-1/s3/"},
		{"the region of the URL", nil, "", "eu-west-3", "/eu-west-3/s3/"},
		{"the region of the environment", []func(*testing.T){func(t *testing.T) { t.Setenv("AWS_REGION", "eu-west-4") }}, "", "", "/eu-west-4/s3/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			environment(t)
			f := NewFake(t)
			for _, prepare := range c.prepare {
				prepare(t)
			}
			p := f.Place()
			p.Profile, p.Region = c.profile, c.region
			b, err := open(t.Context(), p.String(), once())
			close1(t, b, err)
			if c.want == "" {
				if !errors.Is(err, tiering.ErrInvalid) || len(f.Requests()) > 0 {
					t.Errorf("%v after %d requests, want invalid", err, len(f.Requests()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Requests() {
				if auth := r.Header.Get("Authorization"); !strings.Contains(auth, c.want) {
					t.Errorf("%s %s is signed %q, want %q", r.Method, r.URL, auth, c.want)
				}
			}
		})
	}
	t.Run("a URL that cannot be read", func(t *testing.T) {
		environment(t)
		for _, url := range []string{"", "dir:/x", "s3://", (s3url.Place{Bucket: "bucket", Client: "other"}).String()} {
			b, err := open(t.Context(), url, once())
			close1(t, b, err)
			if !errors.Is(err, tiering.ErrInvalid) {
				t.Errorf("%q: %v, want invalid", url, err)
			}
		}
	})
}

// testWire looks at what goes over the wire.
func testWire(t *testing.T, open Opener) {
	ctx, f, b := fresh(t, open)
	large := bytes.Repeat([]byte("large"), 4<<20) // what libraries send in parts
	before := len(f.Requests())
	if err := b.Create(ctx, "seg/large", struct{ *bytes.Reader }{bytes.NewReader(large)}, int64(len(large))); err != nil {
		t.Fatal(err)
	}
	puts := 0
	for _, r := range f.Requests()[before:] {
		if r.Method == http.MethodPost {
			t.Errorf("%s %s: an upload in parts", r.Method, r.URL)
		}
		if r.Method != http.MethodPut {
			continue
		}
		puts++
		h := r.Header
		switch {
		case r.ContentLength != int64(len(large)), len(r.TransferEncoding) > 0:
			t.Errorf("Content-Length %d, %q", r.ContentLength, r.TransferEncoding)
		case h.Get("If-None-Match") != "*", h.Get("X-Amz-Checksum-Sha256") == "", h.Get("X-Amz-Meta-Tierd-Write") == "", h.Get("X-Amz-Meta-Tierd-Sha256") == "":
			t.Errorf("headers %v", h)
		}
	}
	if puts != 1 {
		t.Errorf("%d PUTs, want 1", puts)
	}
	before = len(f.Requests())
	if _, err := b.Read(ctx, "seg/large", 1000, 64<<10); err != nil {
		t.Fatal(err)
	}
	if n := len(f.Requests()) - before; n != 1 {
		t.Errorf("a ranged read made %d requests", n)
	}
	if err := b.Create(ctx, "seg/huge", bytes.NewReader(nil), 5<<30+1); !errors.Is(err, tiering.ErrTooLarge) {
		t.Errorf("an object of more than 5 GiB: %v, want too_large", err)
	}
}
