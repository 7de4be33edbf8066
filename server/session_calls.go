package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// fence reads Tierd-Fence, nil when it is absent.
func (c *call) fence() (*tiering.Fence, error) {
	values := c.r.Header.Values("Tierd-Fence")
	if len(values) == 0 {
		return nil, nil
	}
	v := values[0]
	i := strings.LastIndexByte(v, '/')
	if i > 0 && len(values) == 1 {
		if token, err := strconv.ParseInt(v[i+1:], 10, 64); err == nil && token > 0 {
			return &tiering.Fence{Session: v[:i], Token: token}, nil
		}
	}
	return nil, tiering.Invalidf("Tierd-Fence: %s: want one session, a slash, and the token of its lease", shown(strings.Join(values, ", ")))
}

// sessionWrite reads what guards a write of a session.
func (c *call) sessionWrite() (*tiering.SessionWrite, error) {
	cond, err := writeCondition(c.r.Header)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return nil, err
	}
	o := &tiering.SessionWrite{IdempotencyKey: key}
	switch v, ok := cond.Version(); {
	case ok:
		o.IfVersion = &v
	case cond.Absent():
		o.IfVersion = new(int64) // "0" or nothing: no session that stands has it
	}
	o.Fence, err = c.fence()
	return o, err
}

func (c *call) replySession(status int, s *tiering.Session, err error) error {
	if err != nil {
		return err
	}
	c.header("Etag", etag(s.Version))
	c.headerTime("Tierd-Expires-At", s.ExpiresAt)
	if status == http.StatusCreated {
		u := url.URL{Path: "/v1/sessions/" + s.ID}
		c.w.Header().Set("Location", u.EscapedPath())
	}
	return c.reply(status, s)
}

func (c *call) newSession() (*tiering.NewSession, error) {
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return nil, err
	}
	var n tiering.NewSession
	err = c.decode(&n)
	n.IdempotencyKey = key
	return &n, err
}

func (c *call) createSession() error {
	n, err := c.newSession()
	if err != nil {
		return err
	}
	s, err := c.svc.Sessions().Create(c.ctx(), n)
	return c.replySession(http.StatusCreated, s, err)
}

func (c *call) listSessions() error {
	q := &tiering.SessionQuery{User: c.q.text("user"), Agent: c.q.text("agent"), App: c.q.text("app"), Status: c.q.text("status"), Limit: c.q.limit(), Cursor: c.q.text("cursor")}
	if c.q.err != nil {
		return c.q.err
	}
	page, err := c.svc.Sessions().List(c.ctx(), q)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, page)
}

func (c *call) getSession() error {
	s, err := c.svc.Sessions().Get(c.ctx(), c.id)
	return c.replySession(http.StatusOK, s, err)
}

func (c *call) patchSession() error {
	o, err := c.sessionWrite()
	if err != nil {
		return err
	}
	var p tiering.SessionPatch
	if err := c.decode(&p); err != nil {
		return err
	}
	s, err := c.svc.Sessions().Patch(c.ctx(), c.id, &p, o)
	return c.replySession(http.StatusOK, s, err)
}

func (c *call) deleteSession() error {
	o, err := c.sessionWrite()
	if err != nil {
		return err
	}
	if err := c.svc.Sessions().Delete(c.ctx(), c.id, o); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionEvents is the body of an append.
type sessionEvents struct {
	Events []json.RawMessage `json:"events"`
	tiering.SessionPatch
	IfVersion *int64 `json:"if_version"`
	ExpectSeq *int64 `json:"expect_seq"`
}

func (c *call) appendEvents() error {
	o, err := c.sessionWrite()
	if err != nil {
		return err
	}
	var b sessionEvents
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.IfVersion != nil {
		o.IfVersion = b.IfVersion
	}
	o.ExpectSeq = b.ExpectSeq
	a, err := c.svc.Sessions().Append(c.ctx(), c.id, b.Events, &b.SessionPatch, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, a)
}

func (c *call) readEvents() error {
	o, err := c.entriesOptions()
	if err != nil {
		return err
	}
	page, err := c.svc.Sessions().Events(c.ctx(), c.id, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, page)
}

func (c *call) sessionContext() error {
	q := &c.q
	o := &tiering.ContextOptions{
		Budget: int(q.whole("budget")), Tokenizer: q.text("tokenizer"), KeepTurns: int(q.whole("keep_turns")), Shorten: int(q.whole("shorten")), Shape: q.text("shape"),
		Recall: q.text("recall"), Memories: q.list("memories"),
	}
	if !q.has("budget") {
		q.failf("query parameter %q is missing: %s", "budget", c.op.queryNames())
	}
	if q.err != nil {
		return q.err
	}
	out, err := c.svc.Sessions().Context(c.ctx(), c.id, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) sessionTimeline() error {
	o := &tiering.EntriesOptions{After: c.q.count("after"), Limit: c.q.limit()}
	if c.q.err != nil {
		return c.q.err
	}
	out, err := c.svc.Sessions().Timeline(c.ctx(), c.id, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) exportSession() error {
	out, err := c.svc.Sessions().Export(c.ctx(), c.id)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) importSession() error {
	var e tiering.SessionExport
	if err := c.decode(&e); err != nil {
		return err
	}
	s, err := c.svc.Sessions().Import(c.ctx(), &e)
	return c.replySession(http.StatusCreated, s, err)
}

func (c *call) makeCheckpoint() error {
	o, err := c.sessionWrite()
	if err != nil {
		return err
	}
	out, err := c.svc.Sessions().Checkpoint(c.ctx(), c.id, c.r.PathValue("name"), o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) listCheckpoints() error {
	all, err := c.svc.Sessions().Checkpoints(c.ctx(), c.id)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{"items": all})
}

func (c *call) resumeCheckpoint() error {
	o, err := c.sessionWrite()
	if err != nil {
		return err
	}
	s, err := c.svc.Sessions().Resume(c.ctx(), c.id, c.r.PathValue("name"), o)
	return c.replySession(http.StatusOK, s, err)
}

func (c *call) branchCheckpoint() error {
	n, err := c.newSession()
	if err != nil {
		return err
	}
	s, err := c.svc.Sessions().Branch(c.ctx(), c.id, c.r.PathValue("name"), n)
	return c.replySession(http.StatusCreated, s, err)
}

func (c *call) runStep() error {
	o, err := c.sessionWrite()
	if err != nil {
		return err
	}
	var r tiering.StepRequest
	if err := c.decode(&r); err != nil {
		return err
	}
	out, err := c.svc.Sessions().Step(c.ctx(), c.id, c.r.PathValue("name"), &r, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, out)
}

func (c *call) listSteps() error {
	all, err := c.svc.Sessions().Steps(c.ctx(), c.id)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{"items": all})
}

func (c *call) acquireLease() error {
	var r tiering.LeaseRequest
	if err := c.decode(&r); err != nil {
		return err
	}
	l, err := c.svc.Sessions().AcquireLease(c.ctx(), c.id, &r)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, l)
}

func (c *call) releaseLease() error {
	token := c.q.whole("token")
	if !c.q.has("token") {
		c.q.failf("query parameter %q is missing: %s", "token", c.op.queryNames())
	}
	if c.q.err != nil {
		return c.q.err
	}
	if err := c.svc.Sessions().ReleaseLease(c.ctx(), c.id, token); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
