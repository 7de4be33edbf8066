package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

var exampleConsumer = map[string]any{"name": "mailer", "namespace": "runs", "position": "01JF.4711.0", "behind": 3,
	"created_at": "2026-01-31T12:00:00Z", "acknowledged_at": "2026-01-31T12:30:00Z"}

func consumerOperations() []*operation {
	one := func(about string) []answer {
		return []answer{{http.StatusOK, about, nil, jsonOf("Consumer", exampleConsumer)}}
	}
	return []*operation{
		{
			id: "listConsumers", method: http.MethodGet, path: "/v1/consumers", tag: "watch", summary: "List named consumers",
			about:   "Those that the API key may see: of keys of its own limits, or all of the tenant's where it has none.",
			answers: []answer{{http.StatusOK, "By name.", nil, jsonOf("ConsumerList", map[string]any{"items": []any{exampleConsumer}})}},
			run:     (*call).listConsumers,
		},
		{
			id: "getConsumer", method: http.MethodGet, path: "/v1/consumers/{name}", tag: "watch", summary: "Read a named consumer",
			about: "What it watches, and how far it has come.", answers: one("The consumer."),
			codes: []tiering.Code{tiering.CodeNotFound}, run: (*call).getConsumer,
		},
		{
			id: "acknowledge", method: http.MethodPost, path: "/v1/consumers/{name}/acknowledge", tag: "watch", summary: "Move a named consumer to an event",
			instead: "a consumer never moves back, so the call may be sent again",
			about:   "Watches of the consumer go on behind that event from then on. It never moves back: an event that it is behind already changes nothing, so the call may be sent again.",
			body:    &body{about: "The event.", component: "Acknowledgement", media: []media{{"application/json", ref("Acknowledgement"), map[string]any{"event": "01JF.4711.0"}}}},
			answers: one("The consumer, where it stands now."),
			codes:   []tiering.Code{tiering.CodeNotFound, tiering.CodeGone}, run: (*call).acknowledge,
		},
		{
			id: "deleteConsumer", method: http.MethodDelete, path: "/v1/consumers/{name}", tag: "watch", summary: "Forget a named consumer",
			instead: "the call may be sent again",
			about:   "The next watch of the name begins anew. Deleting what is not there succeeds.",
			answers: []answer{{http.StatusNoContent, "Forgotten.", nil, nil}}, run: (*call).deleteConsumer,
		},
	}
}

func consumerSchemas(c map[string]*huma.Schema) {
	c["Consumer"] = object("A named place in the feed.", must("name", "Its name, without slashes.", str()),
		may("namespace", "What it watches; absent: all.", str()), may("prefix", "Likewise.", str()), may("id", "Likewise.", str()),
		may("user", "Likewise.", str()), may("session", "Likewise.", str()),
		must("position", "The event that was acknowledged last, or where it began.", str()),
		must("behind", "Transactions, of everybody, that were committed since, those that acknowledge among them: what waits for it is no more. Near 0 while it keeps up and acknowledges heartbeats too.", integer(0)),
		may("gone", "The feed no longer keeps what comes next: delete it, and begin anew.", boolean()),
		must("created_at", "When it was made.", instant()), may("acknowledged_at", "When it moved last; absent: never.", instant()))
	c["ConsumerList"] = object("Named consumers.", must("items", "By name.", list(ref("Consumer"))))
	c["Acknowledgement"] = object("How far a consumer has come.", must("event", "The id of an event, or of a watch's heartbeat.", text(256)))
}

func (c *call) listConsumers() error {
	all, err := c.svc.Consumers(c.ctx())
	if err != nil {
		return err
	}
	return c.replyItems(all, len(all) == 0)
}

func (c *call) getConsumer() error {
	one, err := c.svc.Consumer(c.ctx(), c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, one)
}

func (c *call) acknowledge() error {
	var body struct {
		Event string `json:"event"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	one, err := c.svc.Acknowledge(c.ctx(), c.r.PathValue("name"), body.Event)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, one)
}

func (c *call) deleteConsumer() error {
	if err := c.svc.DeleteConsumer(c.ctx(), c.r.PathValue("name")); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
