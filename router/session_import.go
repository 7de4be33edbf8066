package router

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// Import makes a session from an export. Its events get new numbers and times, and
// tierd's own among them are left out; checkpoints follow the events.
func (s sessions) Import(ctx context.Context, e *tiering.SessionExport) (*tiering.Session, error) {
	out, err := s.importSession(ctx, orZero(e))
	return out, tiering.Wrap(err, "import session", "", tiering.Key{})
}

func (s sessions) importSession(ctx context.Context, e tiering.SessionExport) (*tiering.Session, error) {
	p, err := s.sessionSpaces(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.checkExport(e); err != nil {
		return nil, err
	}
	from := e.Session
	m, err := s.beginBirth(ctx, tiering.NewSession{
		ID: from.ID, User: from.User, Agent: from.Agent, App: from.App, Status: from.Status, Progress: from.Progress, State: from.State, TTL: e.TTL,
	}, nil, nil)
	if tiering.CodeOf(err) == tiering.CodeInvalid {
		return nil, tiering.Below(err, "/session")
	}
	if err != nil {
		return nil, err
	}
	first := m.seq
	c := eventCopy{birth: m}
	for _, one := range e.Events {
		if err := c.add(ctx, one); err != nil {
			return nil, err
		}
	}
	if err := c.flush(ctx); err != nil {
		return nil, err
	}
	if err := m.importParts(ctx, e, first, c.moved); err != nil {
		return nil, err
	}
	return m.reveal(ctx, movedRuns(e.Skipped, c.moved))
}

// checkExport refuses what no export can be, before anything of it is written.
func (p *policy) checkExport(e tiering.SessionExport) error {
	if e.TTL != "" {
		if _, err := tiering.ParseTTL(e.TTL); err != nil {
			return tiering.Below(err, "/ttl")
		}
	}
	last := int64(0)
	for i, one := range e.Events {
		at := fmt.Sprintf("/events/%d", i)
		if one.Seq <= last {
			return tiering.Unprocessablef(at+"/seq", "number %d is not above %d, the one before: events come in the order of their numbers", one.Seq, last)
		}
		last = one.Seq
		doc, err := jsondoc.Compact(one.Data)
		if err == nil {
			err = p.check(doc)
		}
		if err == nil && whatOf(doc) == "event" { // tierd's own are left out
			err = systemType(doc)
		}
		if err != nil {
			return tiering.Below(err, at+"/data")
		}
	}
	last = max(last, e.Session.LastSeq)
	if err := checkRuns(e.Skipped, last); err != nil {
		return err
	}
	if err := checkCheckpoints(e.Checkpoints, last); err != nil {
		return err
	}
	return checkSteps(e.Steps)
}

// checkRuns checks runs of events that a resume went back over.
func checkRuns(runs []tiering.Omitted, last int64) error {
	for i, r := range runs {
		if r.From < 1 || r.To < r.From || r.To > last {
			return tiering.Unprocessablef(fmt.Sprintf("/skipped/%d", i), "%d to %d is no run of the session's %d events", r.From, r.To, last)
		}
	}
	return nil
}

// partNames are the names of parts of one kind, each of which there is once.
type partNames map[string]bool

func (names partNames) take(name string) error {
	if err := tiering.ValidatePartName(name); err != nil {
		return tiering.Below(err, "/name")
	}
	if names[name] {
		return tiering.Unprocessablef("/name", "%q is there twice", name)
	}
	names[name] = true
	return nil
}

func checkCheckpoints(all []tiering.CheckpointExport, last int64) error {
	names := partNames{}
	for i, c := range all {
		err := names.take(c.Name)
		state, unclear := jsondoc.Compact(c.State)
		switch {
		case err != nil:
		case c.Seq < 0 || c.Seq > last:
			err = tiering.Unprocessablef("/seq", "%d is not among the session's %d events", c.Seq, last)
		case unclear != nil:
			err = tiering.Below(unclear, "/state")
		case jsondoc.KindOf(state) != jsondoc.Object:
			err = tiering.Unprocessablef("/state", "a session's state is an object")
		default:
			err = checkRuns(c.Skipped, last)
		}
		if err != nil {
			return tiering.Below(err, fmt.Sprintf("/checkpoints/%d", i))
		}
	}
	return nil
}

func checkSteps(all []tiering.Step) error {
	names := partNames{}
	for i, st := range all {
		err := names.take(st.Name)
		done := st.Status == tiering.StepDone
		switch {
		case err != nil:
		case st.Key == "":
			err = tiering.Unprocessablef("/key", "a step has the key that it was tried with")
		case !done && st.Status != tiering.StepUnknown && st.Status != tiering.StepClaimed:
			err = tiering.Unprocessablef("/status", "%q: use %s, %s or %s", st.Status, tiering.StepDone, tiering.StepUnknown, tiering.StepClaimed)
		case done && len(st.Output) == 0:
			err = tiering.Unprocessablef("", "a step that is done has an output")
		case !done && len(st.Output) > 0:
			err = tiering.Unprocessablef("/output", "a step that is not done has none")
		}
		if err != nil {
			return tiering.Below(err, fmt.Sprintf("/steps/%d", i))
		}
	}
	return nil
}

// importParts writes checkpoints and steps as they were. first is the entry that a
// checkpoint without events follows.
func (m *birth) importParts(ctx context.Context, e tiering.SessionExport, first int64, moved []movedEvent) error {
	for _, c := range e.Checkpoints {
		d := checkpointDoc{Version: m.version, Seq: first, CreatedAt: c.CreatedAt, State: c.State, Skipped: movedRuns(c.Skipped, moved)}
		if n := upTo(moved, c.Seq); n > 0 {
			d.Seq = moved[n-1].now // the last event that belongs to it
		}
		if err := m.putPart(ctx, checkpointPart, c.Name, d); err != nil {
			return err
		}
	}
	for _, st := range e.Steps {
		if err := m.putPart(ctx, stepPart, st.Name, stepOf(st)); err != nil {
			return err
		}
	}
	return nil
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
