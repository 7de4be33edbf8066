package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

func testRead(t *testing.T, open Opener) {
	html := answered(func(h http.Header, _ []byte) []byte {
		h.Set("Content-Type", "text/html")
		h.Del("Content-Length")
		return []byte("<html>not found</html>")
	})
	wholeFor := func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) {
		r.Header.Del("Range")
		serve(w)
	}
	shifted := answered(func(h http.Header, b []byte) []byte {
		h.Set("Content-Range", strings.Replace(h.Get("Content-Range"), "bytes 100-1099", "bytes 200-1199", 1))
		return b
	})
	for _, c := range []struct {
		name   string
		fault  Fault
		ranged bool // bytes 100 to 1099, and not all
		want   error
		says   string // with a nil want: any error that says this; "": it succeeds
	}{
		{"503 twice", get(2, answer(503, "SlowDown")), false, nil, ""},
		{"503 for ever", get(0, answer(503, "SlowDown")), false, nil, "503"},
		{"reset once", get(1, reset(false)), true, nil, ""},
		{"a body that breaks off, once", get(1, cutShort(1)), false, nil, ""},
		{"a body that breaks off, for ever", get(0, cutShort(1)), false, io.ErrUnexpectedEOF, ""},
		{"a range that breaks off, for ever", get(0, cutShort(500)), true, io.ErrUnexpectedEOF, ""},
		{"a range whose body is announced shorter", get(0, smaller(1)), true, io.ErrUnexpectedEOF, ""},
		{"an object announced shorter", get(0, smaller(1)), false, tiering.ErrCorrupt, ""},
		{"a body that is too long", get(0, longer(1)), false, tiering.ErrCorrupt, ""},
		{"a range that is too long", get(0, longer(1)), true, nil, "body of 1001 bytes"},
		{"a body without end", get(0, endless(1)), false, nil, "how long"},
		{"a range without end", get(0, endless(1)), true, nil, "more than the 1000"},
		{"a server that ignores ranges", get(0, wholeFor), true, nil, "ignores ranges"},
		{"another range", get(0, shifted), true, nil, "bytes 200-"},
		{"a wrong bit, once", get(1, flipped()), false, nil, ""},
		{"a wrong bit, for ever", get(0, flipped()), false, tiering.ErrCorrupt, ""},
		{"no permission", get(0, answer(403, "AccessDenied")), false, nil, "GetObject"},
		{"an error in the place of the object", get(0, answer(200, "InternalError")), true, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, f, b := fresh(t, open)
			if err := create(ctx, b, "seg/a"); err != nil {
				t.Fatal(err)
			}
			f.Inject(c.fault)
			offset, length, want := int64(0), int64(-1), body
			if c.ranged {
				offset, length, want = 100, 1000, body[100:1100]
			}
			got, err := b.Read(ctx, "seg/a", offset, length)
			f.Clear(t)
			switch {
			case c.want != nil || c.says != "" || c.fault.Times == 0:
				isNeither(t, err)
				if c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				says(t, err, c.says)
				if len(got) > 0 {
					t.Errorf("%d bytes beside the error", len(got))
				}
			case err != nil || !bytes.Equal(got, want):
				t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
			}
		})
	}
	t.Run("404", func(t *testing.T) {
		reads := map[string]func(context.Context, cold.Bucket) error{
			"read":  func(ctx context.Context, b cold.Bucket) error { _, err := b.Read(ctx, "seg/a", 0, -1); return err },
			"range": func(ctx context.Context, b cold.Bucket) error { _, err := b.Read(ctx, "seg/a", 7, 9); return err },
			"stat":  func(ctx context.Context, b cold.Bucket) error { _, err := b.Stat(ctx, "seg/a"); return err },
		}
		for name, read := range reads {
			t.Run(name+" of an absent object", func(t *testing.T) {
				ctx, _, b := fresh(t, open)
				if err := read(ctx, b); !errors.Is(err, cold.ErrNotExist) {
					t.Errorf("%v, want ErrNotExist", err)
				}
			})
			t.Run(name+" when the bucket is gone", func(t *testing.T) {
				ctx, f, b := fresh(t, open)
				f.DropBucket()
				err := read(ctx, b)
				isNeither(t, err)
				says(t, err, `"bucket"`)
			})
			t.Run(name+" when no S3 answers", func(t *testing.T) {
				ctx, f, b := fresh(t, open)
				f.DropBucket()
				f.Inject(Fault{Do: html})
				isNeither(t, read(ctx, b))
			})
			t.Run(name+" when the bucket cannot be asked for", func(t *testing.T) {
				ctx, f, b := fresh(t, open)
				f.Inject(Fault{Method: http.MethodHead, Path: "/bucket", Do: answer(503, "")})
				isNeither(t, read(ctx, b))
			})
		}
	})
}

