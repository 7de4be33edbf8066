package router

import (
	"context"
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

// same reports whether two branches begin at the same place.
func (p *branchPoint) same(as *branchPoint) bool {
	return p == as || p != nil && as != nil && p.Seq == as.Seq && p.At.Equal(as.At)
}

// Branch makes a new session from a checkpoint of another one.
func (s sessions) Branch(ctx context.Context, id, name string, n *tiering.NewSession) (*tiering.Session, error) {
	out, err := s.branch(ctx, id, name, orZero(n))
	return out, tiering.Wrap(err, "branch", "", s.docKey(id))
}

func (s sessions) branch(ctx context.Context, id, name string, n tiering.NewSession) (*tiering.Session, error) {
	request := struct {
		Of, Checkpoint string
		New            tiering.NewSession
	}{id, name, n} // what is taken from the session may differ at the next try
	at, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := tiering.ValidatePartName(name); err != nil {
		return nil, err
	}
	got, err := s.load(ctx, s.partKey(id, checkpointPart+name), reservedPolicy(), 0)
	if err != nil {
		return nil, err
	}
	if got.body == nil {
		return nil, noCheckpoint(name)
	}
	var d checkpointDoc
	if err := decodeDoc(got.body, &d); err != nil {
		return nil, err
	}
	for to, from := range map[*string]string{&n.User: at.log.User, &n.Agent: at.doc.Agent, &n.App: at.doc.App, &n.Status: at.doc.Status, &n.TTL: lifeOf(at.log)} {
		if *to == "" {
			*to = from
		}
	}
	if len(n.State) == 0 {
		n.State = d.State
	}
	m, err := s.beginBirth(ctx, n, request, &branchPoint{d.Seq, d.CreatedAt, d.Skipped})
	if err != nil {
		return nil, err
	}
	if err := m.copySteps(ctx, id); err != nil {
		return nil, err
	}
	if err := m.copyEvents(ctx, at); err != nil {
		return nil, err
	}
	return m.reveal(ctx, nil)
}

// copySteps gives a branch the steps that were done where it begins: what they did
// elsewhere stays done. Those that were claimed run where they were claimed.
func (m *birth) copySteps(ctx context.Context, from string) error {
	if m.made {
		return nil
	}
	return m.eachPart(ctx, from, stepPart, func(name string, body []byte) error {
		var d stepDoc
		if err := decodeDoc(body, &d); err != nil || !d.doneBy(*m.from) {
			return err
		}
		d.Seq = 0 // of the other log
		return m.putPart(ctx, stepPart, name, d)
	})
}

// copyEvents gives a branch the events of the session up to where it begins.
func (m *birth) copyEvents(ctx context.Context, from *standingSession) error {
	c := eventCopy{birth: m}
	for after := int64(0); after < m.from.Seq && !m.made; {
		page, err := m.entriesOf(ctx, from.log, tiering.EntriesOptions{After: after, Before: m.from.Seq + 1, Limit: maxLimit})
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if after = e.Seq; inRuns(m.from.Skipped, e.Seq) {
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
