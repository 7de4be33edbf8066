package bench

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tierd/tierd/tiering"
)

// servers counts the reads that another tier served than the one that is
// measured: hot may be full, or out of reach for a moment.
type servers struct {
	want           tiering.Tier
	all, elsewhere atomic.Int64
}

func (s *servers) by(d *tiering.Document, err error) error {
	s.all.Add(1)
	if err == nil && d.Tier != s.want {
		s.elsewhere.Add(1)
	}
	return err
}

// tell says so where it was one read in a hundred, or more.
func (m *measurement) tell(s *servers) {
	if n, all := s.elsewhere.Load(), s.all.Load(); n > 0 && n*100 >= all {
		m.figures.Left = append(m.figures.Left, fmt.Sprintf("%d of %d reads from %s: another tier served them", n, all, s.want))
	}
}

// warmGets read what hot has lost, each document once.
func (m *measurement) warmGets(ctx context.Context) error {
	if err := m.forget(ctx, m.Keys); err != nil {
		return err
	}
	served := servers{want: tiering.Warm}
	defer m.tell(&served)
	for i, n := range onceReaders() {
		prepare, each := m.once(m.Keys, i)
		ways := []way{{whoTierd, prepare, each(func(ctx context.Context, k int) error {
			d, err := m.node.Get(ctx, namespace, keyName(k), nil)
			return served.by(d, err)
		})}}
		if m.hand != nil {
			ways = append(ways,
				way{whoHand, prepare, each(func(ctx context.Context, k int) error { return m.hand.miss(ctx, keyName(k)) })},
				way{whoRaw, prepare, each(func(ctx context.Context, k int) error {
					_, err := m.hand.row(ctx, keyName(k))
					return err
				})})
		}
		samples, err := m.turns(ctx, n, ways)
		if err != nil {
			return err
		}
		m.figures.add("warm", "get of 1 KB that hot has lost", n, samples)
	}
	return nil
}

// onceReaders are the numbers of readers where each document is read once.
func onceReaders() []int { return []int{1, 16} }

// once shares documents 0..count-1 out to the cases, of which this is the nth,
// and to their turns, so that each contestant reads each document once.
func (m *measurement) once(count, nth int) (prepare func(context.Context, int) error, each func(func(context.Context, int) error) func(context.Context, int, int) error) {
	share := count / len(onceReaders()) / m.Rounds
	var next, end atomic.Int64
	prepare = func(_ context.Context, round int) error {
		from := int64((nth*m.Rounds + round) * share)
		next.Store(from)
		end.Store(from + int64(share))
		return nil
	}
	each = func(read func(context.Context, int) error) func(context.Context, int, int) error {
		return func(ctx context.Context, _, _ int) error {
			k := next.Add(1) - 1
			if k >= end.Load() {
				return errNoMore
			}
			return read(ctx, int(k))
		}
	}
	return prepare, each
}

// coldReads read documents that were demoted, each once, beside objects of their
// size.
func (m *measurement) coldReads(ctx context.Context) error {
	stays := false
	if _, err := m.node.SetNamespace(ctx, "old", tiering.Policy{Promote: &stays}, nil); err != nil {
		return err
	}
	docs := documents(m.cold, coldBytes)
	err := together(16, func(w int) error {
		for i := w; i < m.cold; i += 16 {
			if _, err := m.node.Put(ctx, "old", keyName(i), docs[i], nil); err != nil {
				return err
			}
			if err := m.raw.Create(ctx, fmt.Sprintf("raw/%04d", i), bytes.NewReader(docs[i]), int64(len(docs[i]))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := m.node.Archive(ctx); err != nil {
		return err
	}
	err = together(16, func(w int) error {
		for i := w; i < m.cold; i += 16 {
			if _, err := m.node.Demote(ctx, "old", keyName(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	served := servers{want: tiering.Cold}
	defer m.tell(&served)
	for i, n := range onceReaders() {
		prepare, each := m.once(m.cold, i)
		samples, err := m.turns(ctx, n, []way{
			{whoTierd, prepare, each(func(ctx context.Context, k int) error {
				d, err := m.node.Get(ctx, "old", keyName(k), nil)
				return served.by(d, err)
			})},
			{whoRaw, prepare, each(func(ctx context.Context, k int) error {
				_, err := m.raw.Read(ctx, fmt.Sprintf("raw/%04d", k), 0, -1)
				return err
			})},
		})
		if err != nil {
			return err
		}
		m.figures.add("cold", "read of 16 KB from cold", n, samples)
	}
	return nil
}
