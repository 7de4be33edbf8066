package router

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// archived is a world with a cold tier behind it.
type archived struct {
	*world
	primary, backup *coldtest.FaultBucket
	archive         *cold.Archive
	engine          *behind
}

// behind is a background engine whose erasing is faked.
type behind struct {
	*lifecycle.Engine
	tenant, receipt string
	request         tiering.EraseRequest
}

func (b *behind) Erase(_ context.Context, tenant string, r tiering.EraseRequest) (*tiering.EraseReceipt, error) {
	b.tenant, b.request = tenant, r
	return &tiering.EraseReceipt{ID: "r", State: "running"}, nil
}

func (b *behind) Erasure(_ context.Context, tenant, receipt string) (*tiering.EraseReceipt, error) {
	b.tenant, b.receipt = tenant, receipt
	return &tiering.EraseReceipt{ID: receipt, State: "done"}, nil
}

func openArchived(t *testing.T) *archived {
	a := &archived{primary: coldtest.NewFaultBucket(&coldtest.Memory{}), backup: coldtest.NewFaultBucket(&coldtest.Memory{})}
	a.archive = cold.NewArchive(a.primary, a.backup, &cold.ArchiveOptions{Cooldown: time.Millisecond})
	a.world = open(t, setup{config: func(c *Config) {
		a.engine = &behind{Engine: lifecycle.New(lifecycle.Config{Warm: c.Warm, Archive: a.archive})}
		c.Archive, c.Background = a.archive, a.engine
	}})
	return a
}

// demote moves a document by hand.
func (a *archived) demote(id string) {
	a.Helper()
	x, err := a.r.Demote(a.ctx, space, id)
	a.no(err)
	for _, c := range x.Copies {
		if want := map[tiering.Tier]string{tiering.Hot: "absent", tiering.Warm: "absent", tiering.Cold: "verified"}[c.Tier]; c.State != want {
			a.Errorf("after a demotion the copy in %s %s is %s, want %s", c.Tier, c.Copy, c.State, want)
		}
	}
}

// tier reads a document and says where it came from.
func (a *archived) tier(id, body string) tiering.Tier {
	a.Helper()
	d, err := a.r.Get(a.ctx, space, id, nil)
	a.no(err)
	if string(d.Body) != body {
		a.Errorf("%s is %s, want %s", id, d.Body, body)
	}
	return d.Tier
}

func TestADemotedDocumentIsReadFromColdOnceThenComesBack(t *testing.T) {
	a := openArchived(t)
	a.put("k", `{"n":1.10}`)
	a.demote("k")
	a.demote("k") // again: there is nothing to do
	for i, want := range []tiering.Tier{tiering.Cold, tiering.Hot} {
		if got := a.tier("k", `{"n":1.10}`); got != want {
			t.Errorf("read %d came from %s, want %s", i, got, want)
		}
	}
	a.evict("k")
	if got := a.tier("k", `{"n":1.10}`); got != tiering.Warm {
		t.Errorf("after the promotion a read came from %s", got)
	}
}

func TestPromoteBringsTheBytesBack(t *testing.T) {
	a := openArchived(t)
	stay := false
	a.policy(space, tiering.Policy{Promote: &stay})
	a.put("k", `1`)
	a.demote("k")
	if got := a.tier("k", `1`); got != tiering.Cold {
		t.Fatalf("a read came from %s", got)
	}
	for range 2 { // the second time there is nothing to do
		x, err := a.r.Promote(a.ctx, space, "k")
		a.no(err)
		if x.Copies[1].Tier != tiering.Warm || x.Copies[1].State != "present" {
			t.Errorf("after a promotion: %+v", x.Copies)
		}
	}
	a.evict("k")
	if got := a.tier("k", `1`); got != tiering.Warm {
		t.Errorf("a read came from %s", got)
	}
}

