package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// sessions is the session part of a client.
type sessions struct{ c *Client }

// Sessions returns the session part of tierd.
func (c *Client) Sessions() tiering.Sessions { return sessions{c} }

// to begins a call on a session, or below it.
func (s sessions) to(op, method, id, below string) (*call, error) {
	r := newCall(op, method, "/v1/sessions", "", "")
	r.key = tiering.Key{Namespace: tiering.SessionNamespace, ID: id}
	if err := tiering.ValidateSessionID(id); err != nil {
		return nil, r.wrap(err)
	}
	r.path += "/" + escape(id) + below
	return r, nil
}

// guard adds what guards a write; its idempotency key is returned.
func (r *call) guard(o *tiering.SessionWrite) (idempotencyKey string) {
	if o == nil {
		return ""
	}
	if o.IfVersion != nil {
		setCondition(r.header, tiering.IfVersion(*o.IfVersion))
	}
	r.fence(o.Fence)
	return o.IdempotencyKey
}

// fence adds a lease's token.
func (r *call) fence(f *tiering.Fence) {
	if f != nil {
		r.header.Set("Tierd-Fence", f.Session+"/"+strconv.FormatInt(f.Token, 10))
	}
}

// put sends a write with a body, nil for none, and reads its answer.
func put[T any](ctx context.Context, s sessions, r *call, body any, idempotencyKey string) (*T, error) {
	if body != nil {
		if err := r.json(body); err != nil {
			return nil, err
		}
	}
	return write[T](ctx, s.c, r, idempotencyKey)
}

// Create makes a session.
func (s sessions) Create(ctx context.Context, n *tiering.NewSession) (*tiering.Session, error) {
	if n == nil {
		n = &tiering.NewSession{}
	}
	return put[tiering.Session](ctx, s, newCall("create session", http.MethodPost, "/v1/sessions", "", ""), n, n.IdempotencyKey)
}

// Get returns a session.
func (s sessions) Get(ctx context.Context, id string) (*tiering.Session, error) {
	r, err := s.to("session", http.MethodGet, id, "")
	if err != nil {
		return nil, err
	}
	return fetch[tiering.Session](ctx, s.c, r)
}

// Patch changes attributes and state.
func (s sessions) Patch(ctx context.Context, id string, p *tiering.SessionPatch, o *tiering.SessionWrite) (*tiering.Session, error) {
	r, err := s.to("patch session", http.MethodPatch, id, "")
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &tiering.SessionPatch{}
	}
	return put[tiering.Session](ctx, s, r, p, r.guard(o))
}

// List returns sessions, newest first.
func (s sessions) List(ctx context.Context, q *tiering.SessionQuery) (*tiering.SessionPage, error) {
	r := newCall("list sessions", http.MethodGet, "/v1/sessions", "", "")
	if q != nil {
		r.set("user", q.User)
		r.set("agent", q.Agent)
		r.set("app", q.App)
		r.set("status", q.Status)
		r.page(q.Limit, q.Cursor)
	}
	return fetch[tiering.SessionPage](ctx, s.c, r)
}

// Delete removes everything of a session.
func (s sessions) Delete(ctx context.Context, id string, o *tiering.SessionWrite) error {
	r, err := s.to("delete session", http.MethodDelete, id, "")
	if err != nil {
		return err
	}
	r.guard(o)
	_, err = s.c.do(ctx, r) // a repeated delete finds nothing to do
	return err
}

// Append adds events, and with a patch changes the session, in one commit.
func (s sessions) Append(ctx context.Context, id string, events []json.RawMessage, p *tiering.SessionPatch, o *tiering.SessionWrite) (*tiering.SessionAppended, error) {
	r, err := s.to("append events", http.MethodPost, id, "/events")
	if err != nil {
		return nil, err
	}
	body := struct {
		Events []json.RawMessage `json:"events,omitempty"`
		*tiering.SessionPatch
		ExpectSeq *int64 `json:"expect_seq,omitempty"`
	}{Events: events, SessionPatch: p}
	if o != nil {
		body.ExpectSeq = o.ExpectSeq
	}
	return put[tiering.SessionAppended](ctx, s, r, body, r.guard(o))
}

// Events reads the log.
func (s sessions) Events(ctx context.Context, id string, o *tiering.EntriesOptions) (*tiering.EntryPage, error) {
	r, err := s.to("events", http.MethodGet, id, "/events")
	if err != nil {
		return nil, err
	}
	r.entries(o)
	return fetch[tiering.EntryPage](ctx, s.c, r)
}

// Context returns what fits a model's context window.
func (s sessions) Context(ctx context.Context, id string, o *tiering.ContextOptions) (*tiering.SessionContext, error) {
	r, err := s.to("context", http.MethodGet, id, "/context")
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &tiering.ContextOptions{}
	}
	for name, n := range map[string]int{"budget": o.Budget, "keep_turns": o.KeepTurns, "shorten": o.Shorten} {
		if n != 0 {
			r.set(name, strconv.Itoa(n))
		}
	}
	r.set("tokenizer", o.Tokenizer)
	r.set("shape", o.Shape)
	r.set("recall", o.Recall)
	r.set("memories", strings.Join(o.Memories, ","))
	return fetch[tiering.SessionContext](ctx, s.c, r)
}

