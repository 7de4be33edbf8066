package hottest

import "github.com/tierd/tierd/hot"

// Races are the interleavings of readers and writers that bring an old value
// back in a naive store. They judge only what a reader is served, so that each
// can be played on a store of Naive.
func Races() []Scenario {
	return []Scenario{
		scenario("a fill that comes after a newer set", func(p *probe) {
			lease := p.miss()
			p.mark(1)
			p.set(2, 1)
			p.fill(lease, 1)
			p.wantPresent(2)
		}),
		scenario("a fill that comes after a newer set without a mark", func(p *probe) {
			lease := p.miss()
			p.set(2, 0)
			p.fill(lease, 1)
			p.wantPresent(2)
		}),
		scenario("a fill that comes after a newer value has expired", func(p *probe) {
			lease := p.miss()
			p.mark(1)
			p.setFor(2, 0, 1, p.Timing.Lease/4)
			p.advance(p.Timing.Lease / 4)
			p.fill(lease, 1)
			p.want(hot.Empty)
		}),
		scenario("a fill that comes after a delete", func(p *probe) {
			lease := p.miss()
			p.mark(1)
			p.delete(2, 1)
			p.fill(lease, 1)
			p.wantDeleted(2)
		}),
		scenario("a fill that comes after a delete without a mark", func(p *probe) {
			lease := p.miss()
			p.delete(2, 0)
			p.fill(lease, 1)
			p.wantDeleted(2)
		}),
		scenario("a fill that comes after the tombstone has lapsed", func(p *probe) {
			lease := p.miss()
			p.delete(2, 0)
			p.advance(p.Timing.Tombstone)
			p.fill(lease, 1)
			p.want(hot.Empty)
		}),
		scenario("a fill after the writer of a newer version died", func(p *probe) {
			lease := p.miss()
			p.mark(1)
			p.fill(lease, 1)
			p.want(hot.Pending)
			p.advance(p.Timing.Token)
			p.want(hot.Empty)
		}),
		scenario("a fill after the writer gave up, when another has committed", func(p *probe) {
			lease := p.miss()
			p.mark(1)
			p.unmark(1)
			p.fill(lease, 1)
			p.want(hot.Empty)
		}),
		scenario("the set of a writer that stalled behind a newer one", func(p *probe) {
			p.mark(1)
			p.mark(2)
			p.set(2, 2)
			p.set(1, 1)
			p.want(hot.Empty)
		}),
		scenario("the set of a writer without a mark that stalled", func(p *probe) {
			p.set(2, 0)
			p.set(1, 0)
			p.wantPresent(2)
		}),
		scenario("the set of a writer that stalled behind a touch", func(p *probe) {
			p.setFor(1, 1, 0, long)
			p.setFor(1, 0, 0, long)
			p.wantRevision(1, 1)
		}),
		scenario("the set of a writer that stalled behind a delete", func(p *probe) {
			p.mark(1)
			p.mark(2)
			p.delete(2, 2)
			p.set(1, 1)
			p.wantAbsent()
		}),
		scenario("the set of a writer without a mark that stalled behind a delete", func(p *probe) {
			p.delete(2, 0)
			p.set(1, 0)
			p.wantDeleted(2)
		}),
		scenario("a writer that dies between mark and set", func(p *probe) {
			p.set(1, 0)
			p.mark(1)
			p.want(hot.Pending)
			p.advance(p.Timing.Token)
			p.want(hot.Empty)
		}),
		scenario("a set while another writer is pending, who dies", func(p *probe) {
			p.mark(1)
			p.mark(2)
			p.set(1, 1)
			p.want(hot.Pending)
			p.advance(p.Timing.Token)
			p.want(hot.Empty)
		}),
		scenario("a set beside a mark that has lapsed, whose writer had committed and died", func(p *probe) {
			p.mark(2)
			p.pass(p.Timing.Token * 6 / 10)
			p.mark(1)
			p.pass(p.Timing.Token * 5 / 10)
			p.set(1, 1)
			p.want(hot.Empty)
		}),
		scenario("a set whose mark has lapsed", func(p *probe) {
			p.mark(1)
			p.advance(p.Timing.Token)
			lease := p.miss()
			p.set(2, 1)
			p.want(hot.Empty)
			p.fill(lease, 1)
			p.want(hot.Empty)
		}),
		scenario("a set whose mark has lapsed, after a fill of the version before", func(p *probe) {
			p.mark(1)
			p.advance(p.Timing.Token)
			p.fill(p.miss(), 1)
			p.wantPresent(1)
			p.set(2, 1)
			p.want(hot.Empty)
		}),
		scenario("a writer that renews its mark past what a tombstone lives", func(p *probe) {
			p.mark(1)
			p.mark(2)
			p.set(2, 2)
			for passed := p.Timing.Token * 0; passed <= p.Timing.Tombstone; passed += p.Timing.Token / 2 {
				p.pass(p.Timing.Token / 2)
				p.mark(1)
			}
			p.set(1, 1)
			p.wantAbsent()
		}),
	}
}
