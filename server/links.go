package server

import (
	"context"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// changeLink adds a link or takes it away.
func (c *call) changeLink(change func(ctx context.Context, ns, from string, l tiering.Link) (*tiering.Receipt, error)) error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	var req struct {
		From string `json:"from"`
		tiering.Link
	}
	if err := c.decode(&req); err != nil {
		return err
	}
	if err := tiering.ValidateID(req.From); err != nil {
		return tiering.Unprocessablef("/from", "from: %s", tiering.DetailOf(err))
	}
	rc, err := change(c.ctx(), c.ns, req.From, req.Link)
	if err != nil {
		return err
	}
	c.receiptHeaders(rc)
	return c.reply(http.StatusOK, rc)
}

func (c *call) walkMemories() error {
	o := &tiering.WalkOptions{Depth: int(c.q.count("depth")), Relation: c.q.text("relation"), Limit: c.q.limit()}
	if c.q.has("depth") && (o.Depth < 1 || o.Depth > tiering.MaxWalkDepth) {
		c.q.failf("depth=%s: want 1 to %d", c.q.text("depth"), tiering.MaxWalkDepth)
	}
	if c.q.err != nil {
		return c.q.err
	}
	g, err := c.svc.Walk(c.ctx(), c.ns, c.id, o)
	if err != nil {
		return err
	}
	if g.Edges == nil {
		g.Edges = []tiering.GraphEdge{}
	}
	return c.reply(http.StatusOK, g)
}