// Timeline returns what happened to the session, in order.
func (s sessions) Timeline(ctx context.Context, id string, o *tiering.EntriesOptions) (*tiering.Timeline, error) {
	r, err := s.to("timeline", http.MethodGet, id, "/timeline")
	if err != nil {
		return nil, err
	}
	if o != nil {
		r.entries(&tiering.EntriesOptions{After: o.After, Limit: o.Limit})
	}
	return fetch[tiering.Timeline](ctx, s.c, r)
}

// Export returns the whole session.
func (s sessions) Export(ctx context.Context, id string) (*tiering.SessionExport, error) {
	r, err := s.to("export session", http.MethodGet, id, "/export")
	if err != nil {
		return nil, err
	}
	return fetch[tiering.SessionExport](ctx, s.c, r)
}

// Import makes a session from an export.
func (s sessions) Import(ctx context.Context, e *tiering.SessionExport) (*tiering.Session, error) {
	r := newCall("import session", http.MethodPost, "/v1/sessions/import", "", "")
	if e == nil {
		e = &tiering.SessionExport{}
	}
	if err := r.json(e); err != nil {
		return nil, err
	}
	r.write = true // in several commits: it is not sent again by itself
	ans, err := s.c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := new(tiering.Session)
	return out, ans.decode(r, out)
}

// part begins a call on a named part of a session.
func (s sessions) part(op, method, id, kind, name, below string) (*call, error) {
	r, err := s.to(op, method, id, "/"+kind+"/"+escape(name)+below)
	if err == nil {
		if err = tiering.ValidatePartName(name); err != nil {
			err = r.wrap(err)
		}
	}
	return r, err
}

// Checkpoint names the state and the log as they stand.
func (s sessions) Checkpoint(ctx context.Context, id, name string, o *tiering.SessionWrite) (*tiering.Checkpoint, error) {
	r, err := s.part("checkpoint", http.MethodPost, id, "checkpoints", name, "")
	if err != nil {
		return nil, err
	}
	return put[tiering.Checkpoint](ctx, s, r, nil, r.guard(o))
}

// Checkpoints lists the checkpoints of a session.
func (s sessions) Checkpoints(ctx context.Context, id string) ([]tiering.Checkpoint, error) {
	return listed[tiering.Checkpoint](ctx, s, id, "checkpoints")
}

func listed[T any](ctx context.Context, s sessions, id, what string) ([]T, error) {
	r, err := s.to(what, http.MethodGet, id, "/"+what)
	if err != nil {
		return nil, err
	}
	out, err := fetch[struct {
		Items []T `json:"items"`
	}](ctx, s.c, r)
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// Resume commits the state of a checkpoint again.
func (s sessions) Resume(ctx context.Context, id, name string, o *tiering.SessionWrite) (*tiering.Session, error) {
	r, err := s.part("resume", http.MethodPost, id, "checkpoints", name, "/resume")
	if err != nil {
		return nil, err
	}
	return put[tiering.Session](ctx, s, r, nil, r.guard(o))
}

// Branch makes a new session from a checkpoint.
func (s sessions) Branch(ctx context.Context, id, name string, n *tiering.NewSession) (*tiering.Session, error) {
	r, err := s.part("branch", http.MethodPost, id, "checkpoints", name, "/branch")
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = &tiering.NewSession{}
	}
	if err := r.json(n); err != nil {
		return nil, err
	}
	r.write, r.idem = true, n.IdempotencyKey
	ans, err := s.c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := new(tiering.Session)
	return out, ans.decode(r, out)
}

// Step claims a run-once step, or completes it.
func (s sessions) Step(ctx context.Context, id, name string, q *tiering.StepRequest, o *tiering.SessionWrite) (*tiering.Step, error) {
	r, err := s.part("step", http.MethodPost, id, "steps", name, "")
	if err != nil {
		return nil, err
	}
	if q == nil {
		q = &tiering.StepRequest{}
	}
	return put[tiering.Step](ctx, s, r, q, r.guard(o))
}

// Steps lists the steps of a session.
func (s sessions) Steps(ctx context.Context, id string) ([]tiering.Step, error) {
	return listed[tiering.Step](ctx, s, id, "steps")
}

// AcquireLease takes or renews the session's lease.
func (s sessions) AcquireLease(ctx context.Context, id string, q *tiering.LeaseRequest) (*tiering.SessionLease, error) {
	r, err := s.to("acquire lease", http.MethodPost, id, "/lease")
	if err != nil {
		return nil, err
	}
	if err := r.json(q); err != nil {
		return nil, err
	}
	ans, err := s.c.do(ctx, r) // again is a renewal by the same holder
	if err != nil {
		return nil, err
	}
	out := new(tiering.SessionLease)
	return out, ans.decode(r, out)
}

// ReleaseLease gives it up.
func (s sessions) ReleaseLease(ctx context.Context, id string, token int64) error {
	r, err := s.to("release lease", http.MethodDelete, id, "/lease")
	if err != nil {
		return err
	}
	r.set("token", strconv.FormatInt(token, 10))
	_, err = s.c.do(ctx, r)
	return err
}
