package server

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

const logPath = "/v1/logs/{ns}/{id...}"

// maxEntries bounds the entries of one append.
func maxEntries() *huma.Schema {
	least, most := 1, tiering.MaxAppend
	s := list(anyJSON())
	s.MinItems, s.MaxItems = &least, &most
	return about("One entry, any JSON value but an array; or an array of entries.", &huma.Schema{AnyOf: []*huma.Schema{s, anyJSON()}})
}

func logOperations() []*operation {
	return []*operation{
		{
			id: "appendEntries", method: http.MethodPost, path: logPath, tag: "logs",
			instead: "the last entry that has to stand is expect_seq",
			summary: "Append to a log",
			about: "Adds one entry, or each element of an array as an entry of its own, in one commit and with nothing between them. " +
				"The log, and its namespace, are made when there is none. Reading its head, listing, touch, pin, delete and erase are those of documents.",
			query: []param{
				{name: "expect_seq", about: "The last sequence number that the log must have; 0: it must not exist. Else 412 seq_conflict, whose current_version is the number that stands.", schema: integer(0), example: 7},
				ttlParam, {name: "user", about: "Owner of the log, fixed when it is created.", schema: str(), example: "ada"},
			},
			headers: []param{idempotencyHeader, fenceHeader},
			body:    &body{about: "The entry, or an array of entries.", media: []media{{"application/json", maxEntries(), exampleEntries}}},
			answers: []answer{{http.StatusOK, "Appended.", []string{"Tierd-Expires-At", "Idempotent-Replayed"}, jsonOf("Appended", exampleAppended)}},
			codes: []tiering.Code{tiering.CodeNotFound, tiering.CodeSeqConflict, tiering.CodePreconditionRequired, tiering.CodeWrongKind, tiering.CodeFenced,
				tiering.CodeTooLarge, tiering.CodeIdempotencyMismatch, tiering.CodeIdempotencyInFlight, tiering.CodeOutOfSpace},
			run: (*call).appendEntries,
		},
		{
			id: "readEntries", method: http.MethodGet, path: logPath, tag: "logs",
			summary: "Read a log",
			about: "Answers entries in the order of their sequence numbers, from wherever they lie. A page ends with its limit, or with 8 MiB; more says that there is more: " +
				"go on with after, or before, the last one.",
			query: []param{
				{name: "after", about: "Above this sequence number.", schema: integer(0), example: 120},
				{name: "before", about: "Below this one.", schema: integer(1), example: 240},
				{name: "since", about: "Committed then or later: RFC 3339 or Unix seconds.", schema: str(), example: "2026-01-31T12:00:00Z"},
				{name: "until", about: "Committed before then.", schema: str(), example: "2026-01-31T13:00:00Z"},
				{name: "order", about: "desc: the newest first; with limit alone, the newest of the log.", schema: enum("asc", "desc"), example: "desc"},
				limitParam,
			},
			answers: []answer{{http.StatusOK, "A page of entries.", nil, jsonOf("EntryPage", exampleEntryPage)}},
			codes:   []tiering.Code{tiering.CodeNotFound, tiering.CodeWrongKind, tiering.CodeCorrupt},
			run:     (*call).readEntries,
		},
	}
}

// logSchemas are what answers about logs hold.
func logSchemas(c map[string]*huma.Schema) {
	c["Appended"] = object("The answer to an append.", join(ownProperties(), []property{
		must("first_seq", "The sequence number of its first entry.", integer(1)),
		must("last_seq", "That of its last.", integer(1)),
		must("time", "When it was committed.", instant()),
		may("expires_at", "When the log expires; absent: never.", instant()),
		may("user", "The owner.", str()),
		may("created", "The append made the log.", boolean()),
		may("replayed", "The Idempotency-Key was known: this is the first try's result.", boolean()),
	})...)
	c["Entry"] = object("One entry of a log.",
		must("seq", "Its sequence number: dense while the log lives.", integer(1)),
		must("time", "When it was committed.", instant()),
		must("data", "The entry.", anyJSON()),
		may("tier", "Where its bytes came from.", tierEnum()))
	c["EntryPage"] = object("One page of a log.",
		must("entries", "The entries, in the order asked for.", list(ref("Entry"))),
		must("last_seq", "The last sequence number of the log.", integer(1)),
		may("more", "Entries were left out: go on behind the last one.", boolean()))
}

// Examples of the documentation.
var (
	exampleEntries  = []any{map[string]any{"role": "user", "content": "Is seat 14C free?"}, map[string]any{"role": "assistant", "content": "It is."}}
	exampleAppended = map[string]any{"namespace": "chats", "id": "chat/7", "first_seq": 8, "last_seq": 9, "time": "2026-01-31T12:00:00Z"}
	exampleEntry    = map[string]any{"seq": 8, "time": "2026-01-31T12:00:00Z", "data": map[string]any{"role": "user", "content": "Is seat 14C free?"}, "tier": "warm"}

	exampleEntryPage = map[string]any{"entries": []any{exampleEntry}, "last_seq": 9, "more": true}
)

// entriesOfBody are the elements of an array, or the one value.
func entriesOfBody(b []byte) ([]json.RawMessage, error) {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '[':
			var out []json.RawMessage
			if err := json.Unmarshal(b, &out); err != nil {
				return nil, tiering.Invalidf("the body is not valid JSON: %v", err)
			}
			return out, nil
		}
		break
	}
	return []json.RawMessage{b}, nil
}

func (c *call) appendEntries() error {
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	fence, err := c.fence()
	if err != nil {
		return err
	}
	o := &tiering.AppendOptions{IdempotencyKey: key, Fence: fence, TTL: c.q.ttl("ttl"), User: c.q.text("user")}
	if c.q.has("expect_seq") {
		seq := c.q.count("expect_seq")
		o.ExpectSeq = &seq
	}
	if c.q.err != nil {
		return c.q.err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	entries, err := entriesOfBody(b)
	if err != nil {
		return err
	}
	a, err := c.svc.Append(c.ctx(), c.ns, c.id, entries, o)
	if err != nil {
		return err
	}
	return c.replyAppended(a)
}

func (c *call) replyAppended(a *tiering.Appended) error {
	c.headerTime("Tierd-Expires-At", a.ExpiresAt)
	if a.Replayed {
		c.header("Idempotent-Replayed", "true")
	}
	return c.reply(http.StatusOK, a)
}

// entriesOptions reads what a read of a log asks for.
func (c *call) entriesOptions() (*tiering.EntriesOptions, error) {
	q := &c.q
	o := &tiering.EntriesOptions{
		After: q.count("after"), Before: q.whole("before"), Since: q.instant("since"), Until: q.instant("until"),
		Descending: q.choice("order", "asc", "desc") == "desc", Limit: q.limit(),
	}
	return o, q.err
}

func (c *call) readEntries() error {
	o, err := c.entriesOptions()
	if err != nil {
		return err
	}
	page, err := c.svc.Entries(c.ctx(), c.ns, c.id, o)
	if err != nil {
		return err
	}
	if page.Entries == nil {
		page.Entries = []tiering.Entry{}
	}
	return c.reply(http.StatusOK, page)
}
