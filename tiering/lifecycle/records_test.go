package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// paged is a warm store that answers few versions at a time, and then none, or
// an error.
type paged struct {
	warm.Store
	page  int
	mu    sync.Mutex
	calls int
	after int   // calls that are answered; 0: all
	err   error // of later ones
}

func (p *paged) ReadVersions(ctx context.Context, of []warm.KeyVersion, maxBytes int64) ([]warm.Version, error) {
	p.mu.Lock()
	p.calls++
	ended := p.after > 0 && p.calls > p.after
	p.mu.Unlock()
	if ended {
		return nil, p.err
	}
	return p.Store.ReadVersions(ctx, of[:min(p.page, len(of))], maxBytes)
}

// However warm cuts its answers, each change is archived with its own bytes, and
// a version that warm lost, or holds damaged, holds up nobody but itself.
func TestArchiveReadsVersionsByThePage(t *testing.T) {
	for _, page := range []int{1, 2, 3, 1000} {
		t.Run(fmt.Sprint("pages of ", page), func(t *testing.T) {
			s := newSite(t)
			s.namespace(siteTenant, "notes", tiering.Policy{})
			a, b := note("a"), note("b")
			want := map[string]string{}
			for i := range 4 {
				for _, k := range []tiering.Key{a, b} {
					body := fmt.Sprintf(`{"of":%q,"n":%d}`, k.ID, i)
					want[fmt.Sprint(k.ID, s.put(k, body).Version)] = body
				}
				s.do(b, tiering.OpTouch)
			}
			s.do(a, tiering.OpDelete)
			s.rot(`DELETE FROM version WHERE CAST(body AS TEXT) = '{"of":"a","n":2}'`)
			s.rot(`UPDATE version SET body = CAST('{"of":"b","n":9}' AS BLOB) WHERE CAST(body AS TEXT) = '{"of":"b","n":1}'`)
			delete(want, "a3")
			delete(want, "b2")

			store := &paged{Store: s.warm, page: page}
			s.engine = lifecycle.New(lifecycle.Config{Warm: store, Archive: s.archive, SegmentAge: time.Nanosecond})
			s.flush()

			if store.calls < 8/page {
				t.Errorf("%d calls for pages of %d", store.calls, page)
			}
			for _, k := range []tiering.Key{a, b} {
				for v := int64(1); v <= 4; v++ {
					got, err := s.history(k, v)
					if w, ok := want[fmt.Sprint(k.ID, v)]; got != w || ok != (err == nil) {
						t.Errorf("%s version %d in cold is %s, %v, want %q", k.ID, v, got, err, w)
					}
				}
			}
		})
	}
}

// Bodies that are read at the same time come in the order of their changes.
func TestArchiveReadsAhead(t *testing.T) {
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 400_000*(i%4))))
		s.put(note("a"), want[i])
	}
	store := &paged{Store: s.warm, page: 1000}
	s.engine = lifecycle.New(lifecycle.Config{Warm: store, Archive: s.archive, SegmentAge: time.Nanosecond})
	s.flush()
	if store.calls < 3 {
		t.Errorf("%d calls", store.calls)
	}
	for i, w := range want {
		if got, err := s.history(note("a"), int64(i+1)); err != nil || got != w {
			t.Errorf("version %d in cold has %d bytes, %v, want %d", i+1, len(got), err, len(w))
		}
	}
}

// A warm store that ends in the middle of what it is asked fails the run whole,
// and the next one archives all of it.
func TestArchiveOfHalfAnAnswerIsNone(t *testing.T) {
	gone := errors.New("gone")
	for _, c := range []struct {
		name string
		err  error
	}{{"an error", gone}, {"an empty answer", nil}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.namespace(siteTenant, "notes", tiering.Policy{})
			for i := range 6 {
				s.put(note("a"), fmt.Sprint(i))
			}
			store := &paged{Store: s.warm, page: 2, after: 2, err: c.err}
			s.engine = lifecycle.New(lifecycle.Config{Warm: store, Archive: s.archive, SegmentAge: time.Nanosecond})
			if err := s.engine.Flush(s.ctx); err == nil || c.err != nil && !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			left, err := s.warm.Segments(s.ctx, "", "", "", 10)
			s.no(err)
			if len(left) > 0 {
				t.Errorf("left in the catalog: %+v", left)
			}

			store.after = 0
			s.flush()
			for i := range 6 {
				if got, err := s.history(note("a"), int64(i+1)); err != nil || got != fmt.Sprint(i) {
					t.Errorf("version %d in cold is %s, %v", i+1, got, err)
				}
			}
		})
	}
}

// A document that cannot be archived shows by its name, until it is erased.
func TestStatusForgetsWhatWasErased(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	s.put(note("k"), `"lost"`)
	s.put(note("other"), `"lost too"`)
	s.rot(`DELETE FROM version WHERE CAST(body AS TEXT) LIKE '"lost%'`)
	s.flush()
	parked := func() (subjects []string) {
		for _, p := range s.engine.Parked(s.ctx) {
			subjects = append(subjects, p.Subject)
		}
		slices.Sort(subjects)
		return subjects
	}
	if got := parked(); !slices.Equal(got, []string{"notes/k", "notes/other"}) {
		t.Fatalf("parked: %q", got)
	}
	s.erase(tiering.EraseRequest{Namespace: "notes", ID: "k"})
	if got := parked(); !slices.Equal(got, []string{"notes/other"}) {
		t.Errorf("after the erase: %q", got)
	}
}
