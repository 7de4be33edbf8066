package coldtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
)

func testCreate(t *testing.T, h Harness) {
	for _, size := range []int{0, 1, 4095, 4096, 1 << 20, 6 << 20} {
		t.Run(fmt.Sprintf("%d bytes come back", size), func(t *testing.T) {
			ctx, b := bucket(t, h)
			data := body(size, "create")
			mustCreate(ctx, t, b, "seg/a.tseg", data)
			mustHold(ctx, t, b, "seg/a.tseg", data)
		})
	}
	t.Run("a taken name stays as it is", func(t *testing.T) {
		ctx, b := bucket(t, h)
		first := body(100, "first")
		mustCreate(ctx, t, b, "seg/a", first)
		for _, again := range [][]byte{first, body(100, "other"), body(200, "longer"), nil} {
			if err := create(ctx, b, "seg/a", again); !errors.Is(err, cold.ErrExist) {
				t.Fatalf("second create with %d bytes: %v, want ErrExist", len(again), err)
			}
			mustHold(ctx, t, b, "seg/a", first)
		}
	})
	t.Run("the body is read from its start", func(t *testing.T) {
		ctx, b := bucket(t, h)
		data := body(1000, "seek")
		r := bytes.NewReader(data)
		if _, err := r.Seek(700, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if err := b.Create(ctx, "seg/a", r, int64(len(data))); err != nil {
			t.Fatalf("create: %v", err)
		}
		mustHold(ctx, t, b, "seg/a", data)
	})
	t.Run("nothing is seen before all of it is there", func(t *testing.T) {
		ctx, b := bucket(t, h)
		data := body(1<<20, "slow")
		looks := 0
		slow := &watchedBody{Reader: bytes.NewReader(data), look: func() {
			looks++
			mustLack(ctx, t, b, "seg/a")
		}}
		if err := b.Create(ctx, "seg/a", slow, int64(len(data))); err != nil {
			t.Fatalf("create: %v", err)
		}
		if looks == 0 {
			t.Fatal("the body was never read piece by piece")
		}
		mustHold(ctx, t, b, "seg/a", data)
	})
	t.Run("a body that fails leaves nothing", func(t *testing.T) {
		ctx, b := bucket(t, h)
		broken := &brokenBody{Reader: bytes.NewReader(body(1<<20, "broken")), after: 600 << 10}
		if err := b.Create(ctx, "seg/a", broken, 1<<20); err == nil {
			t.Fatal("create of a body that cannot be read succeeded")
		}
		mustLack(ctx, t, b, "seg/a")
		if names := list(ctx, t, b, ""); len(names) > 0 {
			t.Fatalf("left behind: %q", names)
		}
		mustCreate(ctx, t, b, "seg/a", body(10, "whole"))
	})
	t.Run("a body shorter than its size leaves nothing", func(t *testing.T) {
		ctx, b := bucket(t, h)
		if err := b.Create(ctx, "seg/a", bytes.NewReader(body(99, "short")), 100); err == nil {
			t.Fatal("create of 99 bytes announced as 100 succeeded")
		}
		mustLack(ctx, t, b, "seg/a")
	})
}

// watchedBody is read in pieces of at most 64 KiB, with a look before each but
// the first.
type watchedBody struct {
	*bytes.Reader
	look func()
}

func (w *watchedBody) Read(p []byte) (int, error) {
	if w.Len() > 0 && int64(w.Len()) < w.Size() {
		w.look()
	}
	return w.Reader.Read(p[:min(len(p), 64<<10)])
}

func (w *watchedBody) WriteTo(dst io.Writer) (int64, error) {
	return io.Copy(dst, struct{ io.Reader }{w})
}

var errBody = errors.New("the body cannot be read")

// brokenBody fails behind its first bytes, on every try.
type brokenBody struct {
	*bytes.Reader
	after int64
}

func (b *brokenBody) Read(p []byte) (int, error) {
	at := b.Size() - int64(b.Len())
	if at >= b.after {
		return 0, errBody
	}
	return b.Reader.Read(p[:min(int64(len(p)), b.after-at)])
}

func (b *brokenBody) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{b})
}

