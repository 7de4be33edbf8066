package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

func embeddingOperations() []*operation {
	status := jsonOf("EmbeddingStatus", exampleEmbedding)
	codes := []tiering.Code{tiering.CodeUnsupported}
	return []*operation{
		{
			id: "getEmbedding", method: http.MethodGet, path: "/v1/embedding", tag: "operations",
			summary: "Say whose vectors are searched", about: "And how far a change of the embedder is.",
			answers: []answer{{http.StatusOK, "The embedders and their vectors.", nil, status}},
			codes:   codes,
			run: func(c *call) error {
				s, err := c.svc.Embedding(c.ctx())
				if err != nil {
					return err
				}
				return c.reply(http.StatusOK, s)
			},
		},
		{
			id: "migrateEmbedding", method: http.MethodPut, path: "/v1/embedding", tag: "operations",
			instead: "the call may be sent again",
			summary: "Change the embedder",
			about: "Its vectors are made in the background. Once every memory has one they are searched, all at once. The ones before stay, so that to go back is the same call; " +
				"to name the embedder that is searched ends a change that is under way.",
			body: &body{about: "The embedder.", component: "EmbeddingRequest", media: []media{{"application/json", ref("EmbeddingRequest"),
				map[string]any{"embedder": "openai+http://127.0.0.1:11434/v1?model=nomic-embed-text"}}}},
			answers: []answer{{http.StatusOK, "The change is under way.", nil, status}},
			codes:   codes,
			run:     (*call).migrateEmbedding,
		},
		{
			id: "dropVectors", method: http.MethodDelete, path: "/v1/embedding", tag: "operations",
			instead: "the call may be sent again",
			summary: "Remove the vectors of a space", about: "One that an embedder made and nobody searches. Callers' own vectors go with their memories.",
			query:   []param{{name: "space", about: "The space, as the status names it.", schema: str(), required: true, example: "static:wordnet:1024:8d2f"}},
			answers: []answer{{http.StatusOK, "Removed.", nil, jsonOf("DroppedVectors", map[string]any{"dropped": 120})}},
			codes:   []tiering.Code{tiering.CodeUnsupported, tiering.CodeNotFound, tiering.CodeWrongKind},
			run:     (*call).dropVectors,
		},
	}
}

var exampleEmbedding = map[string]any{"active": "static:", "configured": "static:", "memories": 120,
	"spaces": []any{map[string]any{"space": "static:wordnet:1024:8d2f", "vectors": 120, "use": "active"}}}

func embeddingSchemas(c map[string]*huma.Schema) {
	c["EmbeddingRequest"] = object("The embedder to change to.",
		must("embedder", "A URL, as the embed setting takes it: static:, openai+https://HOST/v1?model=NAME or none:.", str()))
	c["EmbeddedSpace"] = object("An embedding space with its vectors.",
		must("space", "The space.", str()), must("vectors", "How many memories have one.", integer(0)),
		must("use", "active: searched by text; target: to be; own: of callers; idle: nobody's.", enum("active", "target", "own", "idle")))
	c["EmbeddingStatus"] = object("Whose vectors there are.",
		must("active", "The embedder whose vectors are searched by text.", str()),
		may("target", "The one that is to take its place.", str()),
		must("configured", "What this daemon was started with.", str()),
		may("problem", "Why this daemon cannot embed a query: it recalls by words then.", str()),
		must("memories", "In the index.", integer(0)),
		must("spaces", "Each space.", list(ref("EmbeddedSpace"))))
	c["DroppedVectors"] = object("What was removed.", must("dropped", "Vectors.", integer(0)))
}

func (c *call) migrateEmbedding() error {
	var req struct {
		Embedder string `json:"embedder"`
	}
	if err := c.decode(&req); err != nil {
		return err
	}
	s, err := c.svc.MigrateEmbedding(c.ctx(), req.Embedder)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, s)
}

func (c *call) dropVectors() error {
	if c.q.text("space") == "" {
		return tiering.Invalidf("space is missing: name one of GET /v1/embedding")
	}
	n, err := c.svc.DropVectors(c.ctx(), c.q.text("space"))
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]int64{"dropped": n})
}
