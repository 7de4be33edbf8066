package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// A log is a key whose versions are its entries: an append is a put, an array of
// entries a run of puts, and expect_seq the version that has to stand. So appends
// share the queue, its folds and its commits with documents, and nothing that
// moves, finds or erases versions has to know of logs. Hot holds none of it.

// Append adds entries to a log.
func (r *Router) Append(ctx context.Context, ns, id string, entries []json.RawMessage, o *tiering.AppendOptions) (*tiering.Appended, error) {
	a, err := r.append(ctx, ns, id, entries, orZero(o))
	return a, tiering.Wrap(err, "append", "", r.key(ns, id))
}

func (r *Router) append(ctx context.Context, ns, id string, entries []json.RawMessage, o tiering.AppendOptions) (*tiering.Appended, error) {
	if _, err := r.admit(tiering.VerbWrite, ns, id); err != nil {
		return nil, err
	}
	p, err := r.policyForKind(ctx, ns, tiering.Policy{Kind: tiering.KindLog})
	if err != nil {
		return nil, err
	}
	p, m, err := r.appendMutation(ctx, p, ns, id, entries, o)
	if err != nil {
		return nil, err
	}
	rc, err := r.writeLog(ctx, p, m)
	if err != nil {
		return nil, seqConflict(err)
	}
	return m.appended(rc), nil
}

// appendMutation makes the run of rows that an append is.
func (r *Router) appendMutation(ctx context.Context, p *policy, ns, id string, entries []json.RawMessage, o tiering.AppendOptions) (*policy, *mutation, error) {
	bodies, err := p.entries(entries)
	if err != nil {
		return nil, nil, err
	}
	w := tiering.WriteOptions{IdempotencyKey: o.IdempotencyKey, TTL: o.TTL, Fence: o.Fence}
	if o.ExpectSeq != nil {
		if *o.ExpectSeq < 0 {
			return nil, nil, tiering.Invalidf("expect_seq %d: use the last sequence number, or 0 for a log that does not exist", *o.ExpectSeq)
		}
		w.If = tiering.IfVersion(*o.ExpectSeq)
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, w, o.User, tiering.KindLog)
	if err != nil {
		return nil, nil, err
	}
	m.row.Query = false // entries are read by their numbers
	m.fill(bodies)
	if o.IdempotencyKey != "" {
		r.nameRequest(m, o.IdempotencyKey, "append", bodies...) // its first row stands for the run
	}
	return p, m, nil
}

// fill makes a row of each body, like m's own.
func (m *mutation) fill(bodies [][]byte) {
	m.row.Body, m.row.Digest = bodies[0], tiering.DigestOf(bodies[0])
	for _, b := range bodies[1:] {
		row := m.row
		row.Body, row.Digest = b, tiering.DigestOf(b)
		m.more = append(m.more, row)
	}
}

// entries compacts the entries of one append, and checks them.
func (p *policy) entries(entries []json.RawMessage) ([][]byte, error) {
	if len(entries) == 0 || len(entries) > tiering.MaxAppend {
		return nil, tiering.Unprocessablef("", "an append of %d entries: use 1 to %d", len(entries), tiering.MaxAppend)
	}
	out := make([][]byte, len(entries))
	total := 0
	for i, e := range entries {
		doc, err := jsondoc.Compact(e)
		if err == nil {
			err = p.check(doc)
		}
		if err != nil && len(entries) > 1 {
			return nil, tiering.Below(err, fmt.Sprintf("/%d", i))
		}
		if err != nil {
			return nil, err
		}
		if total += len(doc); total > tiering.MaxBody {
			return nil, tiering.Errorf(tiering.CodeTooLarge, "the entries of one append are %d bytes long or more, %d are allowed", total, tiering.MaxBody)
		}
		out[i] = doc
	}
	return out, nil
}

// writeLog is write for a key that hot does not hold.
func (r *Router) writeLog(ctx context.Context, p *policy, m *mutation) (*tiering.Receipt, error) {
	m.warmOnly = true
	return r.write(ctx, "append", p, m)
}

// appended is the answer to an append that succeeded.
func (m *mutation) appended(rc *tiering.Receipt) *tiering.Appended {
	return &tiering.Appended{
		Namespace: rc.Namespace, ID: rc.ID, FirstSeq: rc.Version - int64(len(m.more)), LastSeq: rc.Version, Time: rc.UpdatedAt,
		ExpiresAt: rc.ExpiresAt, User: rc.User, Created: rc.Created, Replayed: rc.Replayed,
	}
}

// seqConflict is a conflict of a log's version in the words of logs.
func seqConflict(err error) error {
	var e *tiering.Error
	if !errors.As(err, &e) || e.Code != tiering.CodeVersionConflict {
		return err
	}
	c := *e
	c.Code = tiering.CodeSeqConflict
	c.Detail = fmt.Sprintf("the log's last sequence number is %d: read on from there and try again", e.CurrentVersion)
	if e.CurrentVersion == 0 {
		c.Detail = "there is no log under the key"
	}
	return &c
}
