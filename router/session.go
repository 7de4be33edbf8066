package router

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// A session is a log, a document and parts, each a key of a namespace of its own
// under the session's id. The head of the log is the session's life: every append
// slides it as it commits, whatever else changes touches it, and what belongs to
// a session has no expiry of its own. So an append of events alone is an append
// to a log, which folds with those of others, and everything else is one
// transaction over the keys that it needs.

// sessions is the session part of a router, for one principal.
type sessions struct{ *Router }

// Sessions returns the session part of tierd.
func (r *Router) Sessions() tiering.Sessions { return sessions{r} }

func (s sessions) logKey(id string) tiering.Key {
	return s.key(tiering.SessionEventsNamespace, id)
}
func (s sessions) docKey(id string) tiering.Key { return s.key(tiering.SessionNamespace, id) }
func (s sessions) partKey(id, part string) tiering.Key {
	return s.key(tiering.SessionPartsNamespace, id+"/"+part)
}

// sessionDoc is the document of a session.
type sessionDoc struct {
	Created  string            `json:"created"` // fixed width, so that it sorts
	Agent    string            `json:"agent,omitempty"`
	App      string            `json:"app,omitempty"`
	Status   string            `json:"status,omitempty"`
	Progress *float64          `json:"progress,omitempty"`
	State    json.RawMessage   `json:"state"`
	Skipped  []tiering.Omitted `json:"skipped,omitempty"` // what resumes went back over
}

// createdLayout has a fixed width.
const createdLayout = "2006-01-02T15:04:05.000000Z"

// encodeDoc writes a session's document, or a part, the bytes within as they are.
func encodeDoc(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, tiering.Invalidf("the session cannot be written: %v", err)
	}
	return jsondoc.Compact(b.Bytes())
}

func decodeDoc(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "a stored session cannot be read"}
	}
	return nil
}

func noSession() error {
	return tiering.Errorf(tiering.CodeNotFound, "there is no such session: it was never made, was deleted, or has expired")
}

// admitSession checks the id and that the principal may do verb to it.
func (s sessions) admitSession(verb tiering.Verb, id string) error {
	if err := tiering.ValidateSessionID(id); err != nil {
		return err
	}
	_, err := s.admitOwn(verb, tiering.SessionNamespace, id)
	return err
}

// admitAnswered is admitSession for a write that answers with the session: what may
// not be read is refused before anything is written.
func (s sessions) admitAnswered(id string) error {
	if err := s.admitSession(tiering.VerbRead, id); err != nil {
		return err
	}
	return s.admitSession(tiering.VerbWrite, id)
}

// sessionSpaces makes the namespaces of sessions where nobody did, and returns the
// policy of their logs.
func (s sessions) sessionSpaces(ctx context.Context) (*policy, error) {
	persistent := tiering.ClassPersistent
	for ns, kind := range map[string]tiering.Kind{tiering.SessionNamespace: tiering.KindSession, tiering.SessionPartsNamespace: tiering.KindSession} {
		if _, err := s.policyForKind(ctx, ns, tiering.Policy{Kind: kind, Class: persistent}); err != nil {
			return nil, err
		}
	}
	return s.policyForKind(ctx, tiering.SessionEventsNamespace, tiering.Policy{Kind: tiering.KindLog, Class: tiering.ClassSession})
}

// standingSession is a session as it was read: the head of its log, which lives, and its
// document.
type standingSession struct {
	log     warm.Head
	head    warm.Head // of the document
	doc     sessionDoc
	version int64
	now     time.Time // warm's, when it was read
}

// logHead reads the head of the log of a session that the principal may see: the
// session's life.
func (s sessions) logHead(ctx context.Context, id string) (warm.Current, error) {
	if err := s.admitSession(tiering.VerbRead, id); err != nil {
		return warm.Current{}, err
	}
	cur, err := s.Warm.Head(ctx, s.logKey(id))
	if err != nil {
		return cur, tiering.Wrap(err, "", tiering.Warm, s.docKey(id))
	}
	if !cur.Head.Live(cur.Now) || !s.mayRead(cur.Head.User) {
		return cur, noSession()
	}
	return cur, nil
}

// find reads a session that the principal may see.
func (s sessions) find(ctx context.Context, id string) (*standingSession, error) {
	cur, err := s.logHead(ctx, id)
	if err != nil {
		return nil, err
	}
	got, err := s.load(ctx, s.docKey(id), reservedPolicy(), 0)
	if err != nil {
		return nil, err
	}
	if got.body == nil {
		return nil, noSession() // deleted in between
	}
	s.used(ctx, id, cur.Head)
	out := &standingSession{log: cur.Head, head: got.head, version: got.head.Version, now: cur.Now}
	return out, decodeDoc(got.body, &out.doc)
}

