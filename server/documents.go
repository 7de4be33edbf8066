package server

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

const statePath = "/v1/state/{ns}/{id...}"

func documentOperations() []*operation {
	return []*operation{
		{
			id: "putDocument", method: http.MethodPut, path: statePath, tag: "documents",
			summary: "Store a document",
			about:   "Stores the body, any JSON value, as the next version. Key order and the text of numbers are kept. Without ttl a document that stands keeps its expiry.",
			query:   []param{ttlParam, {name: "user", about: "Owner of the key, fixed when it is created.", schema: str(), example: "ada"}},
			headers: writeHeaders,
			body:    &body{about: "Any JSON value.", media: []media{{"application/json", anyJSON(), exampleDocument}}},
			answers: []answer{
				{http.StatusOK, "Replaced.", receiptHeaders, jsonOf("Receipt", exampleReceipt)},
				{http.StatusCreated, "Created: nothing stood under the key.", receiptHeaders, jsonOf("Receipt", exampleReceipt)},
			},
			codes: writeCodes,
			run:   (*call).putDocument,
		},
		{
			id: "getDocument", method: http.MethodGet, path: statePath, tag: "documents",
			summary: "Read a document",
			about: "Answers exactly the bytes that were stored, compacted. A default is marked with Tierd-Default and has no ETag. " +
				"Where a read slides the expiry, Tierd-Expires-At is the one from before the slide.",
			query:   readParams,
			headers: readHeaders,
			answers: []answer{
				{http.StatusOK, "The document, or the part that pointer names.", documentHeaders, &media{"application/json", anyJSON(), exampleDocument}},
				{http.StatusNotModified, "The version that If-None-Match names still stands.", documentHeaders, nil},
			},
			codes: readCodes,
			run:   (*call).getDocument,
		},
		{
			id: "headDocument", method: http.MethodHead, path: statePath, tag: "documents",
			summary: "Read a document's headers",
			about:   "As a get without the bytes. Cold bytes are not read for it.",
			query:   readParams,
			headers: readHeaders,
			answers: []answer{
				{http.StatusOK, "It is there.", documentHeaders, nil},
				{http.StatusNotModified, "The version that If-None-Match names still stands.", documentHeaders, nil},
			},
			codes: readCodes,
			run:   (*call).headDocument,
		},
		{
			id: "patchDocument", method: http.MethodPatch, path: statePath, tag: "documents",
			summary: "Change parts of a document",
			about: "The Content-Type says how: a merge patch (RFC 7396; an absent document starts from {}) or a JSON patch (RFC 6902; 404 when absent). " +
				"application/json is refused, because it does not say which. A JSON patch with test, copy or move needs a key that may read, as these tell what stands.",
			query:   []param{ttlParam},
			headers: writeHeaders,
			body: &body{about: "The patch.", media: []media{
				{string(tiering.MergePatch), anyJSON(), map[string]any{"status": "done", "draft": nil}},
				{string(tiering.JSONPatch), ref("JSONPatch"), []any{map[string]any{"op": "replace", "path": "/status", "value": "done"}}},
			}},
			answers: []answer{
				{http.StatusOK, "Changed.", receiptHeaders, jsonOf("Receipt", exampleReceipt)},
				{http.StatusCreated, "Created: nothing stood under the key.", receiptHeaders, jsonOf("Receipt", exampleReceipt)},
			},
			codes: writeCodes,
			run:   (*call).patchDocument,
		},
		{
			id: "deleteDocument", method: http.MethodDelete, path: statePath, tag: "documents",
			summary: "Delete a document",
			about:   "Leaves a tombstone; history stays by the policy. Deleting what is not there succeeds.",
			headers: writeHeaders,
			answers: []answer{{http.StatusNoContent, "Nothing stands under the key. ETag is the tombstone's version.", tombstoneHeaders, nil}},
			codes:   writeCodes,
			run:     (*call).deleteDocument,
		},
	}
}

func (c *call) putDocument() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	if kind := c.contentType(); kind == string(tiering.MergePatch) || kind == string(tiering.JSONPatch) {
		return tiering.Invalidf("Content-Type %s on a PUT, which replaces the document: use PATCH", kind)
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	rec, err := c.svc.Put(c.ctx(), c.ns, c.id, b, &tiering.PutOptions{WriteOptions: w, User: c.q.text("user")})
	if err != nil {
		return err
	}
	return c.replyWrite(rec)
}

