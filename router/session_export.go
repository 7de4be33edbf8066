package router

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/tierd/tierd/tiering"
)

// branchPoint is which events of a session a branch of it begins with: those up to a
// number, without what resumes had gone back over.
type branchPoint struct {
	Seq     int64             `json:"seq"`
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

// Import makes a session from an export. Its events get new numbers and times, and
// tierd's own among them are left out; checkpoints follow the events.
func (s sessions) Import(ctx context.Context, e *tiering.SessionExport) (*tiering.Session, error) {
	out, err := s.importSession(ctx, orZero(e))
	return out, tiering.Wrap(err, "import session", "", tiering.Key{})
}

func (s sessions) importSession(ctx context.Context, e tiering.SessionExport) (*tiering.Session, error) {
	from := e.Session
	made, _, err := s.create(ctx, tiering.NewSession{
		ID: from.ID, User: from.User, Agent: from.Agent, App: from.App, Status: from.Status, Progress: from.Progress, State: from.State, TTL: e.TTL,
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	c := eventCopy{sessions: s, to: made.ID}
	inOrder := func(a, b tiering.Entry) int { return cmp.Compare(a.Seq, b.Seq) }
	for _, one := range slices.SortedStableFunc(slices.Values(e.Events), inOrder) {
		if err := c.add(ctx, one); err != nil {
			return nil, err
		}
	}
	if err := c.flush(ctx); err != nil {
		return nil, err
	}
	if err := s.importParts(ctx, made, e, c.moved); err != nil {
		return nil, err
	}
	return s.Get(ctx, made.ID)
}

// importParts writes checkpoints, steps and what resumes went back over as they
// were, each in its own commit.
func (s sessions) importParts(ctx context.Context, made *tiering.Session, e tiering.SessionExport, moved []movedEvent) error {
	write := func(prefix, name string, v any) error {
		c, err := s.partChange(ctx, made.ID, prefix, name, "import", nil, tiering.SessionWrite{})
		if err != nil {
			return err
		}
		body, err := encodeDoc(v)
		if err != nil {
			return err
		}
		return c.commit(ctx, func(t *sessionTx) error {
			t.put[c.parts[0]] = body
			return nil
		})
	}
	for _, c := range e.Checkpoints {
		d := checkpointDoc{Version: made.Version, Seq: made.LastSeq, CreatedAt: c.CreatedAt, State: c.State, Skipped: movedRuns(c.Skipped, moved)}
		if n := upTo(moved, c.Seq); n > 0 {
			d.Seq = moved[n-1].now // the last event that belongs to it
		}
		if err := write(checkpointPart, c.Name, d); err != nil {
			return err
		}
	}
	for _, st := range e.Steps {
		if err := write(stepPart, st.Name, stepOf(st)); err != nil {
			return err
		}
	}
	skipped := movedRuns(e.Skipped, moved)
	if len(skipped) == 0 {
		return nil
	}
	c, err := s.change(ctx, made.ID, "import", "", nil)
	if err != nil {
		return err
	}
	return c.commit(ctx, func(t *sessionTx) error {
		t.doc.Skipped, t.wrote = skipped, true
		return nil
	})
}

// movedRuns are runs of entries under their new numbers, without those of which no
// event is left.
func movedRuns(runs []tiering.Omitted, moved []movedEvent) (out []tiering.Omitted) {
	for _, r := range runs {
		from, to := upTo(moved, r.From-1), upTo(moved, r.To)
		if from < to {
			out = append(out, tiering.Omitted{From: moved[from].now, To: moved[to-1].now, How: r.How})
		}
	}
	return out
}

// upTo is how many events, which are in order, had a number of at most seq.
func upTo(moved []movedEvent, seq int64) int {
	n, _ := slices.BinarySearchFunc(moved, seq, func(m movedEvent, seq int64) int {
		if m.old <= seq {
			return -1
		}
		return 1
	})
	return n
}
