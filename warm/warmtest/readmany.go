package warmtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func testReadsOfMany(t *testing.T, h Harness) {
	a, b, never := key("a"), key("b"), key("never")
	fill := func(t *testing.T) *fixture {
		f := setup(t, h)
		f.must(a, put(`"a1"`))
		f.must(b, put(`"b1"`))
		row := put(`"a2 ` + strings.Repeat("long ", 2000) + `"`)
		row.User = ""
		f.must(a, row)
		f.must(b, op(tiering.OpDelete))
		f.must(b, put(`"b3"`))
		return f
	}
	ask := func(of ...any) (out []warm.KeyVersion) {
		for i := 0; i < len(of); i += 2 {
			out = append(out, warm.KeyVersion{Key: of[i].(tiering.Key), Version: int64(of[i+1].(int))})
		}
		return out
	}
	t.Run("answers what Version answers, in the order asked", func(t *testing.T) {
		f := fill(t)
		f.ensure("globex", space)
		theirs := tiering.Key{Tenant: "globex", Namespace: space, ID: "a"}
		f.must(theirs, put(`"theirs"`))
		of := ask(b, 3, a, 2, never, 1, a, 1, theirs, 1, b, 2, a, 9, b, 1, a, 1, never, 2)
		got, err := f.store.ReadVersions(f.ctx, of, 1<<20)
		f.no(err)
		equal(f, "versions read", len(got), len(of))
		for i, o := range of {
			want, ok, err := f.store.Version(f.ctx, o.Key, o.Version)
			f.no(err)
			if !ok {
				want = warm.Version{}
			}
			if !reflect.DeepEqual(got[i], want) {
				t.Fatalf("%s version %d is read as %+v, and alone as %+v", o.Key, o.Version, got[i], want)
			}
		}
	})
	t.Run("nothing", func(t *testing.T) {
		f := fill(t)
		got, err := f.store.ReadVersions(f.ctx, nil, 1<<20)
		f.no(err)
		equal(f, "versions of none", len(got), 0)
		got, err = f.store.ReadVersions(f.ctx, ask(never, 1, never, 2), 1)
		f.no(err)
		equal(f, "versions of a key that never was", len(got), 2)
		equal(f, "the first", got[0].Version+got[1].Version, 0)
	})
	t.Run("no more bytes than asked for, but for the last", func(t *testing.T) {
		f := fill(t)
		long := int(f.load(a).Head.Size)
		of := ask(a, 1, never, 1, b, 1, a, 2, b, 3)
		for _, c := range []struct{ limit, want int }{
			{0, 1}, {1, 1}, {4, 1}, {5, 3}, {8, 3}, {9, 4}, {8 + long, 4}, {9 + long, 5},
		} {
			got, err := f.store.ReadVersions(f.ctx, of, int64(c.limit))
			f.no(err)
			equal(f, fmt.Sprintf("versions read for %d bytes", c.limit), len(got), c.want)
			for i, v := range got {
				if want := of[i].Version; v.Version != want && of[i].Key != never {
					t.Fatalf("version %d of %s is %d", want, of[i].Key, v.Version)
				}
			}
		}
	})
	t.Run("a context that ended", func(t *testing.T) {
		f := fill(t)
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if _, err := f.store.ReadVersions(ctx, ask(a, 1), 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
	})
}
