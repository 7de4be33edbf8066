package redis_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// TestScrub: what was set under epochs that are over goes, in every life named;
// the epoch in use, a later one and the lives of others stay. The append-only
// file is written anew.
func TestScrub(t *testing.T) {
	url := servicestest.Variable(t, "TIERD_HOT")
	life := func(name string) string { return name + "-" + uuid.NewString() }
	own, parent, other := life("own"), life("parent"), life("other")
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	epochs := map[tiering.HotEpoch]bool{ // true: stays
		{Life: own, Count: 9}: false, {Life: own, Count: 10}: true, {Life: own, Count: 11}: true,
		{Life: parent, Count: 0}: false, {Life: parent, Count: 12}: false, {Life: other, Count: 0}: true,
	}
	var inUse *redis.Store
	for e := range epochs {
		s := open(t, url, redis.Options{Epoch: e})
		if stored, err := s.Set(t.Context(), set(key, 1, []byte("1"))); err != nil || !stored {
			t.Fatalf("%v: stored %v, %v", e, stored, err)
		}
		if e == (tiering.HotEpoch{Life: own, Count: 10}) {
			inUse = s
		}
	}
	api := admin(t, url)
	rewrites := func() int {
		t.Helper()
		info, err := api.InfoMap(t.Context(), "persistence").Result()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(info["Persistence"]["aof_rewrites"])
		if err != nil {
			t.Fatalf("the server says nothing of rewrites: %v", info)
		}
		return n
	}
	before := rewrites()
	if err := inUse.Scrub(t.Context(), []string{parent}); err != nil {
		t.Fatal(err)
	}
	if n := rewrites(); n <= before {
		t.Errorf("%d rewrites of the append-only file, %d before", n, before)
	}
	for e, stays := range epochs {
		n, err := api.Exists(t.Context(), fmt.Sprintf("tierd:%s:t:ns:x", e)).Result()
		if err != nil || (n == 1) != stays {
			t.Errorf("epoch %v: %d entries, %v", e, n, err)
		}
	}
}
