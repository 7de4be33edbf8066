package warm

import "context"

type leaseKey struct{}

// Under returns a context under which Catalog and Merger change nothing once
// the lease was taken anew: they fail with fenced. So whoever was paused while
// another took over does no more harm than if he had died. A lease that ran out
// still counts while nobody took it.
func Under(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseOf returns the lease that ctx works under, ok false for none.
func LeaseOf(ctx context.Context) (l Lease, ok bool) {
	l, ok = ctx.Value(leaseKey{}).(Lease)
	return l, ok
}
