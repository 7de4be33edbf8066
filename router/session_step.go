package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

const stepPart = "steps/"

// stepDoc is the part that a step is.
type stepDoc struct {
	Key         string          `json:"key"`
	Done        bool            `json:"done,omitempty"`
	Attempts    int             `json:"attempts"`
	Output      json.RawMessage `json:"output,omitempty"`
	ClaimedAt   time.Time       `json:"claimed_at"`
	CompletedAt time.Time       `json:"completed_at,omitzero"`
	// Seq is the entry of the log that says it is done; 0: the step came from elsewhere.
	Seq int64 `json:"seq,omitempty"`
}

// doneBy reports whether the step was done where a branch begins.
func (d stepDoc) doneBy(p branchPoint) bool {
	if d.Seq > 0 {
		return d.Done && d.Seq <= p.Seq
	}
	return d.Done && !d.CompletedAt.After(p.At)
}

func (d stepDoc) step(name string) tiering.Step {
	out := tiering.Step{Name: name, Status: tiering.StepUnknown, Key: d.Key, Attempts: d.Attempts, Output: d.Output, ClaimedAt: d.ClaimedAt, CompletedAt: d.CompletedAt}
	if d.Done {
		out.Status = tiering.StepDone
	}
	return out
}

// stepOf is the part of an exported step.
func stepOf(s tiering.Step) stepDoc {
	return stepDoc{Key: s.Key, Done: s.Status == tiering.StepDone, Attempts: s.Attempts, Output: s.Output, ClaimedAt: s.ClaimedAt, CompletedAt: s.CompletedAt}
}

// stepKey is the same for every try of a step in one life of its session.
func stepKey(id, name string, created time.Time) string {
	sum := sha256.Sum256([]byte(id + "\x00" + name + "\x00" + created.UTC().Format(time.RFC3339Nano)))
	return "step_" + hex.EncodeToString(sum[:16])
}

// Step claims a run-once step, or completes it when r has an output.
func (s sessions) Step(ctx context.Context, id, name string, r *tiering.StepRequest, o *tiering.SessionWrite) (*tiering.Step, error) {
	out, err := s.step(ctx, id, name, orZero(r), orZero(o))
	return out, tiering.Wrap(err, "step", "", s.docKey(id))
}

func (s sessions) step(ctx context.Context, id, name string, r tiering.StepRequest, o tiering.SessionWrite) (*tiering.Step, error) {
	if err := s.admitAnswered(id); err != nil { // the answer holds what the step gave
		return nil, err
	}
	c, err := s.partChange(ctx, id, stepPart, name, "step", r, o)
	if err != nil {
		return nil, err
	}
	if len(r.Output) > 0 {
		if r.Output, err = jsondoc.Compact(r.Output); err != nil {
			return nil, tiering.Below(err, "/output")
		}
	}
	now, err := s.Warm.Now(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	var out tiering.Step
	err = c.commit(ctx, func(t *sessionTx) error {
		var d stepDoc
		cur, claimed := t.parts[c.parts[0]]
		if claimed && cur.Body == nil {
			return errBaseInCold
		}
		if claimed {
			if err := decodeDoc(cur.Body, &d); err != nil {
				return err
			}
		}
		out, err = d.next(t, name, stepKey(id, name, t.log.CreatedAt), claimed, r, now.UTC())
		if err != nil || out.Replayed || out.Status == tiering.StepUnknown {
			c.answer = out
			return err
		}
		body, err := encodeDoc(d)
		if err != nil {
			return err
		}
		t.put[c.parts[0]] = body
		c.answer = out
		return nil
	})
	if err := c.replay(err, &out); err != nil {
		return nil, err
	}
	if c.replayed {
		return s.stepNow(ctx, id, name, out)
	}
	return &out, nil
}

// stepNow answers a call that came again. That it claimed the step is said once: who
// asks again does not know whether the first one, or another one with the same key,
// runs it.
func (s sessions) stepNow(ctx context.Context, id, name string, first tiering.Step) (*tiering.Step, error) {
	first.Replayed = true
	if first.Status == tiering.StepDone {
		return &first, nil
	}
	if _, err := s.find(ctx, id); err != nil {
		return nil, err
	}
	got, err := s.load(ctx, s.partKey(id, stepPart+name), reservedPolicy(), 0)
	if err != nil {
		return nil, err
	}
	if got.body == nil {
		return nil, noSession() // deleted in between
	}
	var d stepDoc
	if err := decodeDoc(got.body, &d); err != nil {
		return nil, err
	}
	out := d.step(name)
	out.Replayed = true
	return &out, nil
}

// next moves a step on: from nothing to claimed, from claimed to done. It notes in
// the log what it did.
func (d *stepDoc) next(t *sessionTx, name, key string, claimed bool, r tiering.StepRequest, now time.Time) (tiering.Step, error) {
	switch {
	case d.Done:
		out := d.step(name)
		out.Replayed = true
		return out, nil
	case len(r.Output) > 0 && !claimed:
		return tiering.Step{}, tiering.Unprocessablef("/output", "step %q was not claimed: claim it, run it, then complete it", name)
	case len(r.Output) > 0:
		d.Done, d.Output, d.CompletedAt, d.Seq = true, r.Output, now, t.log.Version+1 // with its note, the one entry of its commit
		return d.step(name), t.note(systemEntry{Type: "step", Step: name, Status: tiering.StepDone})
	case claimed && !r.Again:
		return d.step(name), nil
	}
	d.Key, d.Attempts, d.ClaimedAt = key, d.Attempts+1, now
	out := d.step(name)
	out.Status = tiering.StepClaimed
	return out, t.note(systemEntry{Type: "step", Step: name, Status: tiering.StepClaimed})
}

// Steps lists the steps of a session by name.
func (s sessions) Steps(ctx context.Context, id string) ([]tiering.Step, error) {
	if _, err := s.find(ctx, id); err != nil {
		return nil, tiering.Wrap(err, "steps", "", s.docKey(id))
	}
	out, err := s.stepsOf(ctx, id, nil)
	return out, tiering.Wrap(err, "steps", "", s.docKey(id))
}

func (s sessions) stepsOf(ctx context.Context, id string, room *exportRoom) ([]tiering.Step, error) {
	out := []tiering.Step{}
	err := s.eachPart(ctx, id, stepPart, func(name string, body []byte) error {
		var d stepDoc
		if err := room.take(len(body)); err != nil {
			return err
		}
		err := decodeDoc(body, &d)
		out = append(out, d.step(name))
		return err
	})
	return out, err
}
