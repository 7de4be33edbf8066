package router

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
)

// branchPoint is which events of a session a branch of it begins with: those up to a
// number, without what resumes had gone back over. At is when that place was named.
type branchPoint struct {
	Seq     int64             `json:"seq"`
	At      time.Time         `json:"at"`
	Skipped []tiering.Omitted `json:"skipped,omitempty"`
}

// copyEvents appends the events of a session up to a point to another one that was
// just made.
func (s sessions) copyEvents(ctx context.Context, from *standingSession, d branchPoint, to, idem string) error {
	c := eventCopy{sessions: s, to: to, idem: idem}
	for after := int64(0); after < d.Seq; {
		page, err := s.entriesOf(ctx, from.log, tiering.EntriesOptions{After: after, Before: d.Seq + 1, Limit: maxLimit})
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if after = e.Seq; inRuns(d.Skipped, e.Seq) {
				continue
			}
			if err := c.add(ctx, e); err != nil {
				return err
			}
		}
		if !page.More {
			break
		}
	}
	return c.flush(ctx)
}

// inRuns reports whether an entry lies in any of runs.
func inRuns(runs []tiering.Omitted, seq int64) bool {
	return slices.ContainsFunc(runs, func(r tiering.Omitted) bool { return seq >= r.From && seq <= r.To })
}

// eventCopy appends events, without tierd's own, to a session in chunks. Which events
// are in a chunk depends on the events alone, so that one that was appended by an
// earlier try is known by its idempotency key.
type eventCopy struct {
	sessions
	to     string
	idem   string
	moved  []movedEvent
	run    []json.RawMessage
	old    []int64
	bytes  int
	chunks int
}

// movedEvent is an event's number before and after.
type movedEvent struct{ old, now int64 }

func (c *eventCopy) add(ctx context.Context, e tiering.Entry) error {
	if whatOf(e.Data) != "event" {
		return nil
	}
	if len(c.run) == tiering.MaxAppend || len(c.run) > 0 && c.bytes+len(e.Data) > tiering.MaxBody {
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	c.run, c.old, c.bytes = append(c.run, e.Data), append(c.old, e.Seq), c.bytes+len(e.Data)
	return nil
}

// flush appends the chunk that was gathered.
func (c *eventCopy) flush(ctx context.Context) error {
	if len(c.run) == 0 {
		return nil
	}
	a, err := c.appendAlone(ctx, c.to, c.run, tiering.SessionWrite{IdempotencyKey: alsoKey(c.idem, "copied", c.chunks)})
	if err != nil {
		return err
	}
	for i, seq := range c.old {
		c.moved = append(c.moved, movedEvent{seq, a.FirstSeq + int64(i)})
	}
	c.run, c.old, c.bytes = nil, nil, 0
	c.chunks++
	return nil
}

// Export returns a whole session.
func (s sessions) Export(ctx context.Context, id string) (*tiering.SessionExport, error) {
	out, err := s.export(ctx, id)
	return out, tiering.Wrap(err, "export session", "", s.docKey(id))
}

func (s sessions) export(ctx context.Context, id string) (*tiering.SessionExport, error) {
	at, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &tiering.SessionExport{Session: *describeSession(id, at), Events: []tiering.Entry{}, Skipped: at.doc.Skipped}
	out.TTL = lifeOf(at.log)
	var room exportRoom
	for after := int64(0); ; {
		page, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{After: after, Before: at.log.Version + 1, Limit: maxLimit})
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			after, e.Tier = e.Seq, ""
			out.Events = append(out.Events, e)
			if err := room.take(entryRoom + len(e.Data)); err != nil {
				return nil, err
			}
		}
		if !page.More {
			break
		}
	}
	err = s.eachCheckpoint(ctx, id, func(name string, d checkpointDoc) error {
		out.Checkpoints = append(out.Checkpoints, tiering.CheckpointExport{Checkpoint: d.named(name), State: d.State, Skipped: d.Skipped})
		return room.take(len(d.State))
	})
	if err != nil {
		return nil, err
	}
	if out.Steps, err = s.stepsOf(ctx, id, &room); err != nil {
		return nil, err
	}
	made, err := s.summariesOf(ctx, id)
	if err != nil {
		return nil, err
	}
	out.Summaries = made.Summaries
	if out.Recalls, err = s.recallsOf(ctx, id); err != nil {
		return nil, err
	}
	whole, err := encodeDoc(out)
	if err != nil {
		return nil, err
	}
	room = 0
	return out, room.take(len(whole))
}

// exportRoom is how many bytes of an export are taken. What is too long to be
// imported again is not read into memory first.
type exportRoom int

// entryRoom is what an entry takes at least, besides its data.
const entryRoom = len(`{"seq":1,"time":"2026-01-01T00:00:00Z","data":},`)

func (r *exportRoom) take(n int) error {
	if r == nil {
		return nil
	}
	if *r += exportRoom(n); *r > tiering.MaxExport {
		return tiering.Errorf(tiering.CodeTooLarge, "the session is longer than the %d bytes that an export takes: read its events in pages, and its checkpoints and steps", tiering.MaxExport)
	}
	return nil
}
