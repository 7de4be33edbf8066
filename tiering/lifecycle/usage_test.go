package lifecycle_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// used is the usage of a site, with its namespaces by name.
func (s *site) used(days int) (*tiering.Usage, map[string]tiering.NamespaceUsage) {
	s.Helper()
	u, err := s.engine.Usage(s.ctx, days)
	s.no(err)
	by := map[string]tiering.NamespaceUsage{}
	for _, n := range u.Namespaces {
		by[n.Namespace] = n
	}
	return u, by
}

func (s *site) namespaces(names ...string) {
	s.Helper()
	for _, name := range names {
		s.namespace(siteTenant, name, tiering.Policy{})
	}
}

func about(got, want float64) bool { return math.Abs(got-want) <= 0.01*math.Abs(want) }

// The pace of a tenant is that of its segments in the window, and each
// namespace has the part of it that the segments' indexes say.
func TestUsage(t *testing.T) {
	s := newSite(t)
	s.namespaces("notes", "chats", "short")
	s.namespace(siteTenant, "cache", tiering.Policy{Class: tiering.ClassEphemeral})
	body := `"` + strings.Repeat("x", 98) + `"`
	chat := tiering.Key{Tenant: siteTenant, Namespace: "chats", ID: "c"}
	for range 60 { // a cluster of four each day: 29 of them are in the window
		for range 3 {
			s.put(note("a"), body)
		}
		s.put(chat, body)
		s.flush()
		s.clock.advance(day - 4*time.Second)
	}
	s.clock.advance(day / 2)
	s.put(note("new"), body)
	ends := putOf(body)
	ends.Expiry = warm.Expiry{TTL: &tiering.TTL{Life: 2 * time.Hour}}
	for _, id := range []string{"1", "2"} {
		s.commit(tiering.Key{Tenant: siteTenant, Namespace: "short", ID: id}, ends)
	}
	s.flush()

	u, by := s.used(0)
	if len(u.Tenants) != 1 || u.Days != 30 || u.HotBytes != -1 || u.WarmBytes <= 0 || u.WarmBodies <= 0 {
		t.Fatalf("%+v", u)
	}
	if u.ColdBytes[0] <= 0 || u.ColdBytes[0] != u.ColdBytes[1] || u.ColdBytes[0] < u.SegmentBytes || u.Segments < 60 || u.Sampled < 29 {
		t.Errorf("cold: %+v", u)
	}
	if got := u.Tenants[0]; !about(got.Versions, 29*4+3) || !about(got.RawBytes, (29*4+3)*100) {
		t.Errorf("the tenant's pace: %+v", got)
	}
	if n := by["notes"]; n.Documents != 2 || n.Bytes != 200 || n.NewBytes != 100 || n.ActiveBytes != 200 || n.Life != 0 || !about(n.Versions, 88) || !about(n.RawBytes, 8800) {
		t.Errorf("notes: %+v", n)
	}
	if n := by["chats"]; n.Documents != 1 || !about(n.Versions, 29) {
		t.Errorf("chats: %+v", n)
	}
	if n := by["short"]; n.Life.Std() != 2*time.Hour || n.Policy.TTL != 0 {
		t.Errorf("documents that end by themselves: %+v", n)
	}
	if n, ok := by["cache"]; !ok || n.Documents != 0 || n.Policy.Durable() {
		t.Errorf("a namespace that warm and cold hold nothing of: %+v", n)
	}
	if _, ok := by[tiering.PolicyNamespace]; ok {
		t.Error("tierd's own documents are no namespace of a caller's")
	}

	s.clock.advance(28 * day)
	if _, by := s.used(0); by["chats"].ActiveBytes != 100 || by["short"].Documents != 0 {
		t.Errorf("28 days later: %+v", by)
	}
	s.clock.advance(10 * day)
	if u, by := s.used(7); by["chats"].ActiveBytes != 0 || u.Days != 7 || u.Tenants[0].Versions != 0 {
		t.Errorf("idle for longer than demote_after: %+v", by)
	}
}

// A store without anything, and one of a minute, have a pace all the same.
func TestUsageOfAYoungStore(t *testing.T) {
	s := newSite(t)
	u, by := s.used(30)
	if !u.Since.IsZero() || u.Days != 1 || len(u.Tenants)+len(by) != 0 {
		t.Errorf("empty: %+v", u)
	}
	s.namespaces("notes")
	s.put(note("a"), `1`)
	if u, by = s.used(30); u.Days != 1 || by["notes"].Documents != 1 || len(u.Tenants) != 0 {
		t.Errorf("not archived yet: %+v", u)
	}
	s.flush()
	if u, by = s.used(30); u.Days != 1 || len(u.Tenants) != 1 || by["notes"].Versions != 1 {
		t.Errorf("archived: %+v", u)
	}
}

// Where no index can be read the pace is shared out by what the namespaces hold.
func TestUsageWithoutIndexes(t *testing.T) {
	s := newSite(t)
	s.namespaces("notes", "chats")
	for _, id := range []string{"a", "b", "c"} {
		s.put(note(id), `1`)
	}
	s.put(tiering.Key{Tenant: siteTenant, Namespace: "chats", ID: "c"}, `1`)
	s.flush()
	for _, name := range s.segments() {
		s.no(s.primary.Delete(s.ctx, name))
		s.no(s.backup.Delete(s.ctx, name))
	}
	if u, by := s.used(30); u.Sampled != 0 || by["notes"].Versions != 3*by["chats"].Versions || by["chats"].Versions == 0 {
		t.Errorf("%+v", u)
	}
}
