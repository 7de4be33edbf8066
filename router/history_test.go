package router

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// aged makes a document of ten versions, a minute apart, 5 a deletion. Those up
// to retired are in cold alone. It returns the time of each.
func (a *archived) aged(id string, retired int64, owner ...string) map[int64]time.Time {
	a.Helper()
	at := map[int64]time.Time{}
	var old []int64
	for v := int64(1); v <= 10; v++ {
		a.clock.advance(time.Minute)
		at[v] = a.clock.Now()
		if v == 5 {
			a.delete(id)
		} else {
			o := &tiering.PutOptions{}
			if len(owner) > 0 {
				o.User = owner[min(int(v)/5, len(owner)-1)]
			}
			_, err := a.r.Put(a.ctx, space, id, fmt.Appendf(nil, `{"v":%d}`, v), o)
			a.no(err)
		}
		if v%4 == 0 { // several segments
			a.no(a.engine.Flush(a.ctx))
		}
		if v <= retired {
			old = append(old, v)
		}
	}
	a.no(a.engine.Flush(a.ctx))
	n, err := a.warm.Retire(a.ctx, key(id), old)
	a.no(err)
	if n != len(old) {
		a.Fatalf("%d versions were retired, want %d", n, len(old))
	}
	return at
}

// pages reads a whole history.
func (a *archived) pages(r *Router, id string, limit int) (all []tiering.VersionInfo) {
	a.Helper()
	o := &tiering.HistoryOptions{Limit: limit}
	for {
		h, err := r.History(a.ctx, space, id, o)
		a.no(err)
		if len(h.Versions) > limit {
			a.Fatalf("a page of %d, asked for %d", len(h.Versions), limit)
		}
		all = append(all, h.Versions...)
		if o.Cursor = h.NextCursor; o.Cursor == "" {
			return all
		}
	}
}

func TestAHistoryGoesOnInCold(t *testing.T) {
	for _, retired := range []int64{0, 3, 7, 9} {
		for _, limit := range []int{1, 3, 4, 10, 100} {
			t.Run(fmt.Sprintf("%d retired, pages of %d", retired, limit), func(t *testing.T) {
				a := openArchived(t)
				at := a.aged("k", retired)
				all := a.pages(a.r, "k", limit)
				if len(all) != 10 {
					t.Fatalf("%d versions: %+v", len(all), all)
				}
				for i, v := range all {
					want := tiering.VersionInfo{Version: int64(10 - i), Op: tiering.OpPut, CreatedAt: at[int64(10-i)], Tier: tiering.Warm}
					if want.Version <= retired {
						want.Tier = tiering.Cold
					}
					if want.Version == 5 {
						want.Op = tiering.OpDelete
					} else {
						body := fmt.Appendf(nil, `{"v":%d}`, want.Version)
						want.Size, want.Digest = int64(len(body)), tiering.DigestOf(body)
					}
					if v != want {
						t.Errorf("%+v, want %+v", v, want)
					}
				}
			})
		}
	}
}

func TestAHistoryReadsNoSegmentThatItDoesNotNeed(t *testing.T) {
	a := openArchived(t)
	a.aged("k", 4)
	reads := func(limit int) int {
		before := a.primary.Calls("") + a.backup.Calls("")
		_, err := a.r.History(a.ctx, space, "k", &tiering.HistoryOptions{Limit: limit})
		a.no(err)
		return a.primary.Calls("") + a.backup.Calls("") - before
	}
	if n := reads(5); n != 0 { // versions 10 to 6: 5 is in warm and says that there are more
		t.Errorf("a page that warm holds made %d calls to cold", n)
	}
	if reads(6) == 0 {
		t.Error("the version below warm's was found without a look into cold")
	}
}

func TestAHistoryHidesAnEarlierOwnerInColdToo(t *testing.T) {
	a := openArchived(t)
	a.aged("k", 9, "bob", "ann")
	var got []int64
	for _, v := range a.pages(a.scoped(tiering.Scope{User: "ann"}), "k", 100) {
		got = append(got, v.Version)
	}
	if !slices.Equal(got, []int64{10, 9, 8, 7, 6}) {
		t.Errorf("ann sees versions %v", got)
	}
}

func TestAHistoryThatColdCannotTellIsUnavailable(t *testing.T) {
	a := openArchived(t)
	a.aged("k", 9)
	for _, b := range []interface{ Close() error }{a.primary, a.backup} {
		a.no(b.Close())
	}
	if _, err := a.r.History(a.ctx, space, "k", nil); !errors.Is(err, tiering.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
}

func TestWhatStoodAtATime(t *testing.T) {
	for _, retired := range []int64{0, 3, 7, 9} {
		t.Run(fmt.Sprintf("%d retired", retired), func(t *testing.T) {
			a := openArchived(t)
			at := a.aged("k", retired)
			stood := func(when time.Time) string {
				d, err := a.r.Get(a.ctx, space, "k", &tiering.GetOptions{AsOf: when})
				if errors.Is(err, tiering.ErrNotFound) {
					return ""
				}
				a.no(err)
				return string(d.Body)
			}
			for v, when := range at {
				want := fmt.Sprintf(`{"v":%d}`, v)
				if v == 5 {
					want = ""
				}
				for _, later := range []time.Duration{0, time.Second, 59 * time.Second} {
					if got := stood(when.Add(later)); got != want {
						t.Errorf("%s after version %d stood %q, want %q", later, v, got, want)
					}
				}
			}
			if got := stood(at[1].Add(-time.Second)); got != "" {
				t.Errorf("before the first version stood %q", got)
			}
		})
	}
}

// A document is not rolled back to what another owner wrote under its key.
func TestRollbackAcrossOwners(t *testing.T) {
	ctx := t.Context()
	r := open(t, setup{}).r
	put := func(user, body string) *tiering.Receipt {
		t.Helper()
		rc, err := r.Put(ctx, "notes", "n", []byte(body), &tiering.PutOptions{User: user})
		if err != nil {
			t.Fatal(err)
		}
		return rc
	}
	first := put("ada", `{"by":"ada"}`)
	if _, err := r.Delete(ctx, "notes", "n", nil); err != nil {
		t.Fatal(err)
	}
	put("bob", `{"by":"bob"}`)
	if _, err := r.Rollback(ctx, "notes", "n", first.Version, nil); !errors.Is(err, tiering.ErrWrongKind) {
		t.Errorf("rollback to another owner's version: %v, want wrong_kind", err)
	}
	d, err := r.Get(ctx, "notes", "n", nil)
	if err != nil || string(d.Body) != `{"by":"bob"}` {
		t.Errorf("after it: %+v, %v", d, err)
	}
}
