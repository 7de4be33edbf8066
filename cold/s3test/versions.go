package s3test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/tiering"
)

// Peculiar declares where a server differs from AWS.
type Peculiar struct {
	// HiddenIsTaken: a conditional write counts a delete marker as an object.
	// tierd leaves no delete markers; only an operator's deletion does.
	HiddenIsTaken bool
}

// Versions proves that on a bucket which keeps versions nothing of a deleted
// object stays, whatever lay over it, and nothing of its neighbours goes.
func Versions(t *testing.T, p s3url.Place, open Opener, is Peculiar) {
	p = versionedBucket(t, p)
	p.Prefix = "v"
	ctx, api := t.Context(), admin(t, p)
	b, err := open(ctx, p.String(), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	overwrite := func(key string) {
		t.Helper()
		if _, err := api.PutObject(ctx, &s3.PutObjectInput{Bucket: &p.Bucket, Key: &key, Body: strings.NewReader("overwritten")}); err != nil {
			t.Fatal(err)
		}
	}
	hide := func(key string) {
		t.Helper()
		if _, err := api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &p.Bucket, Key: &key}); err != nil {
			t.Fatal(err)
		}
	}
	left := func(key string) (n int) {
		t.Helper()
		for _, s := range everything(t, api, p) {
			if s.Key == key {
				n++
			}
		}
		return n
	}
	create := func(name string) {
		t.Helper()
		if err := b.Create(ctx, name, bytes.NewReader([]byte(name)), int64(len(name))); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
	}
	for _, c := range []struct {
		name     string
		over     []func(key string)
		versions int
	}{
		{"one version", nil, 1},
		{"a hidden object", []func(string){hide}, 2},
		{"an overwritten object", []func(string){overwrite, overwrite}, 3},
		{"hidden, overwritten, hidden again", []func(string){hide, overwrite, hide}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			create("seg/a")
			create("seg/a.b")
			for _, do := range c.over {
				do("v/seg/a")
			}
			if n := left("v/seg/a"); n != c.versions {
				t.Fatalf("the test made %d versions, want %d", n, c.versions)
			}
			for range 2 {
				if err := b.Delete(ctx, "seg/a"); err != nil {
					t.Fatalf("delete: %v", err)
				}
			}
			if n := left("v/seg/a"); n != 0 {
				t.Errorf("%d versions are left", n)
			}
			if n := left("v/seg/a.b"); n != 1 {
				t.Errorf("%d versions of the neighbour are left, want 1", n)
			}
			if err := b.Delete(ctx, "seg/a.b"); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("a hidden object does not exist, and its name is free", func(t *testing.T) {
		create("seg/h")
		hide("v/seg/h")
		if _, err := b.Stat(ctx, "seg/h"); !errors.Is(err, cold.ErrNotExist) {
			t.Errorf("stat: %v, want ErrNotExist", err)
		}
		err := b.Create(ctx, "seg/h", strings.NewReader("again"), 5)
		if is.HiddenIsTaken != errors.Is(err, cold.ErrExist) || !is.HiddenIsTaken && err != nil {
			t.Errorf("create: %v", err)
		}
		if err := b.Delete(ctx, "seg/h"); err != nil || left("v/seg/h") != 0 {
			t.Errorf("delete: %v, %d versions are left", err, left("v/seg/h"))
		}
		create("seg/h")
	})
	t.Run("an occupied name keeps nothing of what was there", func(t *testing.T) {
		create("seg/o")
		a := cold.NewArchive(b, b, nil)
		if err := a.Occupy(ctx, tiering.Primary, "seg/o"); err != nil {
			t.Fatal(err)
		}
		if n := left("v/seg/o"); n != 1 {
			t.Errorf("%d versions, want the marker alone", n)
		}
	})
	t.Run("pings leave no version", func(t *testing.T) {
		before := len(everything(t, api, p))
		for range 3 {
			if err := b.Ping(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if after := everything(t, api, p); len(after) != before {
			t.Errorf("left: %v", after)
		}
	})
}
