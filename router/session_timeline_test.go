package router

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Pages of a timeline have together what one page has, in its order: also the
// versions that lie between the last entry of a page and the first of the next.
func TestPagesOfATimeline(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.session(tiering.NewSession{ID: "s"})
	for i := range 6 {
		w.advance(time.Second)
		_, err := all.Append(w.ctx, "s", numbers(i, i), nil, nil)
		w.no(err)
		for n := range i % 3 {
			w.advance(time.Second)
			_, err = all.Patch(w.ctx, "s", &tiering.SessionPatch{State: json.RawMessage(fmt.Sprintf(`{"n":%d}`, 10*i+n))}, nil)
			w.no(err)
		}
	}
	whole, err := all.Timeline(w.ctx, "s", nil)
	w.no(err)
	if len(whole.Items) != 14 {
		t.Fatalf("one page has %d items: %+v", len(whole.Items), whole.Items)
	}
	for limit := 1; limit <= 7; limit++ {
		var paged []tiering.TimelineItem
		o := &tiering.EntriesOptions{Limit: limit}
		for more := true; more; {
			page, err := all.Timeline(w.ctx, "s", o)
			w.no(err)
			paged, more = append(paged, page.Items...), page.More
			for _, i := range page.Items {
				o.After = max(o.After, i.Seq)
			}
		}
		if got, want := fmt.Sprintf("%+v", paged), fmt.Sprintf("%+v", whole.Items); got != want {
			t.Errorf("pages of %d have\n%s\nwant\n%s", limit, got, want)
		}
	}
}

// A timeline has all versions, however many follow one entry.
func TestATimelineOfManyVersions(t *testing.T) {
	w := open(t, setup{})
	w.session(tiering.NewSession{ID: "s"})
	key := tiering.Key{Tenant: w.tenant, Namespace: tiering.SessionNamespace, ID: "s"}
	const many = maxLimit + 50
	_, _, err := w.warm.Atomic(w.ctx, uuid.New(), []tiering.Key{key}, nil, func([]warm.Current) ([]warm.Change, error) {
		rows := make([]warm.Row, many)
		for i := range rows {
			body := fmt.Appendf(nil, `{"created":"2026-03-01T12:00:00.000000Z","state":{"n":%d}}`, i)
			rows[i] = warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}
		}
		return []warm.Change{{Key: key, Rows: rows}}, nil
	})
	w.no(err)
	line, err := w.r.Sessions().Timeline(w.ctx, "s", nil)
	w.no(err)
	if len(line.Items) != many+2 {
		t.Errorf("%d items, want %d", len(line.Items), many+2)
	}
	for i, item := range line.Items[1:] {
		if item.Version != int64(i+1) || (len(item.Diff) > 0) != (i >= many+1-timelineDiffs) {
			t.Fatalf("item %d is %+v", i+1, item)
		}
	}
}