func (b *brokenBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.after {
		return 0, errBody
	}
	return b.Reader.ReadAt(p, off)
}

// testRace: of 24 creators of one name one wins, and a reader meanwhile sees
// nothing or the winner's whole object.
func testRace(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	const creators, rounds = 24, 3
	for round := range rounds {
		name := fmt.Sprintf("race/%d", round)
		bodies := make([][]byte, creators)
		errs := make([]error, creators)
		start := make(chan struct{})
		var g errgroup.Group
		for i := range creators {
			bodies[i] = body(200_000+i, fmt.Sprint("creator ", i))
			g.Go(func() error {
				<-start
				errs[i] = create(ctx, b, name, bodies[i])
				return nil
			})
		}
		for range 4 {
			g.Go(func() error {
				<-start
				return readWhile(ctx, b, name, bodies)
			})
		}
		close(start)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("creators %d and %d both won", winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, cold.ErrExist):
				t.Fatalf("creator %d: %v, want ErrExist", i, err)
			}
		}
		if winner < 0 {
			t.Fatal("no creator won")
		}
		mustHold(ctx, t, b, name, bodies[winner])
	}
}

// readWhile reads until the object is there, and requires one of the bodies.
func readWhile(ctx context.Context, b cold.Bucket, name string, bodies [][]byte) error {
	for {
		got, err := b.Read(ctx, name, 0, -1)
		if errors.Is(err, cold.ErrNotExist) {
			time.Sleep(100 * time.Microsecond) // leave the creators some room
			continue
		}
		if err != nil {
			return fmt.Errorf("read during the race: %w", err)
		}
		for _, want := range bodies {
			if bytes.Equal(got, want) {
				return nil
			}
		}
		return fmt.Errorf("read during the race: %d bytes that nobody wrote", len(got))
	}
}

func testRead(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	const size = 10_000
	data := body(size, "read")
	mustCreate(ctx, t, b, "seg/a", data)
	mustCreate(ctx, t, b, "seg/empty", nil)
	for _, c := range []struct {
		name           string
		object         string
		offset, length int64
		want           []byte
		err            error // nil with a nil want: any error
	}{
		{"all", "seg/a", 0, -1, data, nil},
		{"all, by its length", "seg/a", 0, size, data, nil},
		{"the first byte", "seg/a", 0, 1, data[:1], nil},
		{"the middle", "seg/a", 4000, 123, data[4000:4123], nil},
		{"the last byte", "seg/a", size - 1, 1, data[size-1:], nil},
		{"from the middle to the end", "seg/a", 4000, -1, data[4000:], nil},
		{"nothing, at the start", "seg/a", 0, 0, []byte{}, nil},
		{"nothing, in the middle", "seg/a", 17, 0, []byte{}, nil},
		{"nothing, at the end", "seg/a", size, 0, []byte{}, nil},
		{"to the end, from the end", "seg/a", size, -1, []byte{}, nil},
		{"one byte more than there is", "seg/a", 0, size + 1, nil, io.ErrUnexpectedEOF},
		{"over the end", "seg/a", size - 1, 2, nil, io.ErrUnexpectedEOF},
		{"behind the end", "seg/a", size, 1, nil, io.ErrUnexpectedEOF},
		{"far behind the end", "seg/a", size + 1000, 10, nil, io.ErrUnexpectedEOF},
		{"to the end, from behind the end", "seg/a", size + 1, -1, nil, io.ErrUnexpectedEOF},
		{"a length near the largest number", "seg/a", 1, 1<<63 - 1, nil, io.ErrUnexpectedEOF},
		{"a negative offset", "seg/a", -1, 1, nil, nil},
		{"an empty object", "seg/empty", 0, -1, []byte{}, nil},
		{"a byte of an empty object", "seg/empty", 0, 1, nil, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := b.Read(ctx, c.object, c.offset, c.length)
			switch {
			case c.want != nil && err != nil:
				t.Fatalf("read: %v", err)
			case c.want == nil && err == nil:
				t.Fatalf("read %d bytes, want an error", len(got))
			case c.err != nil && !errors.Is(err, c.err):
				t.Fatalf("read: %v, want %v", err, c.err)
			case err != nil && len(got) > 0:
				t.Fatalf("%d bytes beside the error %v", len(got), err)
			case !bytes.Equal(got, c.want):
				t.Fatalf("read %d bytes that are not the %d wanted", len(got), len(c.want))
			}
		})
	}
	t.Run("what is not there", func(t *testing.T) {
		mustLack(ctx, t, b, "seg/none")
		mustLack(ctx, t, b, "none/none")
		mustLack(ctx, t, b, "seg/a.more")
		mustLack(ctx, t, b, "se")
	})
	t.Run("the slice is the caller's own", func(t *testing.T) {
		got, err := b.Read(ctx, "seg/a", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		mustHold(ctx, t, b, "seg/a", data)
	})
}

