package hot

import "time"

// Timing is how long marks live in one store. The zero value means the
// defaults; tests of a store that cannot be given a clock shorten it. Every
// daemon that shares a store must use the same timing.
type Timing struct {
	Token     time.Duration // 0: TokenTTL
	Lease     time.Duration // 0: LeaseTTL
	Tombstone time.Duration // 0: TombstoneTTL; longer than the other two
}

// WithDefaults fills in what is zero.
func (t Timing) WithDefaults() Timing {
	if t.Token <= 0 {
		t.Token = TokenTTL
	}
	if t.Lease <= 0 {
		t.Lease = LeaseTTL
	}
	if t.Tombstone <= 0 {
		t.Tombstone = TombstoneTTL
	}
	return t
}
