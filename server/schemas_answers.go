package server

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

func tierEnum() *huma.Schema {
	return enum(string(tiering.Hot), string(tiering.Warm), string(tiering.Cold), string(tiering.Vector))
}

func opEnum() *huma.Schema {
	return enum(tiering.OpPut.String(), tiering.OpDelete.String(), tiering.OpExpire.String(),
		tiering.OpTouch.String(), tiering.OpPin.String(), tiering.OpUnpin.String())
}

func digest() *huma.Schema {
	return about("SHA-256 of the compacted bytes.", str())
}

func metaProperties() []property {
	return join(ownProperties(), []property{
		must("version", "The version: strictly increasing for a key, never reused.", integer(0)),
		may("digest", "SHA-256 of the compacted bytes; absent for a delete.", digest()),
		must("size", "Bytes of the compacted JSON.", integer(0)),
		may("created_at", "When the key was created; absent with version 0.", instant()),
		may("updated_at", "When this version was committed; absent with version 0.", instant()),
		may("expires_at", "When it expires; absent: never.", instant()),
		may("user", "The owner.", str()),
		may("pinned", "Whether it is kept from ageing.", boolean()),
	})
}

func receiptProperties() []property {
	return join(metaProperties(), []property{
		must("hot", "Whether the hot tier took the write too.", boolean()),
		may("created", "Nothing stood under the key before.", boolean()),
		may("replayed", "The Idempotency-Key was known: this is the first try's result.", boolean()),
		may("warnings", "Hints such as size: the document nears its limit.", list(str())),
	})
}

// eventTypes are the types of events.
func eventTypes() (out []string) {
	for _, kind := range []tiering.Kind{tiering.KindState, tiering.KindLog, tiering.KindMemory, tiering.KindSession} {
		for _, what := range []string{"put", "appended", "deleted", "expired", "touched", "pinned", "unpinned"} {
			if what == "appended" && kind != tiering.KindLog || what == "put" && kind == tiering.KindLog {
				continue
			}
			out = append(out, string(kind)+"."+what)
		}
	}
	return out
}

// documentSchemas are what answers about documents hold.
func documentSchemas(c map[string]*huma.Schema) {
	cursor := may("next_cursor", "The cursor of the next page; absent on the last.", str())
	c["Receipt"] = object("The answer to a write.", receiptProperties()...)
	c["Edited"] = object("The answer to an edit.", join(receiptProperties(), []property{
		may("values", "The new value under each operation's pointer, in order; null where it was removed. Absent when the API key may not read.", list(anyJSON()))})...)
	c["Document"] = object("One version with its bytes.", join(metaProperties(), []property{
		may("data", "The document.", anyJSON()),
		may("tier", "Where the bytes came from.", tierEnum()),
		may("stale", "The bytes may be old, because warm could not be reached.", boolean()),
		may("default", "Why data is a default: absent or deadline.", enum("absent", "deadline")),
	})...)
	c["Item"] = object("One document of a page.", join(metaProperties(), []property{
		may("data", "The document, when asked for.", anyJSON()),
		may("cold", "Its bytes lie in cold and were left out.", boolean()),
	})...)
	c["Page"] = object("One page of documents.", must("items", "The documents.", list(ref("Item"))), cursor)
	c["VersionInfo"] = object("One version.",
		must("version", "The version.", integer(1)),
		must("op", "What made it.", opEnum()),
		must("size", "Bytes of the compacted JSON.", integer(0)),
		may("digest", "SHA-256 of the compacted bytes; absent for a delete.", digest()),
		must("created_at", "When it was committed.", instant()),
		must("tier", "Where its bytes lie.", tierEnum()))
	c["History"] = object("One page of versions, newest first.", must("versions", "The versions.", list(ref("VersionInfo"))), cursor)
	c["CopyPlace"] = object("One place that holds the current version.",
		must("tier", "The tier.", tierEnum()),
		may("where", "A segment's name, for cold.", str()),
		may("copy", "Which of cold's copies.", enum("primary", "backup")),
		must("state", "How the copy is.", enum("present", "absent", "pending", "verified", "missing", "bad")),
		may("version", "The version held.", integer(0)))
	c["Action"] = object("The next move that is due.",
		must("move", "The move.", enum("stay", "expire", "demote", "retire", "collect")),
		may("due", "When.", instant()),
		may("blocked", "What stands in the way now.", list(str())))
	c["Explanation"] = object("Where a document lies and what happens next.", join(metaProperties(), []property{
		must("state", "Whether it can be read.", enum("live", "expired", "deleted", "absent")),
		may("policy", "The policy in force.", ref("Policy")),
		may("copies", "Where its current version lies.", list(ref("CopyPlace"))),
		may("next", "What happens next.", ref("Action")),
		may("accessed_at", "The last known read or write.", instant()),
		may("locks", "What holds it now.", list(str())),
		may("versions", "Its versions.", list(ref("VersionInfo"))),
	})...)
	c["OpResult"] = object("The outcome of one operation of a batch.",
		must("status", "As the same call alone would answer.", integer(100)),
		may("receipt", "Of a write.", ref("Receipt")),
		may("appended", "Of an append.", ref("Appended")),
		may("document", "Of a get.", ref("Document")),
		may("values", "Of an edit.", list(anyJSON())),
		may("error", "Why it failed.", ref("Problem")))
	c["BatchResult"] = object("The answer to a batch.",
		must("results", "One entry per operation, in order.", list(ref("OpResult"))),
		may("replayed", "The Idempotency-Key was known: this is the first try's result.", boolean()))
	c["Event"] = object("One change, as the data of a server-sent event.", join(
		[]property{must("type", "What happened: what the namespace holds, and appended (log), put, deleted, expired, touched, pinned or unpinned.", enum(eventTypes()...))},
		ownProperties(), []property{
			must("version", "The version that stands now.", integer(0)),
			must("prev_version", "The version before; 0: none.", integer(0)),
			must("time", "When it was committed.", instant()),
			may("user", "The owner.", str()),
			may("data", "The document after the change, when asked for.", anyJSON()),
			may("previous", "The document before the change, when asked for.", anyJSON()),
		})...)
	patch := object("One operation of RFC 6902.",
		must("op", "What to do.", enum("add", "remove", "replace", "move", "copy", "test")),
		must("path", "A JSON Pointer.", str()),
		may("from", "move and copy: a JSON Pointer.", str()),
		may("value", "add, replace and test: any JSON value.", anyJSON()))
	patch.AdditionalProperties = nil // RFC 6902, section 4: other members are ignored
	c["JSONPatch"] = about("A JSON patch (RFC 6902).", list(patch))
}

