package hot

import "context"

// Act is what a Step does.
type Act uint8

// The acts, each a method of Store.
const (
	ToMark Act = iota + 1
	ToUnmark
	ToSet
)

// Step is one of several calls that go together. Of Set a mark and an unmark
// need Key and Token alone.
type Step struct {
	Act Act
	Set Set
}

// Batcher is a store that takes many calls in one exchange, as one behind a
// network does. A wrapper that changes or watches calls passes Together on
// itself: it is not looked for in what a store wraps.
type Batcher interface {
	// Together carries steps out on different keys, in no order. Each ends as
	// its call would alone; errs[i] is the error of steps[i].
	Together(ctx context.Context, steps []Step) (errs []error)
}

// Together carries steps out on different keys: in one exchange where s can,
// else one after the other.
func Together(ctx context.Context, s Store, steps []Step) (errs []error) {
	if b, ok := s.(Batcher); ok && len(steps) > 1 {
		return b.Together(ctx, steps)
	}
	errs = make([]error, len(steps))
	for i := range steps {
		errs[i] = steps[i].do(ctx, s)
	}
	return errs
}

func (st *Step) do(ctx context.Context, s Store) error {
	switch st.Act {
	case ToMark:
		return s.Mark(ctx, st.Set.Key, st.Set.Token)
	case ToUnmark:
		return s.Unmark(ctx, st.Set.Key, st.Set.Token)
	}
	_, err := s.Set(ctx, st.Set)
	return err
}
