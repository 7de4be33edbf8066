package router

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// Timeline returns what happened to a session: its log, and between the entries
// the versions of state and attributes with what they changed, and what contexts
// recalled for it.
func (s sessions) Timeline(ctx context.Context, id string, o *tiering.EntriesOptions) (*tiering.Timeline, error) {
	out, err := s.timeline(ctx, id, orZero(o))
	return out, tiering.Wrap(err, "timeline", "", s.docKey(id))
}

func (s sessions) timeline(ctx context.Context, id string, o tiering.EntriesOptions) (*tiering.Timeline, error) {
	o.Descending = false
	at, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	page, err := s.entriesOf(ctx, at.log, o)
	if err != nil {
		return nil, err
	}
	// A version belongs to the page of the first entry that is not older.
	from, to := at.log.CreatedAt.Add(-1), time.Time{}
	if o.After > 0 {
		if from, err = s.timeOf(ctx, at, o.After); err != nil {
			return nil, err
		}
	}
	if n := len(page.Entries); page.More && n > 0 {
		to = page.Entries[n-1].Time
	}
	versions, err := s.versionsBetween(ctx, id, from, to)
	if err != nil {
		return nil, err
	}
	recalls, err := s.recallsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, r := range recalls {
		if !r.Time.After(from) || !to.IsZero() && r.Time.After(to) {
			continue
		}
		data, err := encodeDoc(r)
		if err != nil {
			return nil, err
		}
		versions = append(versions, tiering.TimelineItem{Time: r.Time, What: "recalled", Data: data})
	}
	slices.SortStableFunc(versions, func(a, b tiering.TimelineItem) int { return a.Time.Compare(b.Time) })
	out := &tiering.Timeline{Items: []tiering.TimelineItem{}, More: page.More}
	for _, e := range page.Entries {
		for len(versions) > 0 && versions[0].Time.Before(e.Time) {
			out.Items, versions = append(out.Items, versions[0]), versions[1:]
		}
		out.Items = append(out.Items, tiering.TimelineItem{Time: e.Time, What: whatOf(e.Data), Seq: e.Seq, Data: e.Data})
	}
	out.Items = append(out.Items, versions...)
	return out, nil
}

// whatOf names an entry: one of tierd's own by its type.
func whatOf(entry json.RawMessage) string {
	if what, own := systemEvent(entry); own && what != "" {
		return what
	}
	return "event"
}

// timeOf is when an entry was appended, or the newest one before it.
func (s sessions) timeOf(ctx context.Context, at *standingSession, seq int64) (time.Time, error) {
	page, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{Before: seq + 1, Descending: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return at.log.CreatedAt.Add(-1), err
	}
	return page.Entries[0].Time, nil
}

// timelineDiffs is how many versions of a page of a timeline, the newest ones, come
// with what they changed.
const timelineDiffs = maxLimit

// versionsBetween are the versions of a session's document that were committed
// after one time and up to another (zero: now), oldest first, each with its
// difference from the one before.
func (s sessions) versionsBetween(ctx context.Context, id string, after, upTo time.Time) ([]tiering.TimelineItem, error) {
	all, first, err := s.foundBetween(ctx, s.docKey(id), after, upTo)
	if err != nil {
		return nil, err
	}
	out := make([]tiering.TimelineItem, 0, len(all))
	var before []byte
	for i, v := range slices.Backward(all) {
		if v.Op.Deleting() {
			before = nil
			continue
		}
		item := tiering.TimelineItem{Time: v.CreatedAt, What: "version", Version: v.Version}
		if i >= timelineDiffs {
			out = append(out, item)
			continue
		}
		if older := olderThan(all, i, first); before == nil && older != nil && !older.Op.Deleting() {
			if before, err = s.bodyOf(ctx, id, older.Version); err != nil {
				return nil, err
			}
		}
		body, err := s.bodyOf(ctx, id, v.Version)
		if err != nil {
			return nil, err
		}
		if body != nil && before != nil {
			if item.Diff, err = jsondoc.Diff(before, body); err != nil {
				return nil, err
			}
		}
		before = body
		out = append(out, item)
	}
	return out, nil
}

// olderThan is the version before the one at i, nil where there is none; first is
// the one before all of them.
func olderThan(all []found, i int, first *found) *found {
	if i+1 < len(all) {
		return &all[i+1]
	}
	return first
}

// foundBetween are the versions of a key that were committed after one time and up
// to another (zero: now), newest first, and the one before them.
func (s sessions) foundBetween(ctx context.Context, key tiering.Key, after, upTo time.Time) (out []found, first *found, err error) {
	before := int64(0)
	if !upTo.IsZero() {
		last, err := s.asOf(ctx, key, upTo)
		switch tiering.CodeOf(err) {
		case "":
			before = last.version + 1
		case tiering.CodeNotFound, tiering.CodeGone: // then it is found from the top
		default:
			return nil, nil, err
		}
	}
	for {
		page, err := s.newest(ctx, key, before, maxLimit)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range page {
			if before = v.Version; !v.CreatedAt.After(after) {
				return out, &v, nil
			}
			if upTo.IsZero() || !v.CreatedAt.After(upTo) {
				out = append(out, v)
			}
		}
		if len(page) < maxLimit {
			return out, nil, nil
		}
	}
}

// bodyOf is a version of a session's document, nil when it is no longer kept.
func (s sessions) bodyOf(ctx context.Context, id string, version int64) ([]byte, error) {
	v, err := s.version(ctx, s.docKey(id), version)
	if c := tiering.CodeOf(err); c == tiering.CodeGone || c == tiering.CodeNotFound {
		return nil, nil
	}
	return v.body, err
}
