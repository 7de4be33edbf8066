package server

import (
	"net/http"

	"github.com/tierd/tierd/tiering"
)

const namespacePath = "/v1/namespaces/{ns}"

func namespaceOperations() []*operation {
	guarded := []param{ifMatchHeader, ifNoneMatchHeader, idempotencyHeader}
	one := func(status int, about string) []answer {
		return []answer{{status, about, []string{"ETag"}, jsonOf("NamespaceInfo", exampleNamespace)}}
	}
	policyCodes := []tiering.Code{tiering.CodeNotFound, tiering.CodeVersionConflict, tiering.CodeWrongKind, tiering.CodeIdempotencyMismatch,
		tiering.CodeIdempotencyInFlight, tiering.CodeOutOfSpace}
	return []*operation{
		{
			id: "listNamespaces", method: http.MethodGet, path: "/v1/namespaces", tag: "namespaces",
			summary: "List namespaces", about: "Each with its policy as it is in force.",
			answers: []answer{{http.StatusOK, "The namespaces.", nil, jsonOf("NamespaceList", map[string]any{"items": []any{exampleNamespace}})}},
			run:     (*call).listNamespaces,
		},
		{
			id: "getNamespace", method: http.MethodGet, path: namespacePath, tag: "namespaces",
			summary: "Read a namespace's policy", about: "The policy with its defaults filled in.",
			answers: one(http.StatusOK, "The namespace."), codes: []tiering.Code{tiering.CodeNotFound},
			run: (*call).getNamespace,
		},
		{
			id: "putNamespace", method: http.MethodPut, path: namespacePath, tag: "namespaces",
			summary: "Create or replace a policy", about: "What the body leaves unsaid takes its default. Kind and class are fixed once keys exist.",
			headers: guarded,
			body: &body{about: "The policy.", component: "Policy", media: []media{{"application/json", ref("Policy"),
				map[string]any{"class": "session", "ttl": "2h"}}}},
			answers: one(http.StatusOK, "The namespace as it is now."), codes: policyCodes,
			run: (*call).putNamespace,
		},
		{
			id: "patchNamespace", method: http.MethodPatch, path: namespacePath, tag: "namespaces",
			summary: "Change parts of a policy", about: "A merge patch (RFC 7396): null sets a field back to its default.",
			headers: guarded,
			body: &body{about: "The merge patch.", component: "PolicyPatch", media: []media{{string(tiering.MergePatch), ref("PolicyPatch"),
				map[string]any{"demote_after": "7d", "schema": nil}}}},
			answers: one(http.StatusOK, "The namespace as it is now."), codes: policyCodes,
			run: (*call).patchNamespace,
		},
		{
			id: "deleteNamespace", method: http.MethodDelete, path: namespacePath, tag: "namespaces",
			summary: "Delete an empty namespace", about: "Its name and class stay taken.",
			headers: guarded,
			answers: []answer{{http.StatusNoContent, "Deleted.", nil, nil}}, codes: policyCodes,
			run: (*call).deleteNamespace,
		},
	}
}

func (c *call) listNamespaces() error {
	all, err := c.svc.Namespaces(c.ctx())
	if err != nil {
		return err
	}
	return c.replyItems(all, len(all) == 0)
}

// replyItems answers a whole list in the form of a page.
func (c *call) replyItems(items any, empty bool) error {
	if empty {
		items = []any{} // never null
	}
	return c.reply(http.StatusOK, map[string]any{"items": items})
}

func (c *call) replyNamespace(info *tiering.NamespaceInfo, err error) error {
	if err != nil {
		return err
	}
	if info.Version > 0 {
		c.w.Header().Set("ETag", etag(info.Version))
	}
	return c.reply(http.StatusOK, info)
}

func (c *call) getNamespace() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	info, err := c.svc.Namespace(c.ctx(), c.ns)
	return c.replyNamespace(info, err)
}

func (c *call) putNamespace() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	var p tiering.Policy
	if err := c.decode(&p); err != nil {
		return err
	}
	info, err := c.svc.SetNamespace(c.ctx(), c.ns, p, &w)
	return c.replyNamespace(info, err)
}

func (c *call) patchNamespace() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	if kind := c.contentType(); kind != string(tiering.MergePatch) {
		return tiering.Invalidf("Content-Type %q of a policy's patch: want %s", kind, tiering.MergePatch)
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := c.s.bodies[c.op.body.component].check(b); err != nil {
		return err
	}
	info, err := c.svc.PatchNamespace(c.ctx(), c.ns, b, &w)
	return c.replyNamespace(info, err)
}

func (c *call) deleteNamespace() error {
	if err := tiering.ValidateNamespace(c.ns); err != nil {
		return err
	}
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	if err := c.svc.DeleteNamespace(c.ctx(), c.ns, &w); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