func (c *call) patchDocument() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	kind := tiering.PatchKind(c.contentType())
	if kind != tiering.MergePatch && kind != tiering.JSONPatch {
		return tiering.Invalidf("Content-Type %q of a patch: want %s or %s", kind, tiering.MergePatch, tiering.JSONPatch)
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	rec, err := c.svc.Patch(c.ctx(), c.ns, c.id, kind, b, &w)
	if err != nil {
		return err
	}
	return c.replyWrite(rec)
}

func (c *call) deleteDocument() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	rec, err := c.svc.Delete(c.ctx(), c.ns, c.id, &w)
	if err != nil {
		return err
	}
	c.metaHeaders(&rec.Meta)
	c.receiptHeaders(rec)
	c.w.Header().Set("Tierd-Hot", strconv.FormatBool(rec.Hot)) // there is no body to say it
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// contentType returns the media type of the body without its parameters.
func (c *call) contentType() string {
	v := c.r.Header.Get("Content-Type")
	if v == "application/json" {
		return v // as nearly all say; parsing allocates
	}
	kind, _, err := mime.ParseMediaType(v)
	if err != nil {
		return strings.TrimSpace(v)
	}
	return kind
}

// getOptions reads what a read asks for.
func (c *call) getOptions() (*tiering.GetOptions, error) {
	q := &c.q
	if q.values == nil {
		return nil, nil
	}
	o := &tiering.GetOptions{
		Version: q.version("version"), AsOf: q.instant("as_of"), Pointer: q.text("pointer"),
		Strong:     q.choice("consistency", "strong", "cached") == "strong",
		MinVersion: q.count("min_version"), Default: q.json("default"), NoDefault: q.flag("no_default"),
	}
	if q.has("version") && q.has("as_of") {
		q.failf("version and as_of together: give one")
	}
	if q.has("default") && o.NoDefault {
		q.failf("default and no_default together: give one")
	}
	if o.Pointer != "" && o.Pointer[0] != '/' {
		q.failf("pointer=%s: a JSON Pointer starts with /", o.Pointer)
	}
	return o, q.err
}

func (c *call) getDocument() error {
	o, err := c.getOptions()
	if err != nil {
		return err
	}
	pre, err := readPreconditions(c.r.Header)
	if err != nil {
		return err
	}
	doc, err := c.svc.Get(c.ctx(), c.ns, c.id, o)
	if err != nil {
		return err
	}
	if err := pre.holds(doc.Version); err != nil {
		return err
	}
	c.metaHeaders(&doc.Meta)
	if doc.Tier != "" {
		c.header("Tierd-Tier", string(doc.Tier))
	}
	if doc.Stale {
		c.header("Tierd-Stale", "true")
	}
	if doc.Default != "" {
		c.header("Tierd-Default", doc.Default)
	}
	if c.notModified(pre, doc.Version) {
		return nil
	}
	c.send(http.StatusOK, "application/json", doc.Body)
	return nil
}

func (c *call) headDocument() error {
	o, err := c.getOptions()
	if err != nil {
		return err
	}
	pre, err := readPreconditions(c.r.Header)
	if err != nil {
		return err
	}
	meta, err := c.svc.Head(c.ctx(), c.ns, c.id, o)
	if err != nil {
		return err
	}
	if err := pre.holds(meta.Version); err != nil {
		return err
	}
	c.metaHeaders(meta)
	if c.notModified(pre, meta.Version) {
		return nil
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	switch {
	case meta.Version == 0:
		h.Set("Tierd-Default", "absent")
	case o == nil || o.Pointer == "": // the size of a part is not known without its bytes
		h.Set("Content-Length", strconv.FormatInt(meta.Size, 10))
	}
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// preconditions are the conditional headers of a read.
type preconditions struct{ match, none tagList }

func readPreconditions(h http.Header) (p preconditions, err error) {
	if p.match, err = readTags(h, "If-Match"); err != nil {
		return p, err
	}
	p.none, err = readTags(h, "If-None-Match")
	return p, err
}

// holds judges If-Match, which comes before If-None-Match (RFC 9110, section
// 13.2.2), against the version found.
func (p preconditions) holds(version int64) error {
	if p.match.given && (version == 0 || !p.match.matches(version)) {
		return &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: version,
			Detail: "the version that stands is not one that If-Match names"}
	}
	return nil
}

// notModified answers 304 when If-None-Match names the version found.
func (c *call) notModified(p preconditions, version int64) bool {
	if version == 0 || !p.none.given || !p.none.matches(version) {
		return false
	}
	c.w.Header().Set("Cache-Control", "no-cache")
	c.w.WriteHeader(http.StatusNotModified)
	return true
}