func TestWhatStandsInTheWayOfADemotion(t *testing.T) {
	for _, c := range []struct {
		name string
		prep func(*archived)
		do   func(*archived) error
		code tiering.Code
	}{
		{"nothing stands there", func(*archived) {}, nil, tiering.CodeNotFound},
		{"it was deleted", func(a *archived) { a.put("k", `1`); a.delete("k") }, nil, tiering.CodeNotFound},
		{"it is pinned", func(a *archived) {
			a.put("k", `1`)
			_, err := a.r.Pin(a.ctx, space, "k", true, nil)
			a.no(err)
		}, nil, tiering.CodeWrongKind},
		{"one bucket is down", func(a *archived) {
			a.put("k", `1`)
			a.backup.Inject(coldtest.Fault{Before: errors.New("connection refused")})
		}, nil, tiering.CodeUnavailable},
		{"both buckets are down", func(a *archived) {
			a.put("k", `1`)
			a.primary.Inject(coldtest.Fault{Before: errors.New("connection refused")})
			a.backup.Inject(coldtest.Fault{Before: errors.New("connection refused")})
		}, nil, tiering.CodeUnavailable},
		{"no archive works", func(a *archived) { a.put("k", `1`); a.r.Background = nil }, nil, tiering.CodeUnavailable},
		{"the namespace is ephemeral", func(a *archived) { a.policy(space, tiering.Policy{Class: tiering.ClassEphemeral}); a.put("k", `1`) }, nil, tiering.CodeUnsupported},
		{"the id is none", func(*archived) {}, func(a *archived) error {
			_, err := a.r.Demote(a.ctx, space, "a//b")
			return err
		}, tiering.CodeInvalid},
		{"the key may only read", func(a *archived) { a.put("k", `1`) }, func(a *archived) error {
			_, err := a.scoped(tiering.Scope{Verbs: []tiering.Verb{tiering.VerbRead}}).Demote(a.ctx, space, "k")
			return err
		}, tiering.CodeForbidden},
		{"it is another user's", func(a *archived) { a.put("k", `1`) }, func(a *archived) error {
			_, err := a.scoped(tiering.Scope{User: "ann"}).Demote(a.ctx, space, "k")
			return err
		}, tiering.CodeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := openArchived(t)
			c.prep(a)
			if c.do == nil {
				c.do = func(a *archived) error {
					_, err := a.r.Demote(a.ctx, space, "k")
					return err
				}
			}
			err := c.do(a)
			var e *tiering.Error
			if !errors.As(err, &e) || e.Code != c.code {
				t.Fatalf("%v, want %s", err, c.code)
			}
			if c.code == tiering.CodeUnavailable && e.RetryAfter != time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

func TestADemotionWaitsForTheSecondCopyOnly(t *testing.T) {
	a := openArchived(t)
	a.put("k", `1`)
	a.backup.Inject(coldtest.Fault{Before: errors.New("connection refused")})
	if _, err := a.r.Demote(a.ctx, space, "k"); !errors.Is(err, tiering.ErrUnavailable) {
		t.Fatalf("with one copy: %v", err)
	}
	if got := a.strong("k"); got != `1` {
		t.Fatalf("the document is %q", got)
	}
	a.backup.Clear()
	a.put("k", `2`)
	a.demote("k")
	if got := a.tier("k", `2`); got != tiering.Cold {
		t.Errorf("a read came from %s", got)
	}
}

// A reader that took the bytes from warm before they left must not fill hot
// with them afterwards: the next read comes from cold.
func TestADemotionKillsTheFillsUnderWay(t *testing.T) {
	a := openArchived(t)
	rc := a.put("k", `1`)
	a.evict("k")
	l, err := a.hot.Get(a.ctx, key("k"), true)
	a.no(err)
	if l.Lease == 0 {
		t.Fatal("no lease")
	}
	a.demote("k")
	stored, err := a.hot.Fill(a.ctx, key("k"), l.Lease, hot.Entry{Meta: rc.Meta, Body: []byte(`1`)}, time.Minute)
	a.no(err)
	if stored {
		t.Error("the fill was stored")
	}
}

// Segments are rewritten while they are read, and after an erase the old ones
// are gone at once: a reader that looked the place up before finds the new one.
func TestAReadFollowsARewrittenSegment(t *testing.T) {
	a := openArchived(t)
	a.put("k", `1`)
	a.demote("k")
	locs, err := a.warm.Locations(a.ctx, key("k"))
	a.no(err)
	old := locs[0].Segment
	reached, gate := make(chan struct{}), make(chan struct{})
	a.primary.Inject(coldtest.Fault{Call: coldtest.Read, Name: old, Times: 1, Reached: reached, Gate: gate})
	read := call(a.world, func() (*tiering.Document, error) { return a.r.Get(a.ctx, space, "k", nil) })
	<-reached
	a.rewrite(old)
	close(gate)
	d, err := read()
	a.no(err)
	if string(d.Body) != `1` || d.Tier != tiering.Cold {
		t.Errorf("%s from %s", d.Body, d.Tier)
	}
}

// rewrite puts a segment in the place of another of the same content.
func (a *archived) rewrite(old string) {
	a.Helper()
	src, err := a.archive.OpenObject(a.ctx, tiering.Backup, old)
	a.no(err)
	var records []cold.Record
	for r, err := range src.Records() {
		a.no(err)
		records = append(records, r)
	}
	enc, err := cold.Encode(src.Tenant(), src.Ranges(), records, &cold.EncodeOptions{Epoch: src.Epoch()})
	a.no(err)
	s := tiering.SegmentInfo{Name: a.archive.Name(a.clock.Now(), 9), Tenant: src.Tenant(), Token: 9,
		Copies: [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}}
	a.no(a.warm.StartSegment(a.ctx, s))
	errs := a.archive.WriteBoth(a.ctx, s.Name, enc.Data)
	a.no(errors.Join(errs[0], errs[1]))
	a.no(a.warm.ReplaceSegments(a.ctx, s, enc.LocationsFor(s.Name), []string{old}))
	errs = a.archive.OccupyBoth(a.ctx, old)
	a.no(errors.Join(errs[0], errs[1]))
}

// A read whose bytes came back to warm between the look at the head and the
// look for the place reads them there.
func TestAReadFollowsAnErase(t *testing.T) {
	a := openArchived(t)
	a.put("k", `1`)
	a.demote("k")
	begun := a.erase(warm.Selector{Tenant: tiering.DefaultTenant, Namespace: space, ID: "k"})
	_, err := a.r.fromCold(a.ctx, begun)
	if !errors.Is(err, errMoved) {
		t.Errorf("the bytes of an erased document: %v", err)
	}
	if got := a.get("k"); got != "" {
		t.Errorf("a read answers %s", got)
	}
}

// erase takes a subject from warm, and returns the head that stood.
func (a *archived) erase(s warm.Selector) warm.Head {
	a.Helper()
	cur, err := a.warm.Head(a.ctx, key(s.ID))
	a.no(err)
	a.no(a.warm.StartErase(a.ctx, warm.Erasure{ID: "r", Selector: s}))
	for more := true; more; {
		_, more, err = a.warm.EraseKeys(a.ctx, "r", 100)
		a.no(err)
	}
	return cur.Head
}

func TestOnlyAnAdministratorErases(t *testing.T) {
	a := openArchived(t)
	for _, s := range []tiering.Scope{
		{Verbs: []tiering.Verb{tiering.VerbWrite, tiering.VerbDelete}}, {Namespaces: []string{space}}, {Prefixes: []string{"a/"}}, {User: "ann"},
	} {
		r := a.scoped(s)
		_, erase := r.Erase(a.ctx, tiering.EraseRequest{User: "ann"})
		_, status := r.Erasure(a.ctx, "r")
		for what, err := range map[string]error{"erase": erase, "receipt": status, "confirm": r.ConfirmClock(a.ctx)} {
			if !errors.Is(err, tiering.ErrForbidden) {
				t.Errorf("%s under %+v: %v, want forbidden", what, s, err)
			}
		}
	}
	r := a.r.As(tiering.Principal{Tenant: "acme"})
	if _, err := r.Erase(a.ctx, tiering.EraseRequest{User: "ann"}); err != nil || a.engine.tenant != "acme" || a.engine.request.User != "ann" {
		t.Errorf("%v; the engine was asked by %q for %+v", err, a.engine.tenant, a.engine.request)
	}
	if got, err := a.r.Erasure(a.ctx, "r7"); err != nil || got.ID != "r7" || a.engine.tenant != tiering.DefaultTenant {
		t.Errorf("%+v, %v, asked by %q", got, err, a.engine.tenant)
	}
	a.no(a.r.ConfirmClock(a.ctx))
	if high, err := a.warm.HighWater(a.ctx); err != nil || high.IsZero() {
		t.Errorf("the clock was not confirmed: %s, %v", high, err)
	}
	a.r.Background = nil
	if _, err := a.r.Erase(a.ctx, tiering.EraseRequest{User: "ann"}); !errors.Is(err, tiering.ErrUnsupported) {
		t.Errorf("without an engine: %v", err)
	}
}
