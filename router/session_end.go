package router

import (
	"context"
	"errors"
	"strings"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// partsPage is how many parts of a session one transaction takes, and bodiesPage how
// many are read at a time with their bytes: a checkpoint holds a state.
const (
	partsPage  = 500
	bodiesPage = 50
)

// parts returns a page of the live parts of a session below a prefix.
func (s sessions) parts(ctx context.Context, id, prefix, after string, limit int, bodies bool) ([]warm.Current, error) {
	out, err := s.Warm.List(ctx, warm.List{
		Tenant: s.who.Tenant, Namespace: tiering.SessionPartsNamespace, Prefix: id + "/" + prefix, After: after, Limit: limit, Bodies: bodies,
	})
	return out, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
}

// ending is the end of one life of a session.
type ending struct {
	sessions
	guard  tiering.SessionWrite
	former bool // only of a life that is over already, whoever had it
	gone   bool // the log was taken
}

// errNothingToEnd stops an ending: the session was made anew, or it is or was another
// user's, which is none for the caller.
var errNothingToEnd = errors.New("there is no session to end")

// end takes what stands of a session: its log, its document and a page of parts in
// one transaction, under what guards the delete, and then the parts that are left. No
// part can be committed without the log, so none is taken from a session that lives;
// one that does by then is another one.
func (s sessions) end(ctx context.Context, id string, e *ending) error {
	for {
		parts, err := s.parts(ctx, id, "", "", partsPage, false)
		if err != nil || e.gone && len(parts) == 0 {
			return err
		}
		keys := []tiering.Key{s.logKey(id), s.docKey(id)}
		for _, p := range parts {
			keys = append(keys, p.Head.Key)
		}
		if f := e.guard.Fence; f != nil {
			keys = append(keys, s.partKey(f.Session, leasePart))
		}
		_, committed, err := s.transact(ctx, keys, nil, func(current []warm.Current) ([]warm.Change, error) {
			return e.changes(id, current)
		})
		switch {
		case errors.Is(err, errNothingToEnd):
			return nil
		case err != nil:
			return err
		case !committed:
			return tiering.Errorf(tiering.CodeUnavailable, "the session was not deleted: try again")
		}
		e.gone = true
	}
}

// changes are the deletions of what stands.
func (e *ending) changes(id string, current []warm.Current) (out []warm.Change, err error) {
	over := e.former || e.gone
	for _, cur := range current {
		key := cur.Head.Key
		log := key.Namespace == tiering.SessionEventsNamespace
		switch {
		case log && !cur.Head.Live(cur.Now) && !e.mayRead(cur.Head.User) && !over:
			return nil, errNothingToEnd // not the caller's to end, nor to know of
		case !cur.Head.Live(cur.Now):
		case log && over:
			return nil, errNothingToEnd
		case !over && !e.mayRead(cur.Head.User):
			return nil, errNothingToEnd
		case key.Namespace == tiering.SessionPartsNamespace && !strings.HasPrefix(key.ID, id+"/"):
			// the lease of another session that the delete is under
		default:
			out = append(out, warm.Change{Key: key, Rows: []warm.Row{{Op: tiering.OpDelete}}})
		}
	}
	if over {
		return out, nil
	}
	return out, e.judge(id, current)
}

// judge checks what guards the delete of a session that lives.
func (e *ending) judge(id string, current []warm.Current) error {
	at := map[tiering.Key]warm.Current{}
	for _, cur := range current {
		at[cur.Head.Key] = cur
	}
	log, doc := at[e.logKey(id)], at[e.docKey(id)]
	if !log.Head.Live(log.Now) {
		return nil
	}
	if err := e.underLease(e.guard.Fence, at); err != nil {
		return err
	}
	return e.asExpected(e.guard, doc.Head.Standing(doc.Now), log.Head.Version)
}

// errFormerLife says that the id had a session before, of which something may
// stand still.
var errFormerLife = errors.New("the id had a session before")

// overFormer commits the creation of a session. What is left of a session that the
// id had before is taken first: else the new one would begin with the steps and
// checkpoints of one that has expired and was not swept yet.
func (s sessions) overFormer(ctx context.Context, c *sessionChange, decide func(*sessionTx) error) error {
	left, err := s.parts(ctx, c.id, "", "", 1, false)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		c.ended = -1 // whatever became of its log
	}
	for range 3 {
		err := c.commit(ctx, decide)
		if !errors.Is(err, errFormerLife) {
			return err
		}
		cur, err := s.Warm.Head(ctx, s.logKey(c.id))
		if err != nil {
			return tiering.Wrap(err, "", tiering.Warm, s.docKey(c.id))
		}
		if err := s.end(ctx, c.id, &ending{sessions: s, former: true}); err != nil {
			return err
		}
		c.ended = cur.Head.Version
	}
	return tiering.Errorf(tiering.CodeUnavailable, "the session that had this id comes to its end: try again")
}
