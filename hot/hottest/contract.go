package hottest

import "github.com/tierd/tierd/hot"

// Contract is what each method promises about the marks of one key.
func Contract() []Scenario {
	return []Scenario{
		scenario("an unknown key is empty", func(p *probe) {
			p.want(hot.Empty)
			if l := p.get(false); l.Lease != 0 {
				p.fail("a lease was given unasked")
			}
		}),
		scenario("set stores, and get returns every field", func(p *probe) {
			p.wantStored(p.set(1, 0), true)
			p.wantPresent(1)
		}),
		scenario("set under a mark stores and ends it", func(p *probe) {
			p.mark(1)
			p.want(hot.Pending)
			p.wantStored(p.set(1, 1), true)
			p.wantPresent(1)
			p.wantStored(p.set(2, 0), true)
		}),
		scenario("set replaces by version, then revision", func(p *probe) {
			p.wantStored(p.setFor(9, 0, 0, long), true)
			p.wantStored(p.setFor(10, 0, 0, long), true)
			p.wantStored(p.setFor(10, 2, 0, long), true)
			p.wantStored(p.setFor(10, 1, 0, long), false)
			p.wantStored(p.setFor(9, 7, 0, long), false)
			p.wantRevision(10, 2)
			p.wantStored(p.setFor(10, 10, 0, long), true)
			p.wantRevision(10, 10)
		}),
		scenario("versions compare exactly beyond 2^53", func(p *probe) {
			const big = int64(1) << 53
			p.wantStored(p.set(big, 0), true)
			p.wantStored(p.set(big+1, 0), true)
			p.wantPresent(big + 1)
			p.wantStored(p.set(big, 0), false)
			p.wantStored(p.set(1<<63-1, 0), true)
			p.wantPresent(1<<63 - 1)
		}),
		scenario("the same version is not newer", func(p *probe) {
			p.wantStored(p.set(1, 0), true)
			p.wantStored(p.set(1, 0), false)
			p.wantPresent(1)
		}),
		scenario("a mark that another writer holds stops a set, also without a mark", func(p *probe) {
			p.mark(1)
			p.wantStored(p.set(1, 0), false)
			p.mark(2)
			p.wantStored(p.set(3, 2), false)
			p.wantStored(p.set(2, 1), false)
			p.want(hot.Empty)
		}),
		scenario("the last of several writers stores", func(p *probe) {
			p.mark(1)
			p.mark(2)
			p.wantStored(p.set(1, 1), false)
			p.wantStored(p.set(2, 2), true)
			p.wantPresent(2)
		}),
		scenario("a set under a token never marked stores nothing", func(p *probe) {
			p.wantStored(p.set(1, 7), false)
			p.want(hot.Empty)
		}),
		scenario("a set under a lapsed mark is seen all the same", func(p *probe) {
			p.mark(1)
			p.advance(p.Timing.Token)
			p.wantStored(p.set(5, 1), false)
			p.wantStored(p.fill(p.miss(), 4), false)
			p.wantStored(p.set(4, 0), false)
			p.wantStored(p.fill(p.miss(), 5), true)
			p.wantPresent(5)
		}),
		scenario("a set that is refused kills the lease", func(p *probe) {
			lease := p.miss()
			p.wantStored(p.set(1, 7), false)
			p.wantStored(p.fill(lease, 1), false)
			p.want(hot.Empty)
		}),
		scenario("a mark is pending until unmarked", func(p *probe) {
			p.set(1, 0)
			p.mark(1)
			p.mark(2)
			p.unmark(1)
			p.want(hot.Pending)
			p.unmark(2)
			p.want(hot.Empty)
			p.wantStored(p.fill(p.miss(), 1), true)
		}),
		scenario("unmark of a token unknown or lapsed changes nothing", func(p *probe) {
			p.unmark(1)
			p.set(1, 0)
			p.unmark(1)
			p.wantPresent(1)
		}),
		scenario("a mark lapses", func(p *probe) {
			p.mark(1)
			p.pass(p.Timing.Token * 6 / 10)
			p.want(hot.Pending)
			p.pass(p.Timing.Token * 5 / 10)
			p.want(hot.Empty)
		}),
		scenario("marking again renews", func(p *probe) {
			p.mark(1)
			p.pass(p.Timing.Token * 6 / 10)
			p.mark(1)
			p.pass(p.Timing.Token * 6 / 10)
			p.want(hot.Pending)
			p.wantStored(p.set(1, 1), true)
		}),
		scenario("marks lapse each on its own", func(p *probe) {
			p.mark(1)
			p.pass(p.Timing.Token * 6 / 10)
			p.mark(2)
			p.pass(p.Timing.Token * 6 / 10)
			p.want(hot.Pending)
			p.pass(p.Timing.Token * 5 / 10)
			p.want(hot.Empty)
		}),
		scenario("a mark that lapses spoils those beside it, not later ones", func(p *probe) {
			p.mark(1)
			p.pass(p.Timing.Token * 6 / 10)
			p.mark(2)
			p.pass(p.Timing.Token * 5 / 10)
			p.mark(3)
			p.mark(2)
			p.wantStored(p.set(2, 2), false)
			p.want(hot.Pending)
			p.wantStored(p.set(3, 3), true)
			p.wantPresent(3)
		}),
		scenario("a mark that ends by unmark or set spoils none", func(p *probe) {
			p.mark(1)
			p.mark(2)
			p.mark(3)
			p.pass(p.Timing.Token * 6 / 10)
			p.unmark(1)
			p.wantStored(p.set(2, 2), false)
			p.mark(3)
			p.pass(p.Timing.Token * 6 / 10)
			p.wantStored(p.set(3, 3), true)
		}),
		scenario("a zero token cannot be marked", func(p *probe) {
			if err := p.Store.Mark(p.ctx, p.key, 0); err == nil {
				p.fail("no error")
			}
			p.want(hot.Empty)
		}),
		scenario("no lease is granted while a write is pending", func(p *probe) {
			p.mark(1)
			if l := p.get(true); l.State != hot.Pending || l.Lease != 0 {
				p.fail("the reader got %s", describe(l))
			}
		}),
		scenario("one reader at a time holds the lease", func(p *probe) {
			lease := p.miss()
			p.wantNoLease()
			p.wantStored(p.fill(lease, 1), true)
			p.wantPresent(1)
		}),
		scenario("a reader is told which lease lives", func(p *probe) {
			p.wantHolder(0)
			first := p.miss()
			p.wantHolder(first)
			p.mark(1)
			p.wantHolder(0)
			p.unmark(1)
			second := p.miss()
			p.wantHolder(second)
			p.wantStored(p.set(1, 0), true)
			p.wantHolder(0)
			p.drop(0, 0)
			p.wantHolder(p.miss())
		}),
		scenario("a lease lapses, and the next reader has it", func(p *probe) {
			first := p.miss()
			p.pass(p.Timing.Lease * 6 / 10)
			p.wantNoLease()
			p.pass(p.Timing.Lease * 5 / 10)
			second := p.miss()
			p.wantStored(p.fill(first, 1), false)
			p.wantStored(p.fill(second, 1), true)
		}),
		scenario("a lapsed lease fills nothing", func(p *probe) {
			lease := p.miss()
			p.advance(p.Timing.Lease)
			p.wantStored(p.fill(lease, 1), false)
			p.want(hot.Empty)
		}),
		scenario("a lease fills once", func(p *probe) {
			lease := p.miss()
			p.wantStored(p.fill(lease, 1), true)
			p.drop(0, 0)
			p.wantStored(p.fill(lease, 1), false)
			p.want(hot.Empty)
		}),
		scenario("a fill without a lease, or with another's, stores nothing", func(p *probe) {
			p.wantStored(p.fill(0, 1), false)
			p.wantStored(p.fill(7, 1), false)
			lease := p.miss()
			p.wantStored(p.fill(lease+1, 1), false)
			p.wantStored(p.fill(lease, 1), true)
			p.wantStored(p.fill(0, 2), false)
			p.wantPresent(1)
		}),
		scenario("a fill of the version last seen is stored", func(p *probe) {
			p.setFor(3, 2, 0, long)
			p.drop(3, 2)
			p.wantStored(p.fillFor(p.miss(), 3, 1, long), false)
			p.drop(0, 0)
			p.advance(p.Timing.Lease)
			p.wantStored(p.fillFor(p.miss(), 3, 2, long), true)
			p.wantRevision(3, 2)
		}),
		scenario("a delete answers readers, without a lease", func(p *probe) {
			p.set(1, 0)
			p.mark(1)
			p.wantStored(p.delete(2, 1), true)
			p.wantDeleted(2)
		}),
		scenario("a delete that is not newer leaves what stands", func(p *probe) {
			p.set(2, 0)
			p.wantStored(p.delete(1, 0), false)
			p.wantPresent(2)
		}),
		scenario("a delete stops older sets while it is remembered", func(p *probe) {
			p.delete(2, 0)
			p.pass(p.Timing.Tombstone * 8 / 10)
			p.wantDeleted(2)
			p.wantStored(p.set(1, 0), false)
			p.wantStored(p.set(3, 0), true)
			p.wantPresent(3)
		}),
		scenario("a delete outlives every lease, then lapses to empty", func(p *probe) {
			p.delete(2, 0)
			p.advance(p.Timing.Lease)
			p.wantDeleted(2)
			p.advance(p.Timing.Tombstone - p.Timing.Lease)
			p.want(hot.Empty)
			p.wantStored(p.fill(p.miss(), 3), true)
		}),
		scenario("a mark ends the answer of a delete, not its memory", func(p *probe) {
			p.delete(2, 0)
			p.mark(1)
			p.want(hot.Pending)
			p.advance(p.Timing.Token)
			p.wantStored(p.fill(p.miss(), 1), false)
			p.want(hot.Empty)
			p.wantStored(p.set(1, 0), false)
			p.wantStored(p.set(3, 0), true)
		}),
		scenario("drop removes the version it names", func(p *probe) {
			p.setFor(3, 1, 0, long)
			p.drop(2, 1)
			p.drop(3, 0)
			p.drop(4, 1)
			p.wantRevision(3, 1)
			p.drop(3, 1)
			p.want(hot.Empty)
		}),
		scenario("drop of version 0 removes any", func(p *probe) {
			p.set(3, 0)
			p.drop(0, 0)
			p.want(hot.Empty)
			p.drop(0, 0)
		}),
		scenario("drop leaves what was seen", func(p *probe) {
			p.setFor(3, 0, 0, p.Timing.Tombstone*4)
			p.advance(p.Timing.Tombstone)
			p.drop(0, 0)
			p.wantStored(p.set(2, 0), false)
			p.want(hot.Empty)
		}),
		scenario("a mark leaves what was seen", func(p *probe) {
			p.setFor(3, 0, 0, p.Timing.Tombstone*4)
			p.advance(p.Timing.Tombstone)
			p.mark(1)
			p.unmark(1)
			p.wantStored(p.set(2, 0), false)
			p.want(hot.Empty)
		}),
		scenario("drop leaves marks", func(p *probe) {
			p.mark(1)
			p.drop(0, 0)
			p.want(hot.Pending)
			p.wantStored(p.delete(2, 1), true)
			p.drop(2, 0)
			p.drop(0, 0)
			p.wantDeleted(2)
		}),
		scenario("drop leaves a lease", func(p *probe) {
			lease := p.miss()
			p.drop(0, 0)
			p.wantStored(p.fill(lease, 1), true)
		}),
		scenario("a value lives for its ttl from the set, whoever reads", func(p *probe) {
			ttl := p.Timing.Lease
			p.setFor(1, 0, 0, ttl)
			p.pass(ttl * 6 / 10)
			p.wantPresent(1)
			p.pass(ttl * 5 / 10)
			p.want(hot.Empty)
		}),
		scenario("a newer set starts a new life, also a shorter one", func(p *probe) {
			p.setFor(1, 0, 0, long)
			p.setFor(2, 0, 0, p.Timing.Lease/2)
			p.advance(p.Timing.Lease / 2)
			p.want(hot.Empty)
		}),
		scenario("a fill lives for its ttl", func(p *probe) {
			ttl := p.Timing.Lease / 2
			p.fillFor(p.miss(), 1, 0, ttl)
			p.wantPresent(1)
			p.advance(ttl)
			p.want(hot.Empty)
		}),
		scenario("a set of which no life is left is seen, not stored", func(p *probe) {
			p.set(1, 0)
			p.wantStored(p.setFor(2, 0, 0, 0), false)
			p.want(hot.Empty)
			p.wantStored(p.setFor(3, 0, 0, -1), false)
			p.wantStored(p.set(2, 0), false)
			p.wantStored(p.fillFor(p.miss(), 3, 0, 0), false)
			p.want(hot.Empty)
		}),
		scenario("what was seen outlives the value", func(p *probe) {
			p.setFor(2, 0, 0, p.Timing.Lease/4)
			p.advance(p.Timing.Lease / 4)
			p.wantStored(p.set(1, 0), false)
			p.wantStored(p.fill(p.miss(), 1), false)
			p.want(hot.Empty)
		}),
	}
}
