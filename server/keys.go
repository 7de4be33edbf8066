package server

import (
	"net/http"
	"time"

	"github.com/tierd/tierd/tiering"
)

func keyOperations() []*operation {
	return []*operation{
		{
			id: "createKey", method: http.MethodPost, path: "/v1/keys", tag: "keys",
			instead: "a key's secret is not kept, so that no key of it could answer with it again: revoke the one whose answer was lost",
			summary: "Create an API key",
			about:   "The answer holds the secret, which is shown here and nowhere else. A limit that a scope leaves out limits nothing; sessions need tierd.sessions among the namespaces. Who may make keys may make one without limits: a key with the verb admin holds everything of its tenant. No Idempotency-Key is taken (400): the secret is not kept.",
			body: &body{about: "The key's name and limits.", component: "KeyRequest", media: []media{{"application/json", ref("KeyRequest"),
				map[string]any{"name": "planner", "scope": map[string]any{"verbs": []any{"read", "write"}, "namespaces": []any{"runs"}}}}}},
			answers: []answer{{http.StatusCreated, "The key with its secret.", nil, jsonOf("APIKey", exampleKey)}},
			run:     (*call).createKey,
		},
		{
			id: "listKeys", method: http.MethodGet, path: "/v1/keys", tag: "keys",
			summary: "List API keys", about: "Without their secrets.",
			answers: []answer{{http.StatusOK, "The tenant's keys.", nil, jsonOf("KeyList", map[string]any{"items": []any{exampleKey}})}},
			run:     (*call).listKeys,
		},
		{
			id: "revokeKey", method: http.MethodDelete, path: "/v1/keys/{id}", tag: "keys",
			instead: "a key that is revoked already is not found, and may be revoked again",
			summary: "Revoke an API key", about: "It stops working at once, and stays revoked after a rebuild.",
			answers: []answer{{http.StatusNoContent, "Revoked.", nil, nil}},
			codes:   []tiering.Code{tiering.CodeNotFound},
			run:     (*call).revokeKey,
		},
	}
}

func (c *call) createKey() error {
	var req struct {
		Name      string        `json:"name"`
		Scope     tiering.Scope `json:"scope"`
		ExpiresAt time.Time     `json:"expires_at"`
	}
	if err := c.decode(&req); err != nil {
		return err
	}
	key, err := c.svc.CreateKey(c.ctx(), tiering.APIKey{Name: req.Name, Scope: req.Scope, ExpiresAt: req.ExpiresAt})
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store") // it holds a secret
	return c.reply(http.StatusCreated, key)
}

func (c *call) listKeys() error {
	all, err := c.svc.APIKeys(c.ctx())
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Secret = "" // whatever the service kept, a list never shows it
	}
	return c.replyItems(all, len(all) == 0)
}

func (c *call) revokeKey() error {
	if err := c.svc.RevokeKey(c.ctx(), c.id); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
