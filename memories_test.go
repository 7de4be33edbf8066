package tierd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// people is the namespace that these tests remember in.
const people = "people"

// remember stores one memory.
func remember(t *testing.T, s tiering.Memories, m tiering.NewMemory, o *tiering.RememberOptions) tiering.Remembered {
	t.Helper()
	done, errs, err := s.Remember(t.Context(), people, []tiering.NewMemory{m}, o)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	return done[0]
}

// said is a memory of a text.
func said(id, text string) tiering.NewMemory {
	return tiering.NewMemory{ID: id, MemoryBody: tiering.MemoryBody{Text: text}}
}

// recall returns the ids of what is found, best first.
func recall(t *testing.T, s tiering.Memories, q tiering.Recall) []string {
	t.Helper()
	if q.Namespaces == nil {
		q.Namespaces = []string{people}
	}
	got, err := s.Recall(t.Context(), &q)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, m := range got.Matches {
		ids = append(ids, m.ID)
	}
	return ids
}

func ask(query string) tiering.Recall { return tiering.Recall{Query: query} }

// A memory is found by its current text alone, from the moment that it was
// acknowledged until it is forgotten, superseded or out of date.
func TestWhatIsRecalledIsWhatStands(t *testing.T) {
	ctx := t.Context()
	n := open(t, tierd.Config{})
	remember(t, n, said("seat", "Ada prefers a window seat"), nil)
	remember(t, n, said("boat", "Bob sold his sailing boat"), nil)
	if got := recall(t, n, ask("who sold the yacht?")); got[0] != "boat" {
		t.Errorf("found %v", got)
	}
	lexical := func(query string) tiering.Recall { return tiering.Recall{Query: query, Mode: tiering.RecallLexical} }
	if _, err := n.PatchMemory(ctx, people, "boat", []byte(`{"text":"Bob bought a motorcycle"}`), nil); err != nil {
		t.Fatal(err)
	}
	if got := recall(t, n, lexical("motorcycle")); !slices.Equal(got, []string{"boat"}) {
		t.Errorf("the new text finds %v", got)
	}
	if got := recall(t, n, lexical("sailing")); len(got) != 0 {
		t.Errorf("the old text finds %v", got)
	}
	if _, err := n.Rollback(ctx, people, "boat", 1, nil); err != nil {
		t.Fatal(err)
	}
	if got := recall(t, n, lexical("sailing")); !slices.Equal(got, []string{"boat"}) {
		t.Errorf("after a rollback %v", got)
	}
	for _, patch := range []string{`{"superseded_by":"seat"}`, `{"superseded_by":null,"valid_to":"2020-01-01T00:00:00Z"}`} {
		if _, err := n.PatchMemory(ctx, people, "boat", []byte(patch), nil); err != nil {
			t.Fatal(err)
		}
		if got := recall(t, n, lexical("sailing")); len(got) != 0 {
			t.Errorf("%s: found %v", patch, got)
		}
		if got := recall(t, n, tiering.Recall{Query: "sailing", Mode: tiering.RecallLexical, Superseded: true}); len(got) != 1 {
			t.Errorf("%s: asked for, found %v", patch, got)
		}
	}
	if _, err := n.PatchMemory(ctx, people, "boat", []byte(`{"valid_to":null}`), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Forget(ctx, people, "boat", nil); err != nil {
		t.Fatal(err)
	}
	if got := recall(t, n, ask("sailing boat")); slices.Contains(got, "boat") {
		t.Errorf("forgotten, and found: %v", got)
	}
	if _, err := n.Memory(ctx, people, "boat"); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("forgotten: %v", err)
	}
}

