package memoryhash_test

import (
	"testing"

	"github.com/tierd/tierd/internal/memoryhash"
)

// TestStoredHashes holds the hashes to those that databases are full of.
func TestStoredHashes(t *testing.T) {
	for _, c := range []struct {
		nid  int32
		kind memoryhash.Kind
		text string
		want int64
	}{
		{1, memoryhash.Term, "", -1451519948297340224},
		{1, memoryhash.Term, "coffee", -4104537478262868732},
		{1, memoryhash.User, "coffee", 5031347585018423096},
		{70000, memoryhash.Term, "coffee", -9001337142584409974},
		{70000, memoryhash.Type, "漢字", 625325285855405034},
	} {
		if got := memoryhash.Of(c.nid, c.kind, c.text); got != c.want {
			t.Errorf("%q, kind %d, of namespace %d: %d, want %d", c.text, c.kind, c.nid, got, c.want)
		}
	}
}