func testStat(t *testing.T, open Opener) {
	ctx, f, b := fresh(t, open)
	if err := create(ctx, b, "seg/a"); err != nil {
		t.Fatal(err)
	}
	f.Inject(head(2, answer(503, "")))
	info, err := b.Stat(ctx, "seg/a")
	if err != nil || info.Name != "seg/a" || info.Size != int64(len(body)) {
		t.Errorf("after two 503: %+v, %v", info, err)
	}
	f.Inject(head(0, answer(403, "")))
	_, err = b.Stat(ctx, "seg/a")
	isNeither(t, err)
}

func testList(t *testing.T, open Opener) {
	const objects = 2300
	page := func(n int, times int, do doing) Fault {
		query := "list-type=2"
		if n > 0 {
			query = fmt.Sprintf("%05d", n*fakePage-1) // the last name of the page before
		}
		return Fault{Method: http.MethodGet, Query: query, Times: times, Do: do}
	}
	broken := answered(func(h http.Header, b []byte) []byte {
		h.Del("Content-Length")
		return b[:len(b)/2]
	})
	backwards := answered(func(_ http.Header, b []byte) []byte {
		return bytes.Replace(b, []byte("seg/00007"), []byte("seg/00003"), 1)
	})
	ctx, f, b := fresh(t, open)
	for i := range objects {
		f.Store(fmt.Sprintf("p/seg/%05d", i), "x")
	}
	f.Store("p/zREADME", "not a name of tierd")
	f.Store("q/seg/a", "of another prefix")
	for _, c := range []struct {
		name  string
		fault Fault
		names int // that come before the error
		says  string
	}{
		{"nothing goes wrong", Fault{}, objects, ""},
		{"503 at the second page, twice", page(1, 2, answer(503, "SlowDown")), objects, ""},
		{"503 at the third page, for ever", page(2, 0, answer(503, "SlowDown")), 2000, "503"},
		{"a page that breaks off, once", page(1, 1, broken), objects, ""},
		{"a page that breaks off, for ever", page(1, 0, broken), 1000, ""},
		{"a connection that breaks off", page(1, 1, reset(false)), objects, ""},
		{"an error in the place of a page, once", page(1, 1, answer(200, "SlowDown")), objects, ""},
		{"an error in the place of a page, for ever", page(1, 0, answer(200, "InternalError")), 1000, "InternalError"},
		{"names out of order", page(0, 0, backwards), 7, "behind"},
		{"the bucket is gone half way", page(1, 0, answer(404, "NoSuchBucket")), 1000, "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.fault.Do != nil {
				f.Inject(c.fault)
			}
			names, err := collect(ctx, b)
			f.Clear(t)
			if len(names) != c.names || !slices.IsSorted(names) {
				t.Errorf("%d names, want %d", len(names), c.names)
			}
			if wrong := c.names < objects; wrong != (err != nil) {
				t.Errorf("the list ends with %v", err)
			}
			if c.says != "" {
				says(t, err, c.says)
			}
		})
	}
	t.Run("a listing that lags behind does not hide an object", func(t *testing.T) {
		f.Inject(Fault{Query: "list-type=2", Do: stale(f)})
		if names, err := collect(ctx, b); err != nil || len(names) > 0 {
			t.Fatalf("the test's listing shows %d names: %v", len(names), err)
		}
		if err := create(ctx, b, "seg/new"); err != nil {
			t.Fatalf("create: %v", err)
		}
		if _, err := b.Stat(ctx, "seg/new"); err != nil {
			t.Errorf("stat: %v", err)
		}
		if err := create(ctx, b, "seg/new"); !errors.Is(err, cold.ErrExist) {
			t.Errorf("create again: %v", err)
		}
	})
}

// stale answers a listing as if the bucket were empty.
func stale(f *Fake) doing {
	return func(w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
		empty := &Fake{}
		if r.URL.Query().Has("versions") {
			empty.serveVersions(w, r.URL.Query(), "bucket")
			return
		}
		empty.serveList(w, r.URL.Query(), "bucket")
	}
}

func collect(ctx context.Context, b cold.Bucket) (names []string, err error) {
	for info, e := range b.List(ctx, "") {
		if e != nil {
			return names, e
		}
		names = append(names, info.Name)
	}
	return names, nil
}
