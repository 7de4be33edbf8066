package router

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
)

const checkpointPart = "checkpoints/"

// checkpointDoc is the part that a checkpoint is: it holds its state, so that no
// retention can take it while the session lives.
type checkpointDoc struct {
	Version   int64           `json:"version"`
	Seq       int64           `json:"seq"`
	CreatedAt time.Time       `json:"created_at"`
	State     json.RawMessage `json:"state"`
	// Skipped is what resumes had gone back over by then, and what a resume of
	// it goes back to.
	Skipped []tiering.Omitted `json:"skipped,omitempty"`
}

func (d checkpointDoc) named(name string) tiering.Checkpoint {
	return tiering.Checkpoint{Name: name, Version: d.Version, Seq: d.Seq, CreatedAt: d.CreatedAt}
}

// systemEntry is one of tierd's own entries of a session's log.
type systemEntry struct {
	Type       string `json:"type"`
	Checkpoint string `json:"checkpoint,omitempty"`
	Step       string `json:"step,omitempty"`
	Status     string `json:"status,omitempty"`
	Version    int64  `json:"version,omitempty"`
	Seq        int64  `json:"seq,omitempty"`
}

func (t *sessionTx) note(e systemEntry) error {
	e.Type = tiering.SystemEvent + e.Type
	b, err := encodeDoc(e)
	t.entries = append(t.entries, b)
	return err
}

// Checkpoint names the state and the log as they stand.
func (s sessions) Checkpoint(ctx context.Context, id, name string, o *tiering.SessionWrite) (*tiering.Checkpoint, error) {
	out, err := s.checkpoint(ctx, id, name, orZero(o))
	return out, tiering.Wrap(err, "checkpoint", "", s.docKey(id))
}

// partChange begins a change that reads or writes one part.
func (s sessions) partChange(ctx context.Context, id, prefix, name, op string, request any, o tiering.SessionWrite) (*sessionChange, error) {
	if err := s.admitSession(tiering.VerbWrite, id); err != nil {
		return nil, err
	}
	if err := tiering.ValidatePartName(name); err != nil {
		return nil, err
	}
	c, err := s.change(ctx, id, op+" "+name, o.IdempotencyKey, request)
	if err != nil {
		return nil, err
	}
	c.guard, c.parts = o, []string{prefix + name}
	return c, nil
}

func (s sessions) checkpoint(ctx context.Context, id, name string, o tiering.SessionWrite) (*tiering.Checkpoint, error) {
	c, err := s.partChange(ctx, id, checkpointPart, name, "checkpoint", o, o)
	if err != nil {
		return nil, err
	}
	now, err := s.Warm.Now(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	var out tiering.Checkpoint
	err = c.commit(ctx, func(t *sessionTx) error {
		d := checkpointDoc{Version: t.version, Seq: t.log.Version, CreatedAt: now.UTC(), State: t.doc.State, Skipped: t.doc.Skipped}
		body, err := encodeDoc(d)
		if err != nil {
			return err
		}
		t.put[c.parts[0]] = body
		out = d.named(name)
		c.answer = out
		return t.note(systemEntry{Type: "checkpoint", Checkpoint: name, Version: d.Version, Seq: d.Seq})
	})
	return &out, c.replay(err, &out)
}

// replay reads the answer of the first try where there was one.
func (c *sessionChange) replay(err error, out any) error {
	if err != nil || !c.replayed {
		return err
	}
	if err := json.Unmarshal(c.stored, out); err != nil {
		return &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "the stored answer cannot be read"}
	}
	return nil
}

// Checkpoints lists the checkpoints of a session by name.
func (s sessions) Checkpoints(ctx context.Context, id string) ([]tiering.Checkpoint, error) {
	out := []tiering.Checkpoint{}
	_, err := s.find(ctx, id)
	if err == nil {
		err = s.eachCheckpoint(ctx, id, func(name string, d checkpointDoc) error {
			out = append(out, d.named(name)) // without its state: together they may be long
			return nil
		})
	}
	return out, tiering.Wrap(err, "checkpoints", "", s.docKey(id))
}

func (s sessions) eachCheckpoint(ctx context.Context, id string, fn func(name string, d checkpointDoc) error) error {
	return s.eachPart(ctx, id, checkpointPart, func(name string, body []byte) error {
		var d checkpointDoc
		if err := decodeDoc(body, &d); err != nil {
			return err
		}
		return fn(name, d)
	})
}

// eachPart calls fn for each part below a prefix, with its name behind it.
func (s sessions) eachPart(ctx context.Context, id, prefix string, fn func(name string, body []byte) error) error {
	for after := ""; ; {
		page, err := s.parts(ctx, id, prefix, after, bodiesPage, true)
		if err != nil {
			return err
		}
		for _, cur := range page {
			body := cur.Body
			if body == nil {
				got, err := s.load(ctx, cur.Head.Key, reservedPolicy(), 0)
				if err != nil {
					return err
				}
				body = got.body
			}
			after = cur.Head.Key.ID
			if body == nil {
				continue // deleted in between
			}
			if err := fn(after[len(id)+1+len(prefix):], body); err != nil {
				return err
			}
		}
		if len(page) < bodiesPage {
			return nil
		}
	}
}

func noCheckpoint(name string) error {
	return tiering.Errorf(tiering.CodeNotFound, "the session has no checkpoint %q", name)
}

// Resume commits the state of a checkpoint again.
func (s sessions) Resume(ctx context.Context, id, name string, o *tiering.SessionWrite) (*tiering.Session, error) {
	out, err := s.resume(ctx, id, name, orZero(o))
	return out, tiering.Wrap(err, "resume", "", s.docKey(id))
}

func (s sessions) resume(ctx context.Context, id, name string, o tiering.SessionWrite) (*tiering.Session, error) {
	if err := s.admitAnswered(id); err != nil {
		return nil, err
	}
	c, err := s.partChange(ctx, id, checkpointPart, name, "resume", o, o)
	if err != nil {
		return nil, err
	}
	err = c.commit(ctx, func(t *sessionTx) error {
		cur, ok := t.parts[c.parts[0]]
		if !ok {
			return noCheckpoint(name)
		}
		if cur.Body == nil {
			return errBaseInCold
		}
		var d checkpointDoc
		if err := decodeDoc(cur.Body, &d); err != nil {
			return err
		}
		t.doc.State, t.doc.Skipped, t.wrote = d.State, d.Skipped, true
		if t.log.Version > d.Seq {
			t.doc.Skipped = append(slices.Clone(d.Skipped), tiering.Omitted{From: d.Seq + 1, To: t.log.Version, How: "resumed over"})
		}
		return t.note(systemEntry{Type: "resumed", Checkpoint: name, Version: d.Version, Seq: d.Seq})
	})
	if err != nil {
		return nil, err
	}
	return s.get(ctx, id)
}
