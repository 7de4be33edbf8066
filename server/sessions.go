package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

const sessionPath = "/v1/sessions/{id}"

var fenceHeader = param{name: "Tierd-Fence", about: "session/token of a lease: the write is refused (fenced) once that lease does not stand any more.", schema: str(), example: "s1/7"}

var sessionCodes = []tiering.Code{tiering.CodeNotFound, tiering.CodeVersionConflict, tiering.CodeSeqConflict, tiering.CodeWrongKind, tiering.CodeFenced,
	tiering.CodeTooLarge, tiering.CodeIdempotencyMismatch, tiering.CodeIdempotencyInFlight, tiering.CodeOutOfSpace}

func sessionOperations() []*operation {
	guards := []param{ifMatchHeader, idempotencyHeader, fenceHeader}
	one := func(about string) []answer {
		return []answer{{http.StatusOK, about, []string{"ETag"}, jsonOf("Session", exampleSession)}}
	}
	all := []*operation{
		{
			id: "createSession", method: http.MethodPost, path: "/v1/sessions", tag: "sessions", summary: "Create a session",
			about:   "A session is a state document, an event log, checkpoints, steps and a lease under one id, with one sliding life. Its log begins with an entry tierd.created.",
			headers: []param{idempotencyHeader},
			body: &body{about: "The session.", component: "NewSession", optional: true, media: []media{{"application/json", ref("NewSession"),
				map[string]any{"user": "ada", "agent": "planner", "ttl": "2h", "state": map[string]any{"step": 1}}}}},
			answers: []answer{{http.StatusCreated, "Created.", []string{"ETag", "Location"}, jsonOf("Session", exampleSession)}},
			codes:   sessionCodes, run: (*call).createSession,
		},
		{
			id: "listSessions", method: http.MethodGet, path: "/v1/sessions", tag: "sessions", summary: "List sessions, newest first",
			about: "A page may be shorter than its limit: sessions that have just expired are left out.",
			query: []param{
				{name: "user", about: "Only this user's.", schema: str(), example: "ada"}, {name: "agent", about: "Only this agent's.", schema: str(), example: "planner"},
				{name: "app", about: "Only this app's.", schema: str(), example: "desk"}, {name: "status", about: "Only those of this status.", schema: str(), example: "running"},
				limitParam, cursorParam,
			},
			answers: []answer{{http.StatusOK, "A page.", nil, jsonOf("SessionPage", map[string]any{"sessions": []any{exampleSession}})}},
			codes:   []tiering.Code{tiering.CodeWrongKind}, run: (*call).listSessions,
		},
		{
			id: "getSession", method: http.MethodGet, path: sessionPath, tag: "sessions", summary: "Read a session",
			about:   "Without its events. Keys shared by the user's and the app's sessions stand under user: and app: in the state.",
			answers: one("The session."), codes: sessionCodes, run: (*call).getSession,
		},
		{
			id: "patchSession", method: http.MethodPatch, path: sessionPath, tag: "sessions", summary: "Change a session's state and attributes",
			about:   "state is a merge patch. Top-level keys that begin with user: or app: are shared with other sessions and not atomic with this one; those with temp: are not stored.",
			headers: guards,
			body:    &body{about: "The change.", component: "SessionPatch", media: []media{{"application/json", ref("SessionPatch"), map[string]any{"status": "running", "state": map[string]any{"step": 2}}}}},
			answers: one("Changed."), codes: sessionCodes, run: (*call).patchSession,
		},
		{
			id: "deleteSession", method: http.MethodDelete, path: sessionPath, tag: "sessions", summary: "Delete everything of a session",
			about:   "Deleting what is not there succeeds.",
			answers: []answer{{http.StatusNoContent, "Nothing of it stands.", nil, nil}}, codes: sessionCodes, run: (*call).deleteSession,
		},
		{
			id: "appendEvents", method: http.MethodPost, path: sessionPath + "/events", tag: "sessions", summary: "Append events, with a change of state in one commit",
			about: "Events alone fold with those of others; with a change of the session it is one transaction.", headers: guards,
			body: &body{about: "Events, and what changes with them.", component: "SessionEvents", media: []media{{"application/json", ref("SessionEvents"),
				map[string]any{"events": exampleEntries, "state": map[string]any{"step": 3}}}}},
			answers: []answer{{http.StatusOK, "Appended.", nil, jsonOf("SessionAppended", map[string]any{"first_seq": 8, "last_seq": 9, "version": 4, "time": "2026-01-31T12:00:00Z"})}},
			codes:   sessionCodes, run: (*call).appendEvents,
		},
		{
			id: "readEvents", method: http.MethodGet, path: sessionPath + "/events", tag: "sessions", summary: "Read a session's log",
			about: "As a read of a log.", query: entriesParams(),
			answers: []answer{{http.StatusOK, "A page of entries.", nil, jsonOf("EntryPage", exampleEntryPage)}}, codes: sessionCodes, run: (*call).readEvents,
		},
		{
			id: "sessionContext", method: http.MethodGet, path: sessionPath + "/context", tag: "sessions", summary: "What fits a model's context window",
			about: "The system message and the newest keep_turns turns whole, turns before them with their texts shortened, older ones summarised. Members whose names begin with _ are left out, and a call of a tool is never without its result. " +
				"A budget that what has to stay does not fit is 422.",
			query: []param{
				{name: "budget", about: "Tokens.", schema: integer(1), required: true, example: 4000},
				{name: "tokenizer", about: "The encoding that counts; default o200k_base.", schema: enum("o200k_base", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base"), example: "cl100k_base"},
				{name: "keep_turns", about: "The newest turns that stay whole; default 5.", schema: integer(1), example: 3},
				{name: "shorten", about: "Characters of a text in turns before them; default 500.", schema: integer(1), example: 200},
				{name: "shape", about: "Whose messages; default openai.", schema: enum("openai", "anthropic"), example: "anthropic"},
			},
			answers: []answer{{http.StatusOK, "The context.", nil, jsonOf("SessionContext", map[string]any{
				"messages": []any{map[string]any{"role": "user", "content": "Is 14C free?"}}, "tokens": 11, "omitted": []any{map[string]any{"from": 2, "to": 9, "how": "summarised"}}, "last_seq": 12})}},
			codes: sessionCodes, run: (*call).sessionContext,
		},
		{
			id: "sessionTimeline", method: http.MethodGet, path: sessionPath + "/timeline", tag: "sessions", summary: "What happened to a session, in order",
			about: "Events, checkpoints and steps, and between them the versions of state and attributes with what they changed.",
			query: []param{{name: "after", about: "Behind this sequence number.", schema: integer(0), example: 120}, limitParam},
			answers: []answer{{http.StatusOK, "The timeline.", nil, jsonOf("Timeline", map[string]any{"items": []any{
				map[string]any{"time": "2026-01-31T12:00:00Z", "what": "event", "seq": 2, "data": map[string]any{"role": "user"}}}})}},
			codes: sessionCodes, run: (*call).sessionTimeline,
		},
		{
			id: "exportSession", method: http.MethodGet, path: sessionPath + "/export", tag: "sessions", summary: "The whole session as one document",
			about:   "With its events, checkpoints and steps.",
			answers: []answer{{http.StatusOK, "The session.", nil, jsonOf("SessionExport", exampleExport)}}, codes: sessionCodes, run: (*call).exportSession,
		},
		{
			id: "importSession", method: http.MethodPost, path: "/v1/sessions/import", tag: "sessions", summary: "Make a session from an export",
			about:   "Events get new numbers and times. Not in one commit: what is read of it meanwhile is not whole.",
			body:    &body{about: "An export.", component: "SessionExport", media: []media{{"application/json", ref("SessionExport"), exampleExport}}},
			answers: []answer{{http.StatusCreated, "Made.", []string{"ETag", "Location"}, jsonOf("Session", exampleSession)}}, codes: sessionCodes, run: (*call).importSession,
		},
	}
	return append(all, sessionPartOperations(guards, one)...)
}

func sessionPartOperations(guards []param, one func(string) []answer) []*operation {
	checkpoint := sessionPath + "/checkpoints/{name}"
	exampleCheckpoint := map[string]any{"name": "before-tool-call", "version": 3, "seq": 12, "created_at": "2026-01-31T12:00:00Z"}
	exampleStep := map[string]any{"name": "charge-card", "status": "claimed", "key": "step_9f86d081884c7d659a2feaa0c55ad015", "attempts": 1, "claimed_at": "2026-01-31T12:00:00Z"}
	exampleLease := map[string]any{"session": "s1", "holder": "worker-3", "token": 7, "expires_at": "2026-01-31T12:00:30Z"}
	return []*operation{
		{
			id: "makeCheckpoint", method: http.MethodPost, path: checkpoint, tag: "sessions", summary: "Name the state and the log as they stand",
			about: "A name that is taken already names what stands now.", headers: guards,
			answers: []answer{{http.StatusOK, "Named.", nil, jsonOf("Checkpoint", exampleCheckpoint)}}, codes: sessionCodes, run: (*call).makeCheckpoint,
		},
		{
			id: "listCheckpoints", method: http.MethodGet, path: sessionPath + "/checkpoints", tag: "sessions", summary: "List checkpoints", about: "By name.",
			answers: []answer{{http.StatusOK, "All of them.", nil, jsonOf("CheckpointList", map[string]any{"items": []any{exampleCheckpoint}})}}, codes: sessionCodes, run: (*call).listCheckpoints,
		},
		{
			id: "resumeCheckpoint", method: http.MethodPost, path: checkpoint + "/resume", tag: "sessions", summary: "Go back to a checkpoint",
			about: "Commits its state again with an entry tierd.resumed. Contexts leave out what lies between; events show it.", headers: guards,
			answers: one("Resumed."), codes: sessionCodes, run: (*call).resumeCheckpoint,
		},
		{
			id: "branchCheckpoint", method: http.MethodPost, path: checkpoint + "/branch", tag: "sessions", summary: "Make a new session from a checkpoint",
			about: "Its state, and the events up to it under new numbers and times. What the body leaves out is the first session's.", headers: []param{idempotencyHeader},
			body:    &body{about: "The new session.", component: "NewSession", optional: true, media: []media{{"application/json", ref("NewSession"), map[string]any{"id": "s2"}}}},
			answers: []answer{{http.StatusCreated, "Made.", []string{"ETag", "Location"}, jsonOf("Session", exampleSession)}}, codes: sessionCodes, run: (*call).branchCheckpoint,
		},
		{
			id: "runStep", method: http.MethodPost, path: sessionPath + "/steps/{name}", tag: "sessions", summary: "Claim or complete a run-once step",
			about: "Without an output the step is claimed. One that is done answers its output with replayed, and never runs again. One that was claimed and not completed is unknown: " +
				"whether it ran is the caller's to find out, by its key; again claims it once more.",
			headers: guards,
			body:    &body{about: "Nothing, to claim; an output, to complete.", component: "StepRequest", optional: true, media: []media{{"application/json", ref("StepRequest"), map[string]any{"output": map[string]any{"ok": true}}}}},
			answers: []answer{{http.StatusOK, "The step.", nil, jsonOf("Step", exampleStep)}}, codes: sessionCodes, run: (*call).runStep,
		},
		{
			id: "listSteps", method: http.MethodGet, path: sessionPath + "/steps", tag: "sessions", summary: "List steps", about: "By name.",
			answers: []answer{{http.StatusOK, "All of them.", nil, jsonOf("StepList", map[string]any{"items": []any{exampleStep}})}}, codes: sessionCodes, run: (*call).listSteps,
		},
		{
			id: "acquireLease", method: http.MethodPost, path: sessionPath + "/lease", tag: "sessions", summary: "Take or renew a session's lease",
			about:   "Held by another holder it is 409 lease_held, which names the holder and the expiry. The token of a lease that was taken anew is higher; that of a renewed one stays.",
			body:    &body{about: "Who wants it.", component: "LeaseRequest", media: []media{{"application/json", ref("LeaseRequest"), map[string]any{"holder": "worker-3", "ttl": "30s"}}}},
			answers: []answer{{http.StatusOK, "Held.", nil, jsonOf("SessionLease", exampleLease)}}, codes: append([]tiering.Code{tiering.CodeLeaseHeld}, sessionCodes...), run: (*call).acquireLease,
		},
		{
			id: "releaseLease", method: http.MethodDelete, path: sessionPath + "/lease", tag: "sessions", summary: "Give a lease up",
			about: "One of another token is left alone (fenced).", query: []param{{name: "token", about: "The lease's token.", schema: integer(1), required: true, example: 7}},
			answers: []answer{{http.StatusNoContent, "Nobody holds it.", nil, nil}}, codes: sessionCodes, run: (*call).releaseLease,
		},
	}
}

// entriesParams are those of a read of a log.
func entriesParams() []param {
	for _, op := range logOperations() {
		if op.id == "readEntries" {
			return op.query
		}
	}
	return nil
}

// fence reads Tierd-Fence, nil when it is absent.
func (c *call) fence() (*tiering.Fence, error) {
	v := c.r.Header.Get("Tierd-Fence")
	if v == "" {
		return nil, nil
	}
	i := strings.LastIndexByte(v, '/')
	if i > 0 {
		if token, err := strconv.ParseInt(v[i+1:], 10, 64); err == nil && token > 0 {
			return &tiering.Fence{Session: v[:i], Token: token}, nil
		}
	}
	return nil, tiering.Invalidf("Tierd-Fence: %s: want a session, a slash, and the token of its lease", shown(v))
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
	if v, ok := cond.Version(); ok {
		o.IfVersion = &v
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
	if err := c.svc.Sessions().Delete(c.ctx(), c.id); err != nil {
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
		Budget: int(q.version("budget")), Tokenizer: q.text("tokenizer"), KeepTurns: int(q.version("keep_turns")), Shorten: int(q.version("shorten")), Shape: q.text("shape"),
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
	token := c.q.version("token")
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

// Examples of the documentation.
var (
	exampleSession = map[string]any{"id": "s1", "user": "ada", "agent": "planner", "state": map[string]any{"step": 1}, "version": 1, "last_seq": 1,
		"created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:00Z", "expires_at": "2026-01-31T14:00:00Z"}
	exampleExport = map[string]any{"session": exampleSession, "ttl": "2h", "events": []any{map[string]any{"seq": 2, "time": "2026-01-31T12:00:00Z", "data": map[string]any{"role": "user"}}}}
)

func sessionAttributes() []property {
	least, most := 0.0, 1.0
	progress := number()
	progress.Minimum, progress.Maximum = &least, &most
	return []property{
		may("agent", "The agent.", text(256)), may("app", "The app.", text(256)), may("status", "The status.", text(256)),
		may("progress", "How far it is, 0 to 1.", progress),
	}
}

// sessionSchemas are the bodies of sessions.
func sessionSchemas(c map[string]*huma.Schema) {
	most := tiering.MaxAppend
	events := func() *huma.Schema {
		s := list(anyJSON())
		s.MaxItems = &most
		return s
	}
	ttl := may("ttl", "A life from now; slid by everything that is done to the session. none: no expiry.", ttlSchema())
	c["NewSession"] = object("A session to be made.", join([]property{
		may("id", "Its id, without slashes; one is made when it is absent.", text(256)), may("user", "The owner, fixed.", text(256)),
		ttl, may("state", "Its state.", raw()), may("events", "Its first events, in the same commit.", events()),
	}, sessionAttributes())...)
	c["SessionPatch"] = object("A change of a session.", join([]property{may("state", "A merge patch of the state.", raw()), ttl}, sessionAttributes())...)
	c["SessionEvents"] = object("Events, and what changes with them in one commit.", join([]property{
		may("events", "The events. Types that begin with tierd. are tierd's own.", events()), may("state", "A merge patch of the state.", raw()), ttl,
		may("if_version", "The version of state and attributes that must stand.", integer(0)), may("expect_seq", "The last sequence number that the log must have.", integer(0)),
	}, sessionAttributes())...)
	c["Session"] = object("A session without its events.", join([]property{must("id", "Its id.", str()), may("user", "The owner.", str())}, sessionAttributes(), []property{
		must("state", "Its state, with what it shares under user: and app:.", raw()), must("version", "Of state and attributes.", integer(0)),
		must("last_seq", "The last sequence number of its log.", integer(0)), must("created_at", "When it was made.", instant()),
		must("updated_at", "The last event or change.", instant()), may("expires_at", "When its life is over; absent: never.", instant()),
	})...)
	c["SessionPage"] = object("One page of sessions.", must("sessions", "The sessions, newest first.", list(ref("Session"))), may("next_cursor", "The cursor of the next page; absent on the last.", str()))
	c["SessionAppended"] = object("The answer to an append.", may("first_seq", "Of its first event.", integer(1)), must("last_seq", "The last sequence number of the log.", integer(0)),
		may("version", "Of state and attributes, where they changed.", integer(1)), must("time", "When it was committed.", instant()), may("replayed", "The first try's result.", boolean()))
	c["Omitted"] = object("A run of entries that a context does not hold whole.", must("from", "The first.", integer(1)), must("to", "The last.", integer(1)),
		must("how", "What became of them.", enum("shortened", "summarised", "dropped", "resumed over")))
	c["SessionContext"] = object("What fits a model's context window.", must("messages", "The messages, in the shape asked for.", list(anyJSON())),
		may("system", "The system message, in the anthropic shape.", str()), must("tokens", "What all of it takes.", integer(0)),
		must("omitted", "What it does not hold whole.", list(ref("Omitted"))), must("last_seq", "The last entry that was looked at.", integer(0)))
	c["TimelineItem"] = object("An event or a version.", must("time", "When.", instant()), must("what", "What.", enum("event", "version", "created", "resumed", "checkpoint", "step")),
		may("seq", "Of an entry of the log.", integer(1)), may("data", "The entry.", anyJSON()), may("version", "Of state and attributes.", integer(1)),
		may("diff", "What it changed, as a JSON patch.", ref("JSONPatch")))
	c["Timeline"] = object("What happened to a session.", must("items", "In order.", list(ref("TimelineItem"))), may("more", "Go on with after.", boolean()))
	c["Checkpoint"] = object("A named state and place in the log.", checkpointProperties()...)
	c["CheckpointExport"] = object("A checkpoint with its state.", join(checkpointProperties(), []property{must("state", "The state.", raw())})...)
	c["CheckpointList"] = object("All checkpoints.", must("items", "The checkpoints.", list(ref("Checkpoint"))))
	c["StepRequest"] = object("What to do with a step.", may("output", "Completes it.", anyJSON()), may("again", "Claim one that is unknown once more.", boolean()))
	c["Step"] = object("A run-once step.", must("name", "Its name.", str()), must("status", "claimed: by this call.", enum("claimed", "done", "unknown")),
		must("key", "The same at every try.", str()), must("attempts", "How often it was claimed.", integer(0)), may("output", "What it gave.", anyJSON()),
		may("replayed", "It was done before.", boolean()), may("claimed_at", "When it was claimed last.", instant()), may("completed_at", "When it was done.", instant()))
	c["StepList"] = object("All steps.", must("items", "The steps.", list(ref("Step"))))
	c["LeaseRequest"] = object("Who wants a lease, and for how long.", must("holder", "Who.", text(256)), may("ttl", "For how long; default 30s.", ttlSchema()))
	c["SessionLease"] = object("The right to write a session that one holder has at a time.", must("session", "The session.", str()), must("holder", "Who holds it.", str()),
		must("token", "Grows with every new lease.", integer(1)), must("expires_at", "Until when.", instant()))
	c["SessionExport"] = object("A whole session.", must("session", "The session.", ref("Session")), may("ttl", "Its sliding life.", str()), must("events", "Its log.", list(ref("Entry"))),
		may("checkpoints", "Its checkpoints.", list(ref("CheckpointExport"))), may("steps", "Its steps.", list(ref("Step"))))
}

func checkpointProperties() []property {
	return []property{must("name", "Its name.", str()), must("version", "Of state and attributes.", integer(0)), must("seq", "The last entry that belongs to it.", integer(0)),
		must("created_at", "When it was made.", instant())}
}
