package server

import (
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

// Parameters and headers that several operations share. They are read only.
var (
	limitParam  = param{name: "limit", about: "The size of a page, 1 to 1000; default 100.", schema: limited(), example: 50}
	cursorParam = param{name: "cursor", about: "next_cursor of the page before.", schema: str(), example: "eyJpZCI6InJ1bi83In0"}
	ttlParam    = param{name: "ttl", about: "A life from now: whole seconds, or 30m, 12h, 7d; none clears the expiry; absent keeps it.", schema: str(), example: "30m"}

	ifMatchHeader     = param{name: "If-Match", about: "The version that must stand, in quotes or bare; * for any; \"0\" for none.", schema: str(), example: `"3"`}
	ifNoneMatchHeader = param{name: "If-None-Match", about: "*: only when nothing stands.", schema: enum("*"), example: "*"}
	idempotencyHeader = param{name: "Idempotency-Key", about: "1 to 255 printable bytes: the write happens once in 24 hours, for the whole tenant.", schema: text(255), example: "7f3c1a"}

	writeHeaders = []param{ifMatchHeader, ifNoneMatchHeader, idempotencyHeader, fenceHeader}
	readHeaders  = []param{
		{name: "If-None-Match", about: "Entity tags: 304 when one of them stands.", schema: str(), example: `"3"`},
		{name: "If-Match", about: "Entity tags: 412 when none of them stands.", schema: str(), example: `"3"`},
	}
	readParams = []param{
		{name: "version", about: "That version, from wherever it lies.", schema: version(), example: 3},
		{name: "as_of", about: "The version that stood then: RFC 3339 or Unix seconds.", schema: str(), example: "2026-01-31T12:00:00Z"},
		{name: "pointer", about: "A JSON Pointer to the part wanted; one that leads nowhere is 404 and lists the names beside it.", schema: str(), example: "/user/name"},
		{name: "consistency", about: "strong asks warm for the head; cached, the default, lets hot answer.", schema: enum("strong", "cached"), example: "strong"},
		{name: "min_version", about: "The lowest version to accept; 412 when even warm is below it.", schema: integer(0), example: 3},
		{name: "default", about: "A JSON value to answer when nothing is stored, in place of the policy's.", schema: str(), example: `{"step":0}`},
		{name: "no_default", about: "true: 404 when nothing is stored, whatever the policy's default.", schema: boolean(), example: true},
	}

	receiptHeaders  = []string{"ETag", "Location", "Tierd-Expires-At", "Tierd-Warning", "Idempotent-Replayed"}
	metaHeaderNames = []string{"ETag", "Last-Modified", "Tierd-Size", "Tierd-Digest", "Tierd-Created-At", "Tierd-Updated-At", "Tierd-Expires-At",
		"Tierd-User", "Tierd-Pinned"}
	documentHeaders  = append([]string{"Tierd-Tier", "Tierd-Default", "Tierd-Stale"}, metaHeaderNames...)
	tombstoneHeaders = append([]string{"Tierd-Hot", "Idempotent-Replayed"}, metaHeaderNames...)

	readCodes = []tiering.Code{tiering.CodeNotFound, tiering.CodeVersionConflict, tiering.CodeGone, tiering.CodeCorrupt, tiering.CodeWrongKind}

	writeCodes = []tiering.Code{tiering.CodeNotFound, tiering.CodeVersionConflict, tiering.CodePreconditionRequired, tiering.CodeWrongKind,
		tiering.CodeTooLarge, tiering.CodeIdempotencyMismatch, tiering.CodeIdempotencyInFlight, tiering.CodeOutOfSpace, tiering.CodeFenced}
)

// componentHeaders are the headers of answers.
func componentHeaders() map[string]*huma.Header {
	header := func(about string, s *huma.Schema, example any) *huma.Header {
		return &huma.Header{Description: about, Schema: s, Example: example}
	}
	return map[string]*huma.Header{
		"ETag":                header("The version in quotes. A default has none.", str(), `"3"`),
		"Location":            header("Where the created document, or the receipt, is.", str(), "/v1/state/runs/run/7"),
		"Last-Modified":       header("When the version was committed.", str(), "Sat, 31 Jan 2026 12:00:00 GMT"),
		"Tierd-Tier":          header("Where the bytes came from.", enum("hot", "warm", "cold"), "hot"),
		"Tierd-Expires-At":    header("When the document expires; absent: never.", instant(), "2026-01-31T12:30:00Z"),
		"Tierd-Size":          header("Bytes of the whole document.", integer(0), 53),
		"Tierd-Digest":        header("SHA-256 of the whole document.", str(), exampleMeta["digest"]),
		"Tierd-Created-At":    header("When the key was created.", instant(), "2026-01-31T11:00:00Z"),
		"Tierd-Updated-At":    header("When the version was committed, to the nanosecond.", instant(), "2026-01-31T12:00:00Z"),
		"Tierd-User":          header("The owner, percent-encoded.", str(), "ada"),
		"Tierd-Pinned":        header("true: kept from ageing.", enum("true"), "true"),
		"Tierd-Hot":           header("Whether the hot tier took the delete too.", enum("true", "false"), "true"),
		"Tierd-Code":          header("The problem's code, for answers without a body.", str(), "not_found"),
		"Tierd-Default":       header("Why the body is a default.", enum("absent", "deadline"), "absent"),
		"Tierd-Stale":         header("true: the bytes may be old, because warm could not be reached.", enum("true"), "true"),
		"Tierd-Warning":       header("Hints, separated by commas; size: the document nears its limit.", str(), "size"),
		"Idempotent-Replayed": header("true: this is the first try's result.", enum("true"), "true"),
		"Retry-After":         header("Seconds to wait.", integer(0), 1),
		"WWW-Authenticate":    header("How to send a key.", str(), `Bearer realm="tierd"`),
	}
}

func jsonOf(component string, example any) *media {
	return &media{kind: "application/json", schema: ref(component), example: example}
}

// Examples of the documentation; a test validates each against its schema.
var (
	exampleDocument = map[string]any{"status": "running", "step": 3, "user": map[string]any{"name": "Ada"}}
	exampleMeta     = map[string]any{
		"namespace": "runs", "id": "run/7", "version": 3, "size": 53,
		"digest":     "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"created_at": "2026-01-31T11:00:00Z", "updated_at": "2026-01-31T12:00:00Z",
	}
	exampleReceipt = with(exampleMeta, map[string]any{"hot": true})
	exampleEdited  = with(exampleReceipt, map[string]any{"values": []any{4, []any{"started"}}})
	exampleItem    = with(exampleMeta, map[string]any{"data": exampleDocument})
	examplePage    = map[string]any{"items": []any{exampleItem}, "next_cursor": "eyJpZCI6InJ1bi83In0"}
	exampleVersion = map[string]any{"version": 3, "op": "put", "size": 53, "digest": exampleMeta["digest"],
		"created_at": "2026-01-31T12:00:00Z", "tier": "warm"}
	exampleHistory     = map[string]any{"versions": []any{exampleVersion}}
	exampleExplanation = with(exampleMeta, map[string]any{
		"state": "live", "policy": map[string]any{"class": "persistent", "kind": "state", "demote_after": "30d"},
		"copies": []any{map[string]any{"tier": "warm", "state": "present", "version": 3},
			map[string]any{"tier": "cold", "where": "seg/01JF-1.tseg", "copy": "primary", "state": "verified"}},
		"next": map[string]any{"move": "demote", "due": "2026-03-02T12:00:00Z", "blocked": []any{"one verified copy of two"}},
	})
	exampleBatchResult = map[string]any{"results": []any{map[string]any{"status": 201, "receipt": exampleReceipt}}}
	exampleNamespace   = map[string]any{"name": "runs", "version": 2, "kind": "state", "class": "session", "ttl": "2h"}
	exampleKey         = map[string]any{"id": "k_01JF", "name": "planner", "tenant": "acme", "created_at": "2026-01-31T12:00:00Z",
		"scope": map[string]any{"verbs": []any{"read", "write"}, "namespaces": []any{"runs"}}}
	exampleStatus = map[string]any{
		"version": "1.0.0", "epoch": "01JF", "started_at": "2026-01-31T12:00:00Z", "ready": true,
		"tiers":   []any{map[string]any{"tier": "warm", "driver": "sqlite", "ok": true, "bytes": 4096, "items": 12}},
		"feed":    map[string]any{"tail": 4711, "lag": 0},
		"archive": map[string]any{"position": 4700, "behind": 11, "missing_copies": 0},
		"counts":  map[string]any{"documents": 12},
	}
)

// with is a copy of base with more in it.
func with(base, more map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(more))
	maps.Copy(out, base)
	maps.Copy(out, more)
	return out
}
