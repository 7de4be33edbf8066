package router

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// makingLife is how long a session that is being made lives behind each of its
// commits: one whose making was cut off goes by itself.
const makingLife = 2 * time.Minute

// birth is a session that takes many commits to be made: a branch, or an import. The
// first begins its log, the last writes its document. Until then nobody finds it: a
// log without a document is no session.
type birth struct {
	sessions
	newborn
	from    *branchPoint // of a branch
	began   time.Time    // when the log was begun
	seq     int64        // that the log is at: its first entry's, until events are copied
	version int64        // that the document will have
	made    bool         // an earlier try came to its end
}

// beginBirth begins the log of a session. A try that comes again, by its idempotency
// key, goes on with what the one before began: it has the same id and, as a branch, the
// same place to begin with.
func (s sessions) beginBirth(ctx context.Context, n tiering.NewSession, request any, from *branchPoint) (*birth, error) {
	b, err := s.newborn(ctx, n)
	if err != nil {
		return nil, err
	}
	idem, err := s.idempotency(b.id, "create", b.idem, request)
	if err != nil {
		return nil, err
	}
	m := &birth{sessions: s, newborn: *b, from: from}
	for {
		again, err := m.begin(ctx, idem)
		if err != nil || !again {
			return m, err
		}
		idem = nil // its answer stands: what it began is gone
	}
}

// begin is one try of the first commit. again says that an earlier one began a session
// which went before it was made.
func (m *birth) begin(ctx context.Context, idem *warm.Idempotency) (again bool, err error) {
	c := &sessionChange{s: m.sessions, id: m.id, policy: m.last.policy, idem: idem, creates: true, user: m.of.User,
		ttl: &tiering.TTL{Life: makingLife}, entries: [][]byte{firstEntry()}}
	answer := created{ID: m.id, sharers: m.of, From: m.from}
	err = m.overFormer(ctx, c, func(t *sessionTx) error {
		answer.Doc = t.before
		c.answer = answer
		return nil
	})
	if err := c.replay(err, &answer); err != nil {
		return false, err
	}
	from := m.from
	m.id, m.of, m.from = answer.ID, answer.sharers, answer.From
	m.last.id, m.last.attrs.App = m.id, &m.of.App
	heads, err := m.Warm.Heads(ctx, []tiering.Key{m.logKey(m.id), m.docKey(m.id)})
	if err != nil {
		return false, tiering.Wrap(err, "", tiering.Warm, m.docKey(m.id))
	}
	log, doc := heads[0], heads[1]
	live := log.Head.Live(log.Now)
	m.began, m.version = log.Head.CreatedAt, answer.Doc+1
	switch {
	case !c.replayed:
		m.seq = c.result.FirstSeq
		return false, nil
	case live && doc.Head.Standing(doc.Now) > 0:
		m.made = true
		return false, nil
	case !live && doc.Head.Version > answer.Doc:
		return false, noSession() // it was made, and came to its end
	case !live:
		return true, nil
	case !m.from.same(from):
		return false, tiering.Errorf(tiering.CodeIdempotencyMismatch, "the checkpoint was made anew before the first try under this Idempotency-Key came to its end: use another key")
	}
	page, err := m.entriesOf(ctx, log.Head, tiering.EntriesOptions{Limit: 1})
	if err != nil {
		return false, err
	}
	if len(page.Entries) == 0 {
		return true, nil // it has gone just now
	}
	m.seq = page.Entries[0].Seq
	return false, nil
}

// goesOn checks that what is to go on still does: the log is the one that was begun.
func (m *birth) goesOn(live bool, log warm.Head, version int64) error {
	if !live || version > 0 || !log.CreatedAt.Equal(m.began) {
		return tiering.Errorf(tiering.CodeUnavailable, "the session was not made, and nothing of it stands: its making took too long, or somebody deleted it; try again")
	}
	return nil
}

// isMade fails for a session that is still being made. What was appended to it is not
// acknowledged: it goes with its log when the making is cut off.
func (s sessions) isMade(ctx context.Context, id string) error {
	cur, err := s.Warm.Head(ctx, s.docKey(id))
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, s.docKey(id))
	}
	if cur.Head.Standing(cur.Now) == 0 {
		return errBeingMade()
	}
	return nil
}

// errBeingMade answers who would make a session under the id of one that is being made.
func errBeingMade() error {
	return tiering.Errorf(tiering.CodeUnavailable, "a session with this id is being made, or its making was cut off: try again within %v", makingLife)
}

// putPart writes a part, unless an earlier try did.
func (m *birth) putPart(ctx context.Context, prefix, name string, v any) error {
	body, err := encodeDoc(v)
	if err != nil {
		return err
	}
	c := &sessionChange{s: m.sessions, id: m.id, policy: m.last.policy, birth: m, parts: []string{prefix + name}}
	return c.commit(ctx, func(t *sessionTx) error {
		if _, there := t.parts[c.parts[0]]; !there {
			t.put[c.parts[0]] = body
		}
		return nil
	})
}

// reveal writes the document, which makes it a session, with the life that it is to
// have, and what it went back over.
func (m *birth) reveal(ctx context.Context, skipped []tiering.Omitted) (*tiering.Session, error) {
	c := m.last
	if !m.made {
		c.birth = m
		if c.ttl == nil {
			life := c.policy.TTL.Std()
			c.ttl = &tiering.TTL{Life: life, None: life == 0}
		}
		err := c.commit(ctx, func(t *sessionTx) error {
			err := m.begins(t)
			t.doc.Skipped = skipped
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := m.shareState(ctx, c.shared, m.of, m.idem); err != nil {
		return nil, err
	}
	return m.get(ctx, m.id)
}

// eventCopy appends events, without tierd's own, to a session that is being made, in
// chunks. Which events are in a chunk depends on the events alone, so that one that was
// appended by an earlier try is known by its idempotency key.
type eventCopy struct {
	*birth
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

// flush appends the chunk that was gathered to the log as the one before left it: the id
// may have another log by now, and this one's chunks were not appended to that.
func (c *eventCopy) flush(ctx context.Context) error {
	if len(c.run) == 0 {
		return nil
	}
	key := alsoKey(c.idem, "copied to "+c.began.Format(createdLayout), c.chunks)
	a, _, err := c.appendAlone(ctx, c.id, c.run, tiering.SessionWrite{ExpectSeq: &c.seq, IdempotencyKey: key})
	if err != nil {
		return err
	}
	for i, seq := range c.old {
		c.moved = append(c.moved, movedEvent{seq, a.FirstSeq + int64(i)})
	}
	c.seq = a.LastSeq
	c.run, c.old, c.bytes = nil, nil, 0
	c.chunks++
	return nil
}
