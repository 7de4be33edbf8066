package hottest

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// testTogether proves that steps that go together end as their calls would
// alone, one that fails among them too.
func testTogether(t *testing.T, h Harness) {
	sub := h.open(t, Options{})
	s, ctx := sub.Store, t.Context()
	key := func(i int) tiering.Key {
		return tiering.Key{Tenant: "t", Namespace: "ns", ID: fmt.Sprint("together-", i)}
	}
	set := func(i int, token hot.Token) hot.Set {
		return hot.Set{Key: key(i), Token: token, Entry: entry(key(i), 1, 0), TTL: long}
	}
	const keys = 700 // more than one exchange may carry
	var steps []hot.Step
	for i := range keys {
		steps = append(steps, hot.Step{Act: hot.ToMark, Set: hot.Set{Key: key(i), Token: hot.Token(i)}})
	}
	for i, err := range hot.Together(ctx, s, steps) {
		if (err != nil) != (i == 0) { // a zero token is an error
			t.Fatalf("mark %d ends in %v", i, err)
		}
	}
	want := func(i int, want hot.State) {
		t.Helper()
		l, err := s.Get(ctx, key(i), false)
		if err != nil || l.State != want {
			t.Errorf("key %d is in state %d, want %d: %v", i, l.State, want, err)
		}
	}
	want(0, hot.Empty)
	want(1, hot.Pending)
	want(keys-1, hot.Pending)

	last := keys - 1
	if err := s.Mark(ctx, key(last), 1); err != nil { // another writer's
		t.Fatal(err)
	}
	steps = []hot.Step{
		{Act: hot.ToSet, Set: set(0, 0)},
		{Act: hot.ToUnmark, Set: hot.Set{Key: key(1), Token: 1}},
		{Act: hot.ToUnmark, Set: hot.Set{Key: key(2), Token: 3}}, // not its token
		{Act: hot.ToSet, Set: set(3, 3)},
		{Act: hot.ToSet, Set: hot.Set{Key: key(4), Token: 4, Entry: entry(key(4), 1, 0), Deleted: true}},
		{Act: hot.ToSet, Set: set(last, hot.Token(last))},
	}
	for i, err := range hot.Together(ctx, s, steps) {
		if err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	for i, state := range []hot.State{hot.Present, hot.Empty, hot.Pending, hot.Present, hot.Deleted, hot.Pending} {
		if i == 5 {
			i = last
		}
		want(i, state)
	}
}
