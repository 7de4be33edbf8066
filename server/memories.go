package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

const memoryPath = "/v1/memories/{ns}/{id...}"

func memoryOperations() []*operation {
	return []*operation{
		{
			id: "remember", method: http.MethodPost, path: "/v1/memories/{ns}", tag: "memories",
			instead: "a memory that stands is changed under guards by PATCH /v1/memories/{ns}/{id}",
			summary: "Remember",
			about: "Stores one memory, or a list of up to 1000, each on its own. The first one makes the namespace, of kind memory. " +
				"A memory is a document: it has versions, a history and a policy, and is archived like any other. Its words can be found at once.",
			query: []param{
				{name: "dedupe", about: "true: where the same user's memory with the same text stands and holds, answer that one.", schema: boolean(), example: true},
				{name: "wait", about: "indexed: answer when the vector is in the index too, or after half a minute; index_status says which.", schema: enum("indexed"), example: "indexed"},
			},
			headers: []param{idempotencyHeader},
			body: &body{about: "A memory, or a list of them.", component: "NewMemory", media: []media{{"application/json",
				&huma.Schema{OneOf: []*huma.Schema{ref("NewMemory"), list(ref("NewMemory"))}}, exampleNewMemory}}},
			answers: []answer{
				{http.StatusOK, "Of one memory: replaced, or a duplicate. Of a list: one result per memory.", receiptHeaders,
					&media{"application/json", &huma.Schema{OneOf: []*huma.Schema{ref("Remembered"), ref("RememberedList")}}, exampleRemembered}},
				{http.StatusCreated, "Of one memory: created.", receiptHeaders, jsonOf("Remembered", exampleRemembered)},
			},
			codes: writeCodes,
			run:   (*call).remember,
		},
		{
			id: "listMemories", method: http.MethodGet, path: "/v1/memories/{ns}", tag: "memories",
			summary: "List memories",
			about:   "Answers live memories in the order of their ids.",
			query: []param{
				{name: "user", about: "Only this owner's.", schema: str(), example: "ada"},
				{name: "agent", about: "Only this agent's.", schema: str(), example: "planner"},
				{name: "app", about: "Only this application's.", schema: str(), example: "travel"},
				{name: "session", about: "Only of this session.", schema: str(), example: "s-17"},
				{name: "type", about: "Only these types, separated by commas.", schema: str(), example: "fact,event"},
				limitParam, cursorParam,
			},
			answers: []answer{{http.StatusOK, "A page.", nil, jsonOf("MemoryPage", map[string]any{"memories": []any{exampleMemory}})}},
			codes:   []tiering.Code{tiering.CodeWrongKind},
			faults:  true,
			run:     (*call).listMemories,
		},
		{
			id: "getMemory", method: http.MethodGet, path: memoryPath, tag: "memories",
			summary: "Read a memory", about: "Its history, rollback and the like are the document's, under /v1/state, /v1/versions and /v1/rollback.",
			answers: []answer{{http.StatusOK, "The memory.", []string{"ETag"}, jsonOf("Memory", exampleMemory)}},
			codes:   readCodes,
			run:     (*call).getMemory,
		},
		{
			id: "patchMemory", method: http.MethodPatch, path: memoryPath, tag: "memories",
			summary: "Change a memory", about: "A merge patch. The memory stays findable at every moment.",
			headers: writeHeaders,
			body: &body{about: "The merge patch.", component: "MemoryPatch", media: []media{
				{string(tiering.MergePatch), ref("MemoryPatch"), map[string]any{"importance": 0.9}},
				{"application/json", ref("MemoryPatch"), map[string]any{"superseded_by": "01jf8"}}}},
			answers: []answer{{http.StatusOK, "Changed.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     (*call).patchMemory,
		},
		{
			id: "forgetMemory", method: http.MethodDelete, path: memoryPath, tag: "memories",
			summary: "Forget a memory", about: "Recall finds it no more from now on. Its history stays by the policy; /v1/erase takes that too.",
			headers: writeHeaders,
			answers: []answer{{http.StatusNoContent, "Nothing stands under the id.", tombstoneHeaders, nil}},
			codes:   writeCodes,
			run:     (*call).forgetMemory,
		},
		{
			id: "useMemory", method: http.MethodPost, path: "/v1/used/{ns}/{id...}", tag: "memories",
			summary: "Confirm that a memory was of use", about: "Its age begins anew, and what is used often ranks a little higher. To be recalled alone does neither.",
			headers: writeHeaders, body: emptyBody(),
			answers: []answer{{http.StatusOK, "Counted.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     (*call).useMemory,
		},
		{
			id: "recall", method: http.MethodPost, path: "/v1/recall", tag: "memories",
			reads:   true,
			summary: "Recall memories",
			about: "By meaning and by words, joined by reciprocal rank, then a little by recency, importance and use. Answers k memories whenever k fit. " +
				"partial says that an arm could not take part.",
			body: &body{about: "What to recall.", component: "RecallRequest", media: []media{{"application/json", ref("RecallRequest"),
				map[string]any{"namespaces": []any{"people"}, "user": "ada", "query": "where does she like to sit?", "k": 5}}}},
			answers: []answer{{http.StatusOK, "The matches.", nil, jsonOf("Recalled", map[string]any{"matches": []any{exampleMatch}})}},
			codes:   []tiering.Code{tiering.CodeWrongKind, tiering.CodeUnsupported},
			run:     (*call).recall,
		},
		{
			id: "linkMemories", method: http.MethodPut, path: "/v1/links/{ns}", tag: "memories",
			instead: "a link that is there stays, so the call may be sent again",
			summary: "Link a memory to another", about: "The link is part of the memory it begins at, with its history.",
			body:    linkBody(),
			answers: []answer{{http.StatusOK, "It is there.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     func(c *call) error { return c.changeLink(c.svc.Link) },
		},
		{
			id: "unlinkMemories", method: http.MethodDelete, path: "/v1/links/{ns}", tag: "memories",
			instead: "a link that is not there stays so: the call may be sent again",
			summary: "Remove a link", about: "Removing what is not there succeeds.",
			body:    linkBody(),
			answers: []answer{{http.StatusOK, "It is not there.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     func(c *call) error { return c.changeLink(c.svc.Unlink) },
		},
		{
			id: "walkMemories", method: http.MethodGet, path: "/v1/graph/{ns}/{id...}", tag: "memories",
			summary: "Walk along links", about: "From one memory to those it leads to, nearest first. Cycles end.",
			query: []param{
				{name: "depth", about: "How many links far, 1 to 10; default 2.", schema: integer(1), example: 2},
				{name: "relation", about: "Only links that say this.", schema: str(), example: "caused"},
				{name: "limit", about: "How many memories, 1 to 1000; default 100.", schema: limited(), example: 100},
			},
			answers: []answer{{http.StatusOK, "What was reached.", nil, jsonOf("Graph", map[string]any{
				"nodes": []any{with(exampleMemory, map[string]any{"depth": 0})}, "edges": []any{}})}},
			codes: readCodes,
			run:   (*call).walkMemories,
		},
	}
}

// Examples of the documentation.
var (
	exampleNewMemory  = map[string]any{"text": "Ada prefers a window seat", "user": "ada", "metadata": map[string]any{"topic": "travel"}, "importance": 0.6}
	exampleRemembered = with(exampleReceipt, map[string]any{"namespace": "people", "id": "01jf8", "index_status": "indexed"})
	exampleMemory     = with(exampleMeta, map[string]any{"namespace": "people", "id": "01jf8", "text": "Ada prefers a window seat", "type": "fact",
		"user": "ada", "metadata": map[string]any{"topic": "travel"}, "index_status": "indexed"})
	exampleMatch = with(exampleMemory, map[string]any{"tier": "hot", "score": map[string]any{"total": 1.03, "relevance": 1.0, "recency": 0.0,
		"importance": 0.06, "use": 0.0, "vector": 0.41, "vector_rank": 1, "words": 3.2, "words_rank": 1}})
)

func linkBody() *body {
	return &body{about: "The link.", component: "LinkRequest", media: []media{{"application/json", ref("LinkRequest"),
		map[string]any{"from": "01jf8", "relation": "caused", "to": "01jf9"}}}}
}

// newMemory is a memory as it travels, where a ttl may be a number.
type newMemory struct {
	tiering.NewMemory
	TTL ttlText `json:"ttl"`
}

func (m newMemory) told() tiering.NewMemory {
	m.NewMemory.TTL = string(m.TTL)
	return m.NewMemory
}

// memoriesOf reads one memory, or a list of them.
func (c *call) memoriesOf(b []byte) (memories []tiering.NewMemory, many bool, err error) {
	schema := c.s.bodies[c.op.body.component]
	if t := bytes.TrimLeft(b, " \t\r\n"); len(t) == 0 || t[0] != '[' {
		var one newMemory
		if err := schema.decode(b, &one); err != nil {
			return nil, false, err
		}
		return []tiering.NewMemory{one.told()}, false, nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return nil, true, tiering.Invalidf("the body is not valid JSON: %v", err)
	}
	if len(parts) == 0 || len(parts) > tiering.MaxBatchOps {
		return nil, true, tiering.Unprocessablef("", "a list of %d memories: use 1 to %d", len(parts), tiering.MaxBatchOps)
	}
	for i, part := range parts {
		var one newMemory
		if err := schema.decode(part, &one); err != nil {
			return nil, true, tiering.Below(err, fmt.Sprintf("/%d", i))
		}
		memories = append(memories, one.told())
	}
	return memories, true, nil
}

// rememberedResult is the outcome of one memory of a list.
type rememberedResult struct {
	Status int                 `json:"status"`
	Memory *tiering.Remembered `json:"memory,omitempty"`
	Error  *tiering.Problem    `json:"error,omitempty"`
}

func (c *call) remember() error {
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	o := &tiering.RememberOptions{IdempotencyKey: key, Dedupe: c.q.flag("dedupe"), Wait: c.q.choice("wait", "indexed") != ""}
	if c.q.err != nil {
		return c.q.err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	memories, many, err := c.memoriesOf(b)
	if err != nil {
		return err
	}
	ctx := c.ctx()
	if o.Wait { // and leave time for the answer
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.s.opts.WriteTimeout/2)
		defer cancel()
	}
	done, errs, err := c.svc.Remember(ctx, c.ns, memories, o)
	switch {
	case err != nil:
		return err
	case !many && errs[0] != nil:
		return errs[0]
	case !many:
		c.receiptHeaders(&done[0].Receipt)
		return c.reply(writtenStatus(done[0].Receipt), done[0])
	}
	results := make([]rememberedResult, len(done))
	for i := range done {
		if errs[i] != nil {
			p := tiering.ProblemOf(errs[i])
			results[i] = rememberedResult{Status: p.Status, Error: p}
			continue
		}
		results[i] = rememberedResult{Status: writtenStatus(done[i].Receipt), Memory: &done[i]}
	}
	return c.reply(http.StatusOK, map[string]any{"results": results})
}

func writtenStatus(rc tiering.Receipt) int {
	if rc.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (c *call) listMemories() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	o := &tiering.MemoryListOptions{User: c.q.text("user"), Agent: c.q.text("agent"), App: c.q.text("app"), Session: c.q.text("session"),
		Limit: c.q.limit(), Cursor: c.q.text("cursor")}
	if c.q.has("type") {
		for t := range strings.SplitSeq(c.q.text("type"), ",") {
			o.Types = append(o.Types, tiering.MemoryType(t))
		}
	}
	if c.q.err != nil {
		return c.q.err
	}
	page, err := c.svc.ListMemories(c.ctx(), c.ns, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, page)
}

func (c *call) getMemory() error {
	m, err := c.svc.Memory(c.ctx(), c.ns, c.id)
	if err != nil {
		return err
	}
	c.header("Etag", etag(m.Version))
	return c.reply(http.StatusOK, m)
}

func (c *call) patchMemory() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := c.s.bodies[c.op.body.component].check(b); err != nil {
		return err
	}
	rc, err := c.svc.PatchMemory(c.ctx(), c.ns, c.id, b, &w)
	if err != nil {
		return err
	}
	c.receiptHeaders(rc)
	return c.reply(http.StatusOK, rc)
}

func (c *call) forgetMemory() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	rc, err := c.svc.Forget(c.ctx(), c.ns, c.id, &w)
	if err != nil {
		return err
	}
	c.metaHeaders(&rc.Meta)
	c.receiptHeaders(rc)
	c.w.Header().Set("Tierd-Hot", strconv.FormatBool(rc.Hot))
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) useMemory() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	var none struct{}
	if err := c.decode(&none); err != nil {
		return err
	}
	rc, err := c.svc.Used(c.ctx(), c.ns, c.id, &w)
	if err != nil {
		return err
	}
	c.receiptHeaders(rc)
	return c.reply(http.StatusOK, rc)
}

func (c *call) recall() error {
	var q tiering.Recall
	if err := c.decode(&q); err != nil {
		return err
	}
	out, err := c.svc.Recall(c.ctx(), &q)
	if err != nil {
		return err
	}
	if out.Matches == nil {
		out.Matches = []tiering.Match{}
	}
	return c.reply(http.StatusOK, out)
}
