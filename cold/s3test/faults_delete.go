package s3test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/tierd/tierd/cold"
)

func testDelete(t *testing.T, open Opener) {
	const versions = "versions"
	deny := func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write([]byte(`<DeleteResult><Error><Key>p/seg/a</Key><VersionId>v000001</VersionId><Code>AccessDenied</Code><Message>object lock</Message></Error></DeleteResult>`))
	}
	for _, c := range []struct {
		name   string
		fault  func(f *Fake) Fault
		keeps  int // versions of a bucket that keeps them; 0: one that does not
		fails  bool
		remain int
	}{
		{"an object of a plain bucket", nil, 0, false, 0},
		{"all versions", nil, 3, false, 0},
		{"more versions than one request deletes", nil, 2345, false, 0},
		{"503 twice", func(*Fake) Fault {
			return Fault{Method: http.MethodDelete, Times: 2, Do: answer(503, "SlowDown")}
		}, 0, false, 0},
		{"503 for ever", func(*Fake) Fault {
			return Fault{Method: http.MethodDelete, Do: answer(503, "SlowDown")}
		}, 0, true, 1},
		{"deleted, and the answer is lost", func(*Fake) Fault {
			return Fault{Method: http.MethodDelete, Times: 1, Do: reset(true)}
		}, 0, false, 0},
		{"an error in the place of the versions", func(*Fake) Fault {
			return Fault{Query: versions, Do: answer(200, "InternalError")}
		}, 3, true, 3},
		{"200 with an error in the body", func(*Fake) Fault {
			return Fault{Method: http.MethodDelete, Do: answer(200, "InternalError")}
		}, 0, true, 1},
		{"204, and it is still there", func(*Fake) Fault {
			return Fault{Method: http.MethodDelete, Do: func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
				w.WriteHeader(http.StatusNoContent)
			}}
		}, 0, true, 1},
		{"a batch of which one version stays", func(*Fake) Fault {
			return Fault{Method: http.MethodPost, Query: "delete", Do: deny}
		}, 3, true, 3},
		{"no permission to list versions", func(*Fake) Fault {
			return Fault{Query: versions, Do: answer(403, "AccessDenied")}
		}, 0, true, 1},
		{"a server that lists no versions", func(*Fake) Fault {
			return Fault{Query: versions, Do: answer(501, "NotImplemented")}
		}, 0, false, 0},
		{"a listing that lags behind for a moment", func(f *Fake) Fault {
			return Fault{Query: versions, Times: 2, Do: stale(f)}
		}, 3, false, 0},
		{"a listing that lags behind for ever", func(f *Fake) Fault {
			return Fault{Query: versions, Do: stale(f)}
		}, 3, true, 3},
		{"the bucket is gone", func(*Fake) Fault {
			return Fault{Query: versions, Do: answer(404, "NoSuchBucket")}
		}, 0, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, f, b := fresh(t, open)
			if c.keeps > 0 {
				f.KeepVersions()
			}
			if err := create(ctx, b, "seg/a"); err != nil {
				t.Fatal(err)
			}
			for range c.keeps - 1 {
				f.Store("p/seg/a", "overwritten")
			}
			f.Store("p/seg/a.b", "a neighbour")
			if c.fault != nil {
				f.Inject(c.fault(f))
			}
			err := b.Delete(ctx, "seg/a")
			f.Clear(t)
			if c.fails {
				isNeither(t, err)
				if errors.Is(err, context.DeadlineExceeded) {
					t.Error("it was tried until the time was over")
				}
			} else if err != nil {
				t.Errorf("delete: %v", err)
			}
			if n := f.Versions("p/seg/a"); n != c.remain {
				t.Errorf("%d versions are left, want %d", n, c.remain)
			}
			if f.Versions("p/seg/a.b") != 1 {
				t.Error("the neighbour is gone")
			}
			if c.fails {
				return
			}
			if err := b.Delete(ctx, "seg/a"); err != nil {
				t.Errorf("delete again: %v", err)
			}
			if _, err := b.Stat(ctx, "seg/a"); !errors.Is(err, cold.ErrNotExist) {
				t.Errorf("stat: %v", err)
			}
		})
	}
}

func testPing(t *testing.T, open Opener) {
	undigested := answered(func(h http.Header, b []byte) []byte {
		h.Del("X-Amz-Meta-Tierd-Sha256")
		return bytes.ToLower(b)
	})
	for _, c := range []struct {
		name  string
		fault Fault
		says  string // "": it succeeds
	}{
		{"nothing goes wrong", Fault{}, ""},
		{"503 once", Fault{Method: http.MethodPut, Times: 1, Do: answer(503, "SlowDown")}, ""},
		{"it cannot be written", Fault{Method: http.MethodPut, Do: answer(403, "AccessDenied")}, "403"},
		{"it cannot be read", Fault{Method: http.MethodGet, Do: answer(403, "AccessDenied")}, "403"},
		{"it cannot be deleted from", Fault{Method: http.MethodDelete, Do: answer(403, "AccessDenied")}, "403"},
		{"what is read is not what was written", Fault{Method: http.MethodGet, Do: flipped()}, "not those that were written"},
		{"that, and no digest beside it", Fault{Method: http.MethodGet, Do: undigested}, "comes back different"},
		{"nobody answers", Fault{Do: reset(false)}, ""},
		{"it is full", Fault{Method: http.MethodPut, Do: answer(507, "XMinioStorageFull")}, "out_of_space"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, f, b := fresh(t, open)
			f.KeepVersions()
			if c.fault.Do != nil {
				f.Inject(c.fault)
			}
			err := b.Ping(ctx)
			if fails := c.fault.Times == 0 && c.fault.Do != nil; fails != (err != nil) {
				t.Fatalf("ping: %v", err)
			}
			if c.says != "" {
				says(t, err, c.says)
			}
			f.Clear(t)
			if err := b.Ping(ctx); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if n := f.Under("p/~tierd/ping"); c.fault.Method != http.MethodDelete && n > 0 {
				t.Errorf("pings left %d versions", n)
			}
			if names, err := collect(ctx, b); err != nil || len(names) > 0 {
				t.Errorf("pings show: %q, %v", names, err)
			}
		})
	}
}
