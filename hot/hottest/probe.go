package hottest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// long is a life that ends in no scenario.
const long = time.Hour

// probe plays a script on one key and keeps the first violation. Versions have
// bodies made from their number, so that a reader knows what it got.
type probe struct {
	Subject
	ctx   context.Context
	key   tiering.Key
	steps []string
	err   error
}

// entry is what version and revision of a key look like.
func entry(key tiering.Key, version, revision int64) hot.Entry {
	body := fmt.Appendf(nil, `{"version":%d,"key":%q}`, version, key.ID)
	at := time.UnixMicro(1_700_000_000_000_000 + version).UTC()
	return hot.Entry{Body: body, Meta: tiering.Meta{
		Namespace: key.Namespace, ID: key.ID, Version: version, Revision: revision,
		Digest: tiering.DigestOf(body), Size: int64(len(body)), CreatedAt: at, UpdatedAt: at,
	}}
}

func (p *probe) step(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

func (p *probe) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("after %v: %s", p.steps, fmt.Sprintf(format, args...))
	}
}

func (p *probe) check(err error) {
	if err != nil {
		p.fail("%v", err)
	}
}

func (p *probe) wantStored(got, want bool) {
	if got != want {
		p.fail("stored is %v, want %v", got, want)
	}
}

// advance lets a little more than d pass, so that what lives for d has lapsed.
func (p *probe) advance(d time.Duration) { p.pass(d + d/10) }

// pass lets d pass.
func (p *probe) pass(d time.Duration) {
	p.step("%v pass", d)
	p.Advance(d)
}

func (p *probe) mark(token hot.Token) {
	p.step("mark %d", token)
	p.check(p.Store.Mark(p.ctx, p.key, token))
}

func (p *probe) unmark(token hot.Token) {
	p.step("unmark %d", token)
	p.check(p.Store.Unmark(p.ctx, p.key, token))
}

// set stores a version under token and reports whether it was stored.
func (p *probe) set(version int64, token hot.Token) bool { return p.setFor(version, 0, token, long) }

func (p *probe) setFor(version, revision int64, token hot.Token, ttl time.Duration) bool {
	p.step("set v%d.%d under %d", version, revision, token)
	stored, err := p.Store.Set(p.ctx, hot.Set{Key: p.key, Token: token, Entry: entry(p.key, version, revision), TTL: ttl})
	p.check(err)
	return stored
}

func (p *probe) delete(version int64, token hot.Token) bool {
	p.step("delete v%d under %d", version, token)
	e := hot.Entry{Meta: tiering.Meta{Namespace: p.key.Namespace, ID: p.key.ID, Version: version}}
	stored, err := p.Store.Set(p.ctx, hot.Set{Key: p.key, Token: token, Entry: e, Deleted: true})
	p.check(err)
	return stored
}

func (p *probe) fill(lease hot.Token, version int64) bool {
	return p.fillFor(lease, version, 0, long)
}

func (p *probe) fillFor(lease hot.Token, version, revision int64, ttl time.Duration) bool {
	p.step("fill v%d.%d", version, revision)
	stored, err := p.Store.Fill(p.ctx, p.key, lease, entry(p.key, version, revision), ttl)
	p.check(err)
	return stored
}

func (p *probe) drop(version, revision int64) {
	p.step("drop v%d.%d", version, revision)
	p.check(p.Store.Drop(p.ctx, p.key, version, revision))
}

func (p *probe) get(lease bool) hot.Lookup {
	l, err := p.Store.Get(p.ctx, p.key, lease)
	p.check(err)
	return l
}

// miss is a reader that must find nothing and be given the lease.
func (p *probe) miss() hot.Token {
	p.step("a reader misses")
	l := p.get(true)
	if l.State != hot.Empty || l.Lease == 0 {
		p.fail("the reader got %s, want empty and a lease", describe(l))
	}
	return l.Lease
}

// wantNoLease is a reader that must find nothing, and the lease taken.
func (p *probe) wantNoLease() {
	if l := p.get(true); l.State != hot.Empty || l.Lease != 0 {
		p.fail("the reader got %s, want empty without a lease", describe(l))
	}
}

// wantHolder is a reader that asks for the lease where holder has it; 0: that
// does not ask.
func (p *probe) wantHolder(holder hot.Token) {
	if l := p.get(holder != 0); l.Holder != holder || l.Lease != 0 {
		p.fail("the reader got %s and was told of the lease %x, want %x", describe(l), uint64(l.Holder), uint64(holder))
	}
}

func (p *probe) want(state hot.State) {
	if l := p.get(false); l.State != state {
		p.fail("a reader got %s, want %s", describe(l), stateName(state))
	}
}

func (p *probe) wantPresent(version int64) { p.wantRevision(version, 0) }

func (p *probe) wantRevision(version, revision int64) {
	l := p.get(false)
	want := entry(p.key, version, revision)
	if l.State != hot.Present || l.Entry.Meta != want.Meta || !bytes.Equal(l.Entry.Body, want.Body) {
		p.fail("a reader got %s, want v%d.%d", describe(l), version, revision)
	}
	if l.Lease != 0 {
		p.fail("a hit carries a lease")
	}
}

func (p *probe) wantDeleted(version int64) {
	l := p.get(true)
	if l.State != hot.Deleted || l.Entry.Meta.Version != version || l.Lease != 0 {
		p.fail("a reader got %s, want v%d deleted", describe(l), version)
	}
}

// wantAbsent is a reader that must not be served, whatever it is told instead.
func (p *probe) wantAbsent() {
	if l := p.get(false); l.State == hot.Present {
		p.fail("a reader got %s, want none", describe(l))
	}
}

func stateName(s hot.State) string {
	return [...]string{"empty", "present", "deleted", "pending"}[s]
}

func describe(l hot.Lookup) string {
	s := stateName(l.State)
	if l.State == hot.Present || l.State == hot.Deleted {
		s += fmt.Sprintf(" v%d.%d %s", l.Entry.Meta.Version, l.Entry.Meta.Revision, l.Entry.Body)
	}
	if l.Lease != 0 {
		s += " with a lease"
	}
	return s
}