// As many are answered as there are, up to k, whatever a filter lets through.
func TestARecallAnswersAllThereAre(t *testing.T) {
	n := open(t, tierd.Config{})
	const many = 3000
	var all []tiering.NewMemory
	for i := range many {
		m := said(fmt.Sprintf("m%04d", i), fmt.Sprintf("The train number %d leaves", i))
		m.Metadata = json.RawMessage(fmt.Sprintf(`{"n":%d,"odd":%v}`, i, i%2 == 1))
		all = append(all, m)
	}
	for page := range slices.Chunk(all, 1000) {
		_, errs, err := n.Remember(t.Context(), people, page, nil)
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		filter string
		want   int
	}{
		{`{"n":1234}`, 1}, {`{"/metadata/n":{"$lt":7}}`, 7}, {`{"n":{"$gte":2000},"odd":true}`, 20}, {`{"odd":false}`, 20}, {`{"n":{"$lt":0}}`, 0}, {``, 20},
		{`{"$not":{"n":{"$lt":2999}}}`, 1},
	} {
		got := recall(t, n, tiering.Recall{Query: "when does the train leave?", K: 20, Filter: json.RawMessage(tt.filter)})
		if len(got) != tt.want {
			t.Errorf("%s: %d matches, want %d", tt.filter, len(got), tt.want)
		}
	}
}

// A principal limited to a user recalls that user's memories, and no other's;
// one of another tenant recalls none.
func TestRecallStaysInItsScope(t *testing.T) {
	n := open(t, tierd.Config{})
	for _, user := range []string{"ada", "bob"} {
		m := said(user, "My favourite colour is "+map[string]string{"ada": "green", "bob": "red"}[user])
		m.User = user
		remember(t, n, m, nil)
	}
	ada := n.As(tiering.Principal{Tenant: tiering.DefaultTenant, Scope: tiering.Scope{User: "ada"}})
	if got := recall(t, ada, ask("favourite colour")); !slices.Equal(got, []string{"ada"}) {
		t.Errorf("ada recalls %v", got)
	}
	if _, err := ada.Recall(t.Context(), &tiering.Recall{Namespaces: []string{people}, Query: "colour", User: "bob"}); tiering.CodeOf(err) != tiering.CodeForbidden {
		t.Errorf("ada asks for bob's: %v", err)
	}
	if _, err := ada.Memory(t.Context(), people, "bob"); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("ada reads bob's: %v", err)
	}
	prefixed := n.As(tiering.Principal{Tenant: tiering.DefaultTenant, Scope: tiering.Scope{Prefixes: []string{"b"}}})
	if got := recall(t, prefixed, ask("favourite colour")); !slices.Equal(got, []string{"bob"}) {
		t.Errorf("within a prefix: %v", got)
	}
	if got := recall(t, n.As(tiering.Principal{Tenant: "acme"}), ask("favourite colour")); len(got) != 0 {
		t.Errorf("another tenant recalls %v", got)
	}
}

