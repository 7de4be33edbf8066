package router

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

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

// lifeOf is how long a session with this log lives behind each use, as NewSession
// takes it.
func lifeOf(log warm.Head) string {
	return tiering.TTL{Life: log.TTL, None: log.TTL == 0}.String()
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