// used slides the life of a session because something of it was read.
func (s sessions) used(ctx context.Context, id string, log warm.Head) {
	if p, err := s.policyOf(ctx, s.who.Tenant, tiering.SessionEventsNamespace); err == nil {
		s.slide(s.logKey(id), p, log.Meta())
	}
}

// shown is a session as the API shows it, with the state it shares.
func (s sessions) shown(ctx context.Context, id string, at *standingSession) (*tiering.Session, error) {
	out := describeSession(id, at)
	state, err := s.withShared(ctx, out.State, at.log.User, at.doc.App)
	out.State = state
	return out, err
}

func describeSession(id string, at *standingSession) *tiering.Session {
	return &tiering.Session{
		ID: id, User: at.log.User, Agent: at.doc.Agent, App: at.doc.App, Status: at.doc.Status, Progress: at.doc.Progress,
		State: at.doc.State, Version: at.version, LastSeq: at.log.Version, CreatedAt: at.log.CreatedAt, UpdatedAt: later(at.log.UpdatedAt, at.head.UpdatedAt),
		ExpiresAt: at.log.ExpiresAt,
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Get returns a session.
func (s sessions) Get(ctx context.Context, id string) (*tiering.Session, error) {
	out, err := s.get(ctx, id)
	return out, tiering.Wrap(err, "session", "", s.docKey(id))
}

func (s sessions) get(ctx context.Context, id string) (*tiering.Session, error) {
	at, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.shown(ctx, id, at)
}

// Create makes a session.
func (s sessions) Create(ctx context.Context, n *tiering.NewSession) (*tiering.Session, error) {
	out, err := s.create(ctx, orZero(n), n)
	return out, tiering.Wrap(err, "create session", "", tiering.Key{})
}

// created is the answer of a creation that is kept with its idempotency key: what is
// done behind its commit is done by a replay as by the first try.
type created struct {
	ID string `json:"id"`
	sharers
	From *branchPoint `json:"from,omitempty"` // of a branch
	Doc  int64        `json:"doc,omitempty"`  // of a copy: the last version of the document that the id had before
}

// newborn is a session that is to be made, checked.
type newborn struct {
	id   string
	of   sharers
	born string // as its document says it
	idem string
	last *sessionChange // of its document, and its own events
}

// newborn checks a session before anything is written. The change has no
// idempotency key yet.
func (s sessions) newborn(ctx context.Context, n tiering.NewSession) (*newborn, error) {
	if n.ID == "" {
		n.ID = randomText(16)
	}
	if err := s.admitAnswered(n.ID); err != nil {
		return nil, err
	}
	user, err := s.ownerOf(n.User)
	if err != nil {
		return nil, err
	}
	c, err := s.change(ctx, n.ID, "create", "", nil)
	if err != nil {
		return nil, err
	}
	patch := &tiering.SessionPatch{State: n.State, Agent: &n.Agent, App: &n.App, Status: &n.Status, Progress: n.Progress, TTL: n.TTL}
	if err := c.with(n.Events, patch, user); err != nil {
		return nil, err
	}
	of := sharers{user, n.App}
	if err := s.checkShared(c.shared, of); err != nil {
		return nil, err
	}
	now, err := s.Warm.Now(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	return &newborn{id: n.ID, of: of, born: now.UTC().Format(createdLayout), idem: n.IdempotencyKey, last: c}, nil
}

// begins is the document that it begins with.
func (b *newborn) begins(t *sessionTx) error {
	t.doc, t.wrote = sessionDoc{Created: b.born, State: json.RawMessage(`{}`)}, true
	return t.patch(b.last)
}

// firstEntry is that of every session.
func firstEntry() []byte { return []byte(`{"type":"tierd.created"}`) }

// create makes a session; request is what its idempotency key stands for.
func (s sessions) create(ctx context.Context, n tiering.NewSession, request any) (*tiering.Session, error) {
	b, err := s.newborn(ctx, n)
	if err != nil {
		return nil, err
	}
	c := b.last
	if c.idem, err = s.idempotency(b.id, "create", b.idem, request); err != nil {
		return nil, err
	}
	c.creates, c.user = true, b.of.User
	c.entries = append([][]byte{firstEntry()}, c.entries...)
	answer := created{ID: b.id, sharers: b.of}
	c.answer = answer
	err = s.overFormer(ctx, c, b.begins)
	if err := c.replay(err, &answer); err != nil {
		return nil, err
	}
	if err := s.shareState(ctx, c.shared, answer.sharers, b.idem); err != nil {
		return nil, err
	}
	return s.get(ctx, answer.ID)
}

// Patch changes attributes and state.
func (s sessions) Patch(ctx context.Context, id string, p *tiering.SessionPatch, o *tiering.SessionWrite) (*tiering.Session, error) {
	out, err := s.patchSession(ctx, id, p, orZero(o))
	return out, tiering.Wrap(err, "patch session", "", s.docKey(id))
}

func (s sessions) patchSession(ctx context.Context, id string, p *tiering.SessionPatch, o tiering.SessionWrite) (*tiering.Session, error) {
	if err := s.admitAnswered(id); err != nil {
		return nil, err
	}
	if _, err := s.appendWith(ctx, id, nil, p, o); err != nil {
		return nil, err
	}
	return s.get(ctx, id)
}

// Delete removes everything of a session.
func (s sessions) Delete(ctx context.Context, id string, o *tiering.SessionWrite) error {
	return tiering.Wrap(s.deleteSession(ctx, id, orZero(o)), "delete session", "", s.docKey(id))
}

func (s sessions) deleteSession(ctx context.Context, id string, o tiering.SessionWrite) error {
	if err := s.admitSession(tiering.VerbDelete, id); err != nil {
		return err
	}
	if err := checkFence(o.Fence); err != nil {
		return err
	}
	if _, err := s.sessionSpaces(ctx); err != nil {
		return err
	}
	return s.end(ctx, id, &ending{sessions: s, guard: o})
}

// List returns sessions, newest first.
func (s sessions) List(ctx context.Context, q *tiering.SessionQuery) (*tiering.SessionPage, error) {
	page, err := s.listSessions(ctx, orZero(q))
	return page, tiering.Wrap(err, "list sessions", "", tiering.Key{})
}

func (s sessions) listSessions(ctx context.Context, q tiering.SessionQuery) (*tiering.SessionPage, error) {
	if err := s.admitNamespace(tiering.VerbRead, tiering.SessionNamespace); err != nil {
		return nil, err
	}
	user, err := s.ownerOf(q.User)
	if err != nil {
		return nil, err
	}
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	want := map[string]string{}
	for name, v := range map[string]string{"/agent": q.Agent, "/app": q.App, "/status": q.Status} {
		if v != "" {
			want[name] = v
		}
	}
	asked, err := json.Marshal(want)
	if err != nil {
		return nil, tiering.Invalidf("the filter cannot be written: %v", err)
	}
	filter, err := warm.ParseFilter(asked)
	if err != nil {
		return nil, err
	}
	rows, next, err := s.Warm.Query(ctx, warm.Query{
		Tenant: s.who.Tenant, Namespace: tiering.SessionNamespace, Prefixes: s.who.Scope.Prefixes, User: user,
		Filter: filter, OrderBy: "/created", Descending: true, Cursor: q.Cursor, Limit: limit,
	})
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	page := &tiering.SessionPage{Sessions: []tiering.Session{}, NextCursor: next}
	keys := make([]tiering.Key, len(rows))
	for i, cur := range rows {
		keys[i] = s.logKey(cur.Head.Key.ID)
	}
	heads, err := s.Warm.Heads(ctx, keys)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	for i, cur := range rows {
		if !heads[i].Head.Live(heads[i].Now) {
			continue // expired, and not swept yet
		}
		at := &standingSession{log: heads[i].Head, head: cur.Head, version: cur.Head.Version}
		body := cur.Body
		if body == nil {
			got, err := s.load(ctx, cur.Head.Key, reservedPolicy(), 0)
			if err != nil {
				return nil, err
			}
			body = got.body
		}
		if err := decodeDoc(body, &at.doc); err != nil {
			return nil, err
		}
		page.Sessions = append(page.Sessions, *describeSession(cur.Head.Key.ID, at))
	}
	return page, nil
}

// systemEvent is what an event of a type of tierd's own says that happened; own is
// false for events of callers.
func systemEvent(event []byte) (what string, own bool) {
	v, err := jsondoc.Lookup(event, "/type")
	if err != nil || jsondoc.KindOf(v) != jsondoc.String {
		return "", false
	}
	var name string
	if json.Unmarshal(v, &name) != nil {
		return "", false
	}
	return strings.CutPrefix(name, tiering.SystemEvent)
}

// systemType refuses events that look like tierd's own.
func systemType(event []byte) error {
	if _, own := systemEvent(event); own {
		return tiering.Unprocessablef("/type", "types that begin with %q are tierd's own", tiering.SystemEvent)
	}
	return nil
}

// events checks events of callers, and compacts them.
func (p *policy) events(events []json.RawMessage) ([][]byte, error) {
	bodies, err := p.entries(events)
	if err != nil && len(events) == 1 {
		err = tiering.Below(err, "/0") // as of one of several
	}
	for i := 0; err == nil && i < len(bodies); i++ {
		err = tiering.Below(systemType(bodies[i]), fmt.Sprintf("/%d", i))
	}
	return bodies, tiering.Below(err, "/events")
}
