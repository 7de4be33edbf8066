package server

import (
	"net/http"

	"github.com/tierd/tierd/tiering"
)

func listOperations() []*operation {
	return []*operation{
		{
			id: "listDocuments", method: http.MethodGet, path: "/v1/state/{ns}", tag: "documents",
			summary: "List documents",
			about:   "Answers live documents in the order of their ids, without bodies unless asked. Bodies that lie in cold are left out and marked.",
			query: []param{
				{name: "prefix", about: "Beginning of the ids, as bytes: no pattern.", schema: str(), example: "users/"},
				{name: "user", about: "Only this owner's.", schema: str(), example: "ada"},
				limitParam, cursorParam,
				{name: "include", about: "data: with bodies.", schema: enum("data"), example: "data"},
			},
			answers: []answer{{http.StatusOK, "A page.", nil, jsonOf("Page", examplePage)}},
			run:     (*call).listDocuments,
		},
		{
			id: "queryDocuments", method: http.MethodPost, path: "/v1/query/{ns}", tag: "documents",
			reads:   true,
			summary: "Find documents by their content",
			about: "Fields of the filter are JSON Pointers; a bare name is a field at the top. Operators: $eq $ne $gt $gte $lt $lte $in $exists $contains $text $and $or $not; " +
				"a bare value is $eq. Numbers compare exactly. An unknown operator is refused.",
			body: &body{about: "The filter and the order.", component: "Query", media: []media{{"application/json", ref("Query"),
				map[string]any{"filter": map[string]any{"/user/age": map[string]any{"$gte": 18}}, "order_by": "-/score", "limit": 20}}}},
			answers: []answer{{http.StatusOK, "A page, with bodies.", nil, jsonOf("Page", examplePage)}},
			codes:   []tiering.Code{tiering.CodeWrongKind},
			run:     (*call).queryDocuments,
		},
	}
}

func (c *call) listDocuments() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	o := &tiering.ListOptions{
		Prefix: c.q.text("prefix"), User: c.q.text("user"), Limit: c.q.limit(), Cursor: c.q.text("cursor"),
		Data: c.q.words("include", "data")["data"],
	}
	if c.q.err != nil {
		return c.q.err
	}
	page, err := c.svc.List(c.ctx(), c.ns, o)
	return c.replyPage(page, err)
}

func (c *call) queryDocuments() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	var q tiering.Query
	if err := c.decode(&q); err != nil {
		return err
	}
	page, err := c.svc.Query(c.ctx(), c.ns, &q)
	return c.replyPage(page, err)
}

func (c *call) replyPage(page *tiering.Page, err error) error {
	if err != nil {
		return err
	}
	const itemRoom = 320 // bytes of most items without bodies
	c.send(http.StatusOK, "application/json", appendPage(make([]byte, 0, 64+itemRoom*len(page.Items)), page))
	return nil
}