// nodeSchemas are what answers about namespaces, keys, errors and the node hold.
func nodeSchemas(c map[string]*huma.Schema) {
	deleted := may("deleted", "The namespace was deleted; its name, kind and class stay.", boolean())
	indexState := may("query_index_state", "How far the index is that query_index asks for: queries use it once it is ready. Not there where none is asked for, on SQLite, and in lists.",
		enum("building", "ready"))
	c["NamespaceInfo"] = object("A namespace with its policy in force.", join([]property{
		must("name", "The namespace.", str()),
		must("version", "Of the policy: its ETag.", integer(0)),
	}, policyProperties(), []property{deleted, indexState})...)
	c["NamespaceList"] = object("All namespaces.", must("items", "The namespaces.", list(ref("NamespaceInfo"))))
	c["APIKey"] = object("An API key.",
		must("id", "Its id, which is no secret.", str()),
		may("name", "For people.", str()),
		may("tenant", "Whose key it is.", str()),
		may("scope", "Its limits; absent: everything of the tenant.", ref("Scope")),
		may("created_at", "When it was made.", instant()),
		may("expires_at", "When it stops working; absent: never.", instant()),
		may("secret", "The whole key, in the answer to its creation alone.", str()))
	c["KeyList"] = object("All keys of the tenant.", must("items", "The keys.", list(ref("APIKey"))))

	codes := str()
	for _, code := range tiering.Codes() {
		codes.Enum = append(codes.Enum, string(code))
	}
	c["Fault"] = object("One place where a body breaks its schema.",
		must("pointer", "The JSON Pointer of the place.", str()), must("detail", "What is wrong.", str()))
	c["Problem"] = object("An error (RFC 9457).",
		must("type", "A URN that ends in the code.", str()),
		must("title", "The code.", str()),
		must("status", "The HTTP status.", integer(400)),
		may("detail", "What is wrong and what to do, for people.", str()),
		must("code", "What is wrong, for programs.", codes),
		may("pointer", "The JSON Pointer of the fault.", str()),
		may("current_version", "version_conflict and seq_conflict: the version, or the last sequence number, that stands; 0: nothing.", integer(0)),
		may("errors", "Every fault of a body that broke its schema.", list(ref("Fault"))),
		may("siblings", "The names beside a pointer that led nowhere.", list(str())),
		may("failed_op", "The operation that failed an atomic batch, from 0.", integer(0)),
		may("lease", "lease_held: who holds it, and until when.", ref("HeldLease")))

	c["TierStatus"] = object("The state of one tier.",
		must("tier", "The tier.", tierEnum()), must("driver", "What keeps it.", str()),
		may("copy", "Which of cold's copies.", enum("primary", "backup")),
		must("ok", "Whether it can be reached.", boolean()), may("error", "Why it cannot.", str()),
		must("bytes", "What it holds.", integer(0)), must("items", "How many.", integer(0)))
	c["FeedStatus"] = object("The state of the feed.",
		must("tail", "The last position.", integer(0)), must("lag", "Changes not yet in the feed.", integer(0)))
	c["ArchiveStatus"] = object("How far cold is behind.",
		must("position", "The last archived position.", integer(0)), must("behind", "Positions not yet archived.", integer(0)),
		may("oldest_time", "Of the oldest change not yet archived.", instant()),
		must("missing_copies", "Segments with one copy only.", integer(0)), may("last_error", "What failed last.", str()))
	c["ParkedMove"] = object("A move that gave up until someone looks.",
		must("move", "The move.", str()), must("subject", "Of what.", str()), must("attempts", "How often it was tried.", integer(0)),
		must("error", "What failed last.", str()), must("since", "When it gave up.", instant()))
	counts := raw()
	counts.AdditionalProperties = integer(0)
	due := raw()
	due.AdditionalProperties = integer(0)
	c["NodeStatus"] = object("The state of a node.",
		must("version", "Of tierd.", str()), must("epoch", "Of the warm store's life.", str()),
		must("started_at", "When the node started.", instant()), must("ready", "Whether it can serve.", boolean()),
		must("tiers", "Each tier.", list(ref("TierStatus"))), must("feed", "The feed.", ref("FeedStatus")),
		must("archive", "The archive.", ref("ArchiveStatus")), must("counts", "What is stored.", counts),
		may("estimated", "Whether the warm tier's counts are estimates, because there is too much to count.", boolean()),
		may("parked", "Moves that gave up.", list(ref("ParkedMove"))), may("due_within_a_day", "How many of each move fall due in the next 24 hours.", due))
	c["Health"] = object("A probe's answer.", must("status", "ok or ready.", enum("ok", "ready")))
}
