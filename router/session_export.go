package router

import (
	"context"
	"encoding/json"

	"github.com/tierd/tierd/tiering"
)

// copyEvents appends the events of a session up to a number, without tierd's own,
// to another one that was just made. It returns the new number of each.
func (s sessions) copyEvents(ctx context.Context, from *standingSession, upTo int64, to string) (map[int64]int64, error) {
	seqs := map[int64]int64{}
	for after := int64(0); after < upTo; {
		page, err := s.entriesOf(ctx, from.log, tiering.EntriesOptions{After: after, Before: upTo + 1, Limit: maxLimit})
		if err != nil {
			return nil, err
		}
		if err := s.addEvents(ctx, to, page.Entries, seqs); err != nil {
			return nil, err
		}
		if !page.More {
			break
		}
		after = page.Entries[len(page.Entries)-1].Seq
	}
	return seqs, nil
}

// addEvents appends entries that are not tierd's own, and notes their new numbers.
func (s sessions) addEvents(ctx context.Context, id string, entries []tiering.Entry, seqs map[int64]int64) error {
	for len(entries) > 0 {
		var run []json.RawMessage
		var old []int64
		bytes := 0
		for len(entries) > 0 && len(run) < tiering.MaxAppend {
			e := entries[0]
			if bytes += len(e.Data); len(run) > 0 && bytes > tiering.MaxBody {
				break
			}
			entries = entries[1:]
			if whatOf(e.Data) == "event" {
				run, old = append(run, e.Data), append(old, e.Seq)
			}
		}
		if len(run) == 0 {
			continue
		}
		a, err := s.appendAlone(ctx, id, run, tiering.SessionWrite{})
		if err != nil {
			return err
		}
		for i, seq := range old {
			seqs[seq] = a.FirstSeq + int64(i)
		}
	}
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
	out := &tiering.SessionExport{Session: *describeSession(id, at), Events: []tiering.Entry{}}
	if at.log.TTL > 0 {
		out.TTL = tiering.Duration(at.log.TTL).String()
	}
	for after := int64(0); ; {
		page, err := s.entriesOf(ctx, at.log, tiering.EntriesOptions{After: after, Before: at.log.Version + 1, Limit: maxLimit})
		if err != nil {
			return nil, err
		}
		out.Events = append(out.Events, page.Entries...)
		if !page.More {
			break
		}
		after = page.Entries[len(page.Entries)-1].Seq
	}
	for i := range out.Events {
		out.Events[i].Tier = ""
	}
	if out.Checkpoints, err = s.checkpointsOf(ctx, id); err != nil {
		return nil, err
	}
	out.Steps, err = s.stepsOf(ctx, id)
	return out, err
}

// Import makes a session from an export. Its events get new numbers and times, and
// tierd's own among them are left out; checkpoints follow the events.
func (s sessions) Import(ctx context.Context, e *tiering.SessionExport) (*tiering.Session, error) {
	out, err := s.importSession(ctx, orZero(e))
	return out, tiering.Wrap(err, "import session", "", tiering.Key{})
}

func (s sessions) importSession(ctx context.Context, e tiering.SessionExport) (*tiering.Session, error) {
	from := e.Session
	made, err := s.create(ctx, tiering.NewSession{
		ID: from.ID, User: from.User, Agent: from.Agent, App: from.App, Status: from.Status, Progress: from.Progress, State: from.State, TTL: e.TTL,
	})
	if err != nil {
		return nil, err
	}
	seqs := map[int64]int64{}
	if err := s.addEvents(ctx, made.ID, e.Events, seqs); err != nil {
		return nil, err
	}
	if err := s.importParts(ctx, made, e, seqs); err != nil {
		return nil, err
	}
	return s.Get(ctx, made.ID)
}

// importParts writes checkpoints and steps as they were, each in its own commit.
func (s sessions) importParts(ctx context.Context, made *tiering.Session, e tiering.SessionExport, seqs map[int64]int64) error {
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
		d := checkpointDoc{Version: made.Version, Seq: made.LastSeq, CreatedAt: c.CreatedAt, State: c.State}
		for old, now := range seqs { // the last event that belongs to it
			if old <= c.Seq {
				d.Seq = max(d.Seq, now)
			}
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
	return nil
}