func testStat(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	mustCreate(ctx, t, b, "seg/a", body(12_345, "stat"))
	info, err := b.Stat(ctx, "seg/a")
	if err != nil {
		t.Fatalf("stat: %v", err)
	}
	if info.Name != "seg/a" || info.Size != 12_345 {
		t.Fatalf("stat says %q of %d bytes", info.Name, info.Size)
	}
	// A server's clock may be off by some minutes, not by a day.
	if d := time.Since(info.ModTime).Abs(); d > 24*time.Hour {
		t.Fatalf("stat says modified at %s", info.ModTime)
	}
	mustLack(ctx, t, b, "seg/b")
	mustLack(ctx, t, b, "seg")
}

func testDelete(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	mustCreate(ctx, t, b, "seg/a", body(100, "a"))
	mustCreate(ctx, t, b, "seg/a.b", body(100, "b"))
	for try := range 3 {
		if err := b.Delete(ctx, "seg/a"); err != nil {
			t.Fatalf("delete %d: %v", try, err)
		}
		mustLack(ctx, t, b, "seg/a")
	}
	for _, name := range []string{"seg/never", "never/there", "seg"} {
		if err := b.Delete(ctx, name); err != nil {
			t.Fatalf("delete of absent %s: %v", name, err)
		}
	}
	if names := list(ctx, t, b, ""); !slices.Equal(names, []string{"seg/a.b"}) {
		t.Fatalf("left: %q, want seg/a.b alone", names)
	}
	again := body(50, "again")
	mustCreate(ctx, t, b, "seg/a", again)
	mustHold(ctx, t, b, "seg/a", again)
}

func testNames(t *testing.T, h Harness) {
	ctx, b := bucket(t, h)
	for _, name := range []string{
		"a", "0", "_-", "a.b", ".a", "a..b", "b/c/d/e/f", "seg/01jdq4a0g3zkq5v7x1m2n3p4r5-17.tseg",
		"long/" + strings.Repeat("x", 255),
	} {
		t.Run("good "+shorten(name), func(t *testing.T) {
			data := body(64, name)
			mustCreate(ctx, t, b, name, data)
			mustHold(ctx, t, b, name, data)
			if got := list(ctx, t, b, name); !slices.Contains(got, name) {
				t.Fatalf("list says %q", got)
			}
		})
	}
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/.", "a/..", "./a", "../a", "a/../b", "a/./b",
		"A", "a b", "a\x00b", "a\nb", "a\\b", "a:b", "a%2fb", "é", "~a", "a?b", "a*", "\xff",
		strings.Repeat("x", 256), "a/" + strings.Repeat("x", 256) + "/b",
	} {
		t.Run("bad "+shorten(fmt.Sprintf("%q", name)), func(t *testing.T) {
			refused := func(call string, err error) {
				if err == nil || errors.Is(err, cold.ErrNotExist) || errors.Is(err, cold.ErrExist) {
					t.Errorf("%s of a bad name: %v, want it refused", call, err)
				}
			}
			refused("create", create(ctx, b, name, []byte("x")))
			_, err := b.Read(ctx, name, 0, -1)
			refused("read", err)
			_, err = b.Stat(ctx, name)
			refused("stat", err)
			refused("delete", b.Delete(ctx, name))
		})
	}
}

func shorten(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%s... of %d bytes", s[:40], len(s))
	}
	return s
}
