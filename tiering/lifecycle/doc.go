// Package lifecycle is the background engine: it moves state between the tiers
// as it ages. Every move is decided by tiering.Policy.Plan and carried out by
// one idempotent step, under a lease whose token only grows, with backoff and a
// parked state that an operator can see. A crash between any two steps loses
// nothing and leaves nothing that the next run does not mend.
package lifecycle
