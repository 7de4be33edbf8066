package warmtest

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func testMend(t *testing.T, h Harness) {
	k := key("k")
	for _, c := range []struct {
		name    string
		key     tiering.Key
		version int64
		body    string
		want    bool
	}{
		{"the bytes of the row", k, 1, `{"a":1.10}`, true},
		{"the bytes of another version", k, 1, `2`, false},
		{"the same JSON in other bytes", k, 1, `{"a":1.1}`, false},
		{"a version that never was", k, 9, `2`, false},
		{"a deletion", k, 3, ``, false},
		{"a key that never was", key("other"), 1, `1`, false},
		{"another tenant's key", tiering.Key{Tenant: "globex", Namespace: space, ID: "k"}, 1, `{"a":1.10}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, h)
			f.must(k, put(`{"a":1.10}`))
			f.must(k, put(`2`))
			f.must(k, op(tiering.OpDelete))
			head, feed := f.load(k).Head, len(f.feed())
			done, err := f.store.Mend(f.ctx, c.key, c.version, []byte(c.body))
			f.no(err)
			equal(f, "mended", done, c.want)
			for version, body := range map[int64]string{1: `{"a":1.10}`, 2: `2`, 3: ``} {
				v, ok, err := f.store.Version(f.ctx, k, version)
				f.no(err)
				equal(f, fmt.Sprintf("version %d there", version), ok, true)
				equal(f, fmt.Sprintf("version %d", version), string(v.Body), body)
			}
			equal(f, "the head", f.load(k).Head, head)
			equal(f, "entries of the feed", len(f.feed()), feed)
		})
	}
	t.Run("a version whose bytes left warm stays away", func(t *testing.T) {
		f := setup(t, h)
		f.must(k, put(`1`))
		f.archived("s", tiering.CopyVerified, tiering.CopyVerified, k, 1, 1)
		moved, err := f.store.Demote(f.ctx, k, 1, f.clock.Now())
		f.no(err)
		equal(f, "demoted", moved, true)
		done, err := f.store.Mend(f.ctx, k, 1, []byte(`1`))
		f.no(err)
		equal(f, "mended", done, false)
		equal(f, "in warm", f.load(k).Head.InWarm, false)
	})
}
