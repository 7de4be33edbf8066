package server

import (
	"errors"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// nodeOperations are the node's own pages, which hold no documents.
func (s *Server) nodeOperations() []*operation {
	ops := []*operation{
		{
			id: "getStatus", method: http.MethodGet, path: "/v1/status", tag: "node",
			summary: "Read the node's state", about: "Tiers, lags, counts and moves that were parked.",
			answers: []answer{{http.StatusOK, "The state.", nil, jsonOf("NodeStatus", exampleStatus)}},
			run: func(c *call) error {
				st, err := c.svc.Status(c.ctx())
				if err != nil {
					return err
				}
				return c.reply(http.StatusOK, st)
			},
		},
		{
			id: "getHealth", method: http.MethodGet, path: "/healthz", tag: "node", access: open,
			summary: "Is the process alive", about: "Answers as long as the process serves at all.",
			answers: []answer{{http.StatusOK, "Alive.", nil, jsonOf("Health", map[string]any{"status": "ok"})}},
			run:     func(c *call) error { return c.reply(http.StatusOK, map[string]string{"status": "ok"}) },
		},
		{
			id: "getReadiness", method: http.MethodGet, path: "/readyz", tag: "node", access: open,
			summary: "Can the node serve", about: "503 with Retry-After while the warm tier cannot be reached or cannot commit, as with a full disk, or the node starts or stops; the detail says why.",
			answers: []answer{{http.StatusOK, "Ready.", nil, jsonOf("Health", map[string]any{"status": "ready"})}},
			run:     (*call).readiness,
		},
		{
			id: "getOpenAPI", method: http.MethodGet, path: "/openapi.json", tag: "node", access: open,
			summary: "Read this description", about: "The OpenAPI 3.1 document of this API.",
			answers: []answer{{http.StatusOK, "The document.", nil, &media{"application/json", object(""), nil}}},
			run: func(c *call) error {
				c.send(http.StatusOK, "application/json", c.s.openapi)
				return nil
			},
		},
		{
			id: "getDocs", method: http.MethodGet, path: "/docs", tag: "node", access: open,
			summary: "Read this description as a page", about: "Needs no network beyond this server.",
			answers: []answer{{http.StatusOK, "The page.", nil, &media{"text/html", str(), nil}}},
			run:     (*call).docsPage,
		},
		{
			id: "getDocsScript", method: http.MethodGet, path: docsScript, tag: "node", access: open,
			summary: "Read the page's script", about: "Redoc, which draws the page.",
			answers: []answer{{http.StatusOK, "The script.", nil, &media{"text/javascript", str(), nil}}},
			run:     (*call).docsScript,
		},
	}
	if s.opts.Metrics != nil {
		ops = append(ops, &operation{
			id: "getMetrics", method: http.MethodGet, path: "/metrics", tag: "node", access: metered,
			summary: "Read the metrics", about: "In the Prometheus text format. Takes a key with the verb metrics or admin, where there are keys and metrics are not open.",
			answers: []answer{{http.StatusOK, "The metrics.", nil, &media{"text/plain", str(), nil}}},
			run: func(c *call) error {
				c.s.opts.Metrics.ServeHTTP(c.w, c.r)
				return nil
			},
		})
	}
	return ops
}

// unready is one answer whatever the reason: what balances load by this page
// understands a 503. The reason is in the detail.
func unready(err error) error {
	var e *tiering.Error
	if !errors.As(tiering.Wrap(err, "ready", "", tiering.Key{}), &e) {
		return nil
	}
	out := &tiering.Error{Op: e.Op, Tier: e.Tier, Code: tiering.CodeUnavailable, Detail: e.Detail, RetryAfter: e.RetryAfter, Err: err}
	if e.Code != tiering.CodeUnavailable {
		out.Detail = string(e.Code) + ": " + e.Detail
	}
	return out
}

func (c *call) readiness() error {
	select {
	case <-c.s.stopping:
		return tiering.Errorf(tiering.CodeUnavailable, "the server is stopping")
	default:
	}
	if c.s.opts.Ready != nil {
		if err := c.s.opts.Ready(c.ctx()); err != nil {
			return unready(err)
		}
	}
	return c.reply(http.StatusOK, map[string]string{"status": "ready"})
}