// Of many who store the same text at once one makes the memory, and the others
// are told of it; a request that is repeated happens once.
func TestAMemoryIsStoredOnce(t *testing.T) {
	ctx := t.Context()
	n := open(t, tierd.Config{})
	var g errgroup.Group
	ids := make([]string, 16)
	for i := range ids {
		g.Go(func() error {
			done, errs, err := n.Remember(ctx, people, []tiering.NewMemory{said("", "Ada is allergic to nuts")}, &tiering.RememberOptions{Dedupe: true})
			ids[i] = done[0].ID
			return errors.Join(err, errs[0])
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if page, err := n.ListMemories(ctx, people, nil); err != nil || len(page.Memories) != 1 || len(slices.Compact(ids)) != 1 {
		t.Errorf("%d memories under %v, %v", len(page.Memories), slices.Compact(ids), err)
	}
	o := &tiering.RememberOptions{IdempotencyKey: "once"}
	first := remember(t, n, said("", "Bob plays chess"), o)
	again := remember(t, n, said("", "Bob plays chess"), o)
	if again.ID != first.ID || !again.Replayed {
		t.Errorf("repeated: %+v, then %+v", first, again)
	}
}

// A request that is repeated is answered as the first time, also where what it made
// is what its text is compared with now; under another key it is a duplicate.
func TestADeduplicatedMemoryIsReplayed(t *testing.T) {
	ctx := t.Context()
	for name, tiers := range map[string]func(*testing.T) tierd.Config{"embedded": func(*testing.T) tierd.Config { return tierd.Config{} }, "servers": realTiers} {
		t.Run(name, func(t *testing.T) {
			n := open(t, tiers(t))
			for i, id := range []string{"", "", "mine"} { // the second one's first id is taken
				if i == 1 {
					if _, err := n.PatchMemory(ctx, people, remember(t, n, said("", "Ada drinks tea"), &tiering.RememberOptions{Dedupe: true}).ID, []byte(`{"text":"Ada drinks coffee"}`), nil); err != nil {
						t.Fatal(err)
					}
				}
				once := &tiering.RememberOptions{Dedupe: true, IdempotencyKey: fmt.Sprint("once", i)}
				first := remember(t, n, said(id, "Ada drinks tea"), once)
				again := remember(t, n, said(id, "Ada drinks tea"), once)
				if again.Duplicate || !again.Replayed || again.ID != first.ID || again.Version != first.Version || again.Created != first.Created {
					t.Errorf("%+v, then %+v", first, again)
				}
				other := remember(t, n, said("", "Ada drinks tea"), &tiering.RememberOptions{Dedupe: true, IdempotencyKey: fmt.Sprint("other", i)})
				if !other.Duplicate || other.ID != first.ID {
					t.Errorf("another request: %+v", other)
				}
				_, errs, err := n.Remember(ctx, people, []tiering.NewMemory{said("", "Ada drinks water")}, once)
				if err != nil || tiering.CodeOf(errs[0]) != tiering.CodeIdempotencyMismatch {
					t.Errorf("another memory under the key: %v, %v", err, errs)
				}
				if _, err := n.Forget(ctx, people, first.ID, nil); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A text that was remembered once can be remembered again when no memory of the
// owner says it any more, and whatever others remember.
func TestATextIsRememberedAgain(t *testing.T) {
	ctx := t.Context()
	once := &tiering.RememberOptions{Dedupe: true}
	const tea = "Ada drinks tea"
	for _, tt := range []struct {
		name  string
		scope tiering.Scope
		lost  func(n tiering.Memories, id string) error
	}{
		{"after a patch", tiering.Scope{}, func(n tiering.Memories, id string) error {
			_, err := n.PatchMemory(ctx, people, id, []byte(`{"text":"Ada drinks coffee"}`), nil)
			return err
		}},
		{"superseded", tiering.Scope{}, func(n tiering.Memories, id string) error {
			_, err := n.PatchMemory(ctx, people, id, []byte(`{"superseded_by":"x"}`), nil)
			return err
		}},
		{"forgotten", tiering.Scope{}, func(n tiering.Memories, id string) error {
			_, err := n.Forget(ctx, people, id, nil)
			return err
		}},
		{"of nobody", tiering.Scope{User: "ada"}, func(tiering.Memories, string) error { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := open(t, tierd.Config{})
			for range 7 { // more often than a text has ids of its own
				first := remember(t, n, said("", tea), once)
				if err := tt.lost(n, first.ID); err != nil {
					t.Fatal(err)
				}
				mine := n.As(tiering.Principal{Tenant: tiering.DefaultTenant, Scope: tt.scope})
				second := remember(t, mine, said("", tea), once)
				third := remember(t, mine, said("", tea), once)
				if second.User != tt.scope.User || third.ID != second.ID || !third.Duplicate {
					t.Fatalf("%+v, then %+v, then %+v", first, second, third)
				}
				if tt.scope.User == "" {
					if err := tt.lost(n, second.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// What cannot be a memory is refused with a pointer, whichever way it comes.
func TestWhatIsNoMemoryIsRefused(t *testing.T) {
	ctx := t.Context()
	n := open(t, tierd.Config{})
	remember(t, n, said("a", "a text"), nil)
	for _, tt := range []struct{ doc, pointer string }{
		{`{"text":"  "}`, "/text"}, {`{"text":"t","type":"rumour"}`, "/type"}, {`{"text":"t","metadata":[1]}`, "/metadata"},
		{`{"text":"t","importance":1.5}`, "/importance"}, {`{"text":"t","embedding":[0,0]}`, "/embedding"}, {`{"text":"t","colour":1}`, "/colour"},
		{`{"text":"t","links":[{"relation":"r","to":""}]}`, "/links/0"}, {`{"text":"t","occurred_at":"2026-02-02T00:00:00Z","ended_at":"2026-02-01T00:00:00Z"}`, "/ended_at"},
	} {
		_, err := n.Put(ctx, people, "x", []byte(tt.doc), nil)
		var e *tiering.Error
		if !errors.As(err, &e) || !errors.Is(err, tiering.ErrInvalid) || e.Pointer != tt.pointer {
			t.Errorf("%s: %v at %q, want a fault at %q", tt.doc, err, e.Pointer, tt.pointer)
		}
	}
	if _, err := n.PatchMemory(ctx, people, "a", []byte(`{"text":null}`), nil); !errors.Is(err, tiering.ErrInvalid) {
		t.Errorf("a patch that takes the text away: %v", err)
	}
	if _, err := n.PatchMemory(ctx, people, "nobody", []byte(`{"importance":1}`), nil); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("a patch of what is not there: %v", err)
	}
	if _, err := n.Put(ctx, "docs", "d", []byte(`1`), nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Remember(ctx, "docs", []tiering.NewMemory{said("", "t")}, nil); !errors.Is(err, tiering.ErrWrongKind) {
		t.Errorf("a memory among documents: %v", err)
	}
	if _, err := n.Recall(ctx, &tiering.Recall{Namespaces: []string{"docs"}, Query: "t"}); !errors.Is(err, tiering.ErrWrongKind) {
		t.Errorf("a recall among documents: %v", err)
	}
	if got := recall(t, n, tiering.Recall{Namespaces: []string{"nobody-made"}, Query: "t"}); len(got) != 0 {
		t.Errorf("a namespace that is not there holds %v", got)
	}
}

// A walk follows links to a depth, by relation, and ends in cycles.
func TestAWalkFollowsLinks(t *testing.T) {
	ctx := t.Context()
	n := open(t, tierd.Config{})
	for _, id := range []string{"a", "b", "c", "d"} {
		remember(t, n, said(id, "step "+id), nil)
	}
	for _, l := range [][3]string{{"a", "caused", "b"}, {"b", "caused", "c"}, {"c", "caused", "a"}, {"a", "like", "d"}, {"a", "caused", "b"}} {
		if _, err := n.Link(ctx, people, l[0], tiering.Link{Relation: l[1], To: l[2]}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Link(ctx, people, "a", tiering.Link{Relation: "caused", To: "nobody"}); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("a link to nothing: %v", err)
	}
	walk := func(o *tiering.WalkOptions) string {
		t.Helper()
		g, err := n.Walk(ctx, people, "a", o)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, node := range g.Nodes {
			out = append(out, fmt.Sprintf("%s%d", node.ID, node.Depth))
		}
		slices.Sort(out)
		return strings.Join(out, " ") + fmt.Sprintf(" %d", len(g.Edges))
	}
	for _, tt := range []struct {
		o    *tiering.WalkOptions
		want string
	}{
		{&tiering.WalkOptions{Depth: 1}, "a0 b1 d1 2"}, {nil, "a0 b1 c2 d1 3"}, {&tiering.WalkOptions{Depth: 9}, "a0 b1 c2 d1 4"},
		{&tiering.WalkOptions{Depth: 9, Relation: "like"}, "a0 d1 1"},
	} {
		if got := walk(tt.o); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.o, got, tt.want)
		}
	}
	for limit, want := range map[int]bool{3: true, 4: false} {
		if g, err := n.Walk(ctx, people, "a", &tiering.WalkOptions{Depth: 9, Limit: limit}); err != nil || g.Truncated != want || len(g.Nodes) != limit {
			t.Errorf("of 4 at most %d: %+v, %v", limit, g, err)
		}
	}
	if _, err := n.Unlink(ctx, people, "a", tiering.Link{Relation: "caused", To: "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Forget(ctx, people, "d", nil); err != nil {
		t.Fatal(err)
	}
	if got := walk(nil); got != "a0 0" {
		t.Errorf("without the links: %s", got)
	}
	if g, err := n.Walk(ctx, people, "a", &tiering.WalkOptions{Limit: 1}); err != nil || g.Truncated {
		t.Errorf("a link to what was forgotten cuts off %+v, %v", g, err)
	}
}

// A confirmed use lifts one of two equal memories; to be recalled does not.
func TestUseCountsAndRetrievalDoesNot(t *testing.T) {
	n := open(t, tierd.Config{})
	remember(t, n, said("a", "The red door needs paint"), nil)
	remember(t, n, said("b", "The red door needs paint"), nil)
	for range 3 {
		if got := recall(t, n, ask("red door")); got[0] != "a" {
			t.Fatalf("found %v", got)
		}
	}
	for range 3 {
		if _, err := n.Used(t.Context(), people, "b", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := recall(t, n, ask("red door")); got[0] != "b" {
		t.Errorf("b was of use, and found are %v", got)
	}
	m, err := n.Memory(t.Context(), people, "b")
	if err != nil || m.Uses != 3 || m.UsedAt.IsZero() {
		t.Errorf("%+v, %v", m, err)
	}
}

// The bytes of an idle memory lie in cold, and recall finds it and reads it
// through; after a rebuild from one bucket it is found as before; an erase
// leaves nothing to find.
func TestMemoriesAgeComeBackAndGo(t *testing.T) {
	ctx := t.Context()
	c := tierd.Config{Data: t.TempDir()}
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	m := said("boat", "Bob sold his sailing boat")
	m.User = "bob"
	remember(t, n, m, nil)
	remember(t, n, said("seat", "Ada prefers a window seat"), nil)
	if err := n.Archive(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Demote(ctx, people, "boat"); err != nil {
		t.Fatal(err)
	}
	got, err := n.Recall(ctx, &tiering.Recall{Namespaces: []string{people}, Query: "who sold the yacht?", K: 1})
	if err != nil || len(got.Matches) != 1 || got.Matches[0].ID != "boat" || got.Matches[0].Tier != tiering.Cold || got.Matches[0].Text != m.Text {
		t.Fatalf("from cold: %+v, %v", got, err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	fresh := rebuilt(t, c)
	found := func() bool {
		return slices.Equal(recall(t, fresh, tiering.Recall{Query: "sailing", Mode: tiering.RecallLexical}), []string{"boat"})
	}
	await(t, "a rebuilt store finds its memories", found)
	dry := false
	rc, err := fresh.Erase(ctx, tiering.EraseRequest{User: "bob", DryRun: &dry})
	for err == nil && rc.State != "done" {
		time.Sleep(50 * time.Millisecond)
		rc, err = fresh.Erasure(ctx, rc.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := recall(t, fresh, ask("sailing boat")); slices.Contains(got, "boat") {
		t.Errorf("erased, and found: %v", got)
	}
}

// rebuilt makes the warm store of c again from the backup alone, and opens it.
func rebuilt(t *testing.T, c tierd.Config) *tierd.Node {
	t.Helper()
	for _, f := range []string{"warm.db", "warm.db-wal", "warm.db-shm"} {
		if err := os.Remove(filepath.Join(c.Data, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if _, err := tierd.Rebuild(t.Context(), c, tierd.RebuildOptions{From: "backup"}); err != nil {
		t.Fatal(err)
	}
	return open(t, c)
}

// await asks until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
