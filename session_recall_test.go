package tierd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// A context recalls the memories of its session's user and those of nobody, from
// the namespaces of memories; another user's stay out, whoever asks.
func TestAContextRecallsForItsUser(t *testing.T) {
	n, err := tierd.Open(t.Context(), tierd.Config{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(t.Context())
	for id, user := range map[string]string{"hers": "ada", "his": "bob", "all": ""} {
		m := said(id, "A window seat is what "+id+" prefers on a plane")
		m.User = user
		remember(t, n, m, nil)
	}
	for i := range 40 { // they match better, and are for none of these sessions
		m := said(fmt.Sprintf("other-%d", i), "window seat on a plane")
		m.User = fmt.Sprintf("user-%d", i)
		remember(t, n, m, nil)
	}
	if _, err := n.Put(t.Context(), "notes", "seat", []byte(`"a window seat on a plane"`), nil); err != nil {
		t.Fatal(err)
	}
	events := []json.RawMessage{json.RawMessage(`{"role":"user","content":"Book me a seat."}`)}
	for id, user := range map[string]string{"s-ada": "ada", "s-bob": "bob", "s-none": ""} {
		if _, err := n.Sessions().Create(t.Context(), &tiering.NewSession{ID: id, User: user, Events: events}); err != nil {
			t.Fatal(err)
		}
	}
	context := func(s tiering.Sessions, id string, o tiering.ContextOptions) (*tiering.SessionContext, error) {
		o.Budget = 1000
		return s.Context(t.Context(), id, &o)
	}
	for id, want := range map[string]string{"s-ada": "all hers", "s-bob": "all his", "s-none": "all"} {
		got, err := context(n.Sessions(), id, tiering.ContextOptions{Recall: "window seat on a plane"})
		if err != nil {
			t.Fatal(err)
		}
		all := string(got.Messages[0])
		var ids []string
		for _, known := range []string{"all", "hers", "his"} {
			if strings.Contains(all, "what "+known+" prefers") {
				ids = append(ids, known)
			}
		}
		if strings.Join(ids, " ") != want || len(got.Recalled.Memories) != len(ids) || len(got.Messages) != 2 {
			t.Errorf("%s recalls %v: %s", id, ids, all)
		}
	}
	line, err := n.Sessions().Timeline(t.Context(), "s-ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	last := line.Items[len(line.Items)-1]
	if told := string(last.Data); last.What != "recalled" || !strings.Contains(told, `"query":"window seat on a plane"`) || !strings.Contains(told, `"id":"hers"`) || strings.Contains(told, `"his"`) {
		t.Errorf("the timeline ends with %s %s", last.What, last.Data)
	}
	// A key of one namespace recalls from none other, and is told when it asks to.
	limited := n.As(tiering.Principal{Tenant: tiering.DefaultTenant, Scope: tiering.Scope{Namespaces: []string{tiering.SessionNamespace, "other"}}}).Sessions()
	got, err := context(limited, "s-ada", tiering.ContextOptions{Recall: "window seat"})
	if err != nil || len(got.Recalled.Memories) != 0 {
		t.Errorf("a limited key recalls %+v, %v", got, err)
	}
	for name, o := range map[string]struct {
		s    tiering.Sessions
		o    tiering.ContextOptions
		want tiering.Code
	}{
		"a namespace that the key may not read":    {limited, tiering.ContextOptions{Recall: "seat", Memories: []string{people}}, tiering.CodeForbidden},
		"a namespace that holds no memories":       {n.Sessions(), tiering.ContextOptions{Recall: "seat", Memories: []string{"notes"}}, tiering.CodeWrongKind},
		"namespaces and nothing to look for":       {n.Sessions(), tiering.ContextOptions{Memories: []string{people}}, tiering.CodeInvalid},
		"a query of nothing but white space":       {n.Sessions(), tiering.ContextOptions{Recall: " "}, tiering.CodeInvalid},
		"one of the namespaces, and the session's": {n.Sessions(), tiering.ContextOptions{Recall: "seat", Memories: []string{people}}, ""},
	} {
		if _, err := context(o.s, "s-ada", o.o); err != nil != (o.want != "") || err != nil && tiering.CodeOf(err) != o.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
