package memory

import "time"

// floorCost is what one floor takes in its map, in bytes.
const floorCost = 48

// floors remember what was seen of keys that have no record any more, by the
// hash of the key: two keys with one hash share the higher floor, and at worst
// something is not stored. A floor lives for one to two generations.
type floors struct {
	young, old map[uint64]rank
	turned     time.Duration // when young began
}

func (f *floors) get(hash uint64) rank {
	a, b := f.young[hash], f.old[hash]
	if a.compare(b) >= 0 {
		return a
	}
	return b
}

// put remembers at. It turns first, so that a floor is never younger than its
// generation, however late the sweeper is.
func (f *floors) put(hash uint64, at rank, now, ttl time.Duration) {
	f.turn(now, ttl)
	if f.young == nil {
		f.young = map[uint64]rank{}
	}
	if at.compare(f.young[hash]) > 0 {
		f.young[hash] = at
	}
}

// turn starts a generation every ttl and drops the one before the last.
func (f *floors) turn(now, ttl time.Duration) {
	switch {
	case now >= f.turned+2*ttl:
		*f = floors{turned: now}
	case now >= f.turned+ttl:
		*f = floors{old: f.young, turned: now}
	}
}

func (f *floors) bytes() int64 { return int64(len(f.young)+len(f.old)) * floorCost }
