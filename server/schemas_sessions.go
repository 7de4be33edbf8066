package server

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

// Examples of the documentation.
var (
	exampleSession = map[string]any{"id": "s1", "user": "ada", "agent": "planner", "state": map[string]any{"step": 1}, "version": 1, "last_seq": 1,
		"created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:00Z", "expires_at": "2026-01-31T14:00:00Z"}
	exampleExport = map[string]any{"session": exampleSession, "ttl": "2h", "events": []any{map[string]any{"seq": 2, "time": "2026-01-31T12:00:00Z", "data": map[string]any{"role": "user"}}}}
)

func sessionAttributes() []property {
	least, most := 0.0, 1.0
	progress := number()
	progress.Minimum, progress.Maximum = &least, &most
	return []property{
		may("agent", "The agent.", text(256)), may("app", "The app.", text(256)), may("status", "The status.", text(256)),
		may("progress", "How far it is, 0 to 1.", progress),
	}
}

// sessionSchemas are the bodies of sessions.
func sessionSchemas(c map[string]*huma.Schema) {
	most := tiering.MaxAppend
	events := func() *huma.Schema {
		s := list(anyJSON())
		s.MaxItems = &most
		return s
	}
	ttl := may("ttl", "A life from now; slid by every write and read of the session. none: no expiry.", ttlSchema())
	c["NewSession"] = object("A session to be made.", join([]property{
		may("id", "Its id, without slashes; one is made when it is absent.", text(256)), may("user", "The owner, fixed.", text(256)),
		ttl, may("state", "Its state.", raw()), may("events", "Its first events, in the same commit.", events()),
	}, sessionAttributes())...)
	c["SessionPatch"] = object("A change of a session.", join([]property{may("state", "A merge patch of the state.", raw()), ttl}, sessionAttributes())...)
	c["SessionEvents"] = object("Events, and what changes with them in one commit.", join([]property{
		may("events", "The events. Types that begin with tierd. are tierd's own.", events()), may("state", "A merge patch of the state.", raw()), ttl,
		may("if_version", "The version of state and attributes that must stand.", integer(0)), may("expect_seq", "The last sequence number that the log must have.", integer(0)),
	}, sessionAttributes())...)
	c["Session"] = object("A session without its events.", join([]property{must("id", "Its id.", str()), may("user", "The owner.", str())}, sessionAttributes(), []property{
		must("state", "Its state. Calls on one session show under user: and app: what it shares; lists and exports do not.", raw()), must("version", "Of state and attributes.", integer(0)),
		must("last_seq", "The last sequence number of its log.", integer(0)), must("created_at", "When it was made.", instant()),
		must("updated_at", "The last event or change.", instant()), may("expires_at", "When its life is over; absent: never.", instant()),
	})...)
	c["SessionPage"] = object("One page of sessions.", must("sessions", "The sessions, newest first.", list(ref("Session"))), may("next_cursor", "The cursor of the next page; absent on the last.", str()))
	c["SessionAppended"] = object("The answer to an append.", may("first_seq", "Of its first event.", integer(1)), must("last_seq", "The last sequence number of the log.", integer(0)),
		may("version", "Of state and attributes, where they changed.", integer(1)), must("time", "When it was committed.", instant()), may("replayed", "The first try's result.", boolean()))
	c["Omitted"] = object("A run of entries that a context does not hold whole.", must("from", "The first.", integer(1)), must("to", "The last.", integer(1)),
		must("how", "What became of them.", enum("shortened", "summarised", "dropped", "resumed over")))
	c["SessionContext"] = object("What fits a model's context window.", must("messages", "The messages, in the shape asked for.", list(anyJSON())),
		may("system", "The system message, in the anthropic shape.", str()), must("tokens", "What all of it takes.", integer(0)),
		must("omitted", "What it does not hold whole.", list(ref("Omitted"))), must("last_seq", "The last entry that was looked at.", integer(0)),
		may("not_messages", "Events that are not in it because they are no message in a shape that is known, or an empty one of the assistant; tierd's own are not counted.", integer(1)),
		may("summary", "What stands in place of the oldest turns, where anything does.", ref("ContextSummary")),
		may("recalled", "The memories that one of the messages holds, where recall was asked for.", ref("ContextRecall")))
	c["ContextSummary"] = object("A summary in a context.", must("kind", "model: made by the chat server that the daemon is configured with; extractive: the beginning of what each side said.", enum("model", "extractive")),
		must("from", "The first entry that it stands for.", integer(1)), must("to", "The last.", integer(1)), must("tokens", "Of the context's, what it takes.", integer(0)),
		may("model_to", "The last entry that the model's summary covers; what lies behind is extractive. Absent: all of it is.", integer(1)), may("reason", "Why a model that is configured did not make all of it.", str()))
	c["SessionSummary"] = object("A summary of the oldest turns that a model made.", must("from", "The first entry.", integer(1)), must("to", "The last.", integer(1)), must("text", "The summary.", str()),
		must("made_at", "When.", instant()), may("skipped", "What resumes had gone back over.", list(ref("Omitted"))))
	c["SessionRecall"] = object("What a context recalled for a session.", must("time", "When.", instant()), must("query", "Its first 200 characters.", str()), must("memories", "Best first.", list(ref("RecalledMemory"))),
		may("left_out", "Recalled, and did not fit.", integer(0)), may("partial", "A way of looking could not take part.", boolean()))
	c["ContextRecall"] = object("Recalled memories of a context.", must("memories", "Best first.", list(ref("RecalledMemory"))), must("tokens", "Of the context's, what their message takes.", integer(0)),
		may("left_out", "Recalled, and did not fit.", integer(0)), may("partial", "A way of looking could not take part.", boolean()), may("reason", "Which, and why.", str()))
	c["RecalledMemory"] = object("A memory that a context holds, or held.", must("namespace", "Its namespace.", str()), may("id", "Its id; absent when it is gone.", str()),
		must("version", "Its version.", integer(1)), must("score", "Of the recall.", number()),
		may("gone", "Of a SessionRecall: it was deleted or erased since, or expired, or the store was rebuilt; nothing tells any more which memory it was.", boolean()))
	c["TimelineItem"] = object("An event, a version, or what a context recalled.", must("time", "When.", instant()), must("what", "What.", enum("event", "version", "recalled", "created", "resumed", "checkpoint", "step")),
		may("seq", "Of an entry of the log.", integer(1)), may("data", "The entry, or what was recalled: a SessionRecall.", anyJSON()), may("version", "Of state and attributes.", integer(1)),
		may("diff", "What it changed, as a JSON patch.", ref("JSONPatch")))
	c["Timeline"] = object("What happened to a session.", must("items", "In order.", list(ref("TimelineItem"))), may("more", "Go on with after.", boolean()))
	c["Checkpoint"] = object("A named state and place in the log.", checkpointProperties()...)
	c["CheckpointExport"] = object("A checkpoint with its state.", join(checkpointProperties(), []property{
		must("state", "The state.", raw()), may("skipped", "What resumes had gone back over by then.", list(ref("Omitted"))),
	})...)
	c["CheckpointList"] = object("All checkpoints.", must("items", "The checkpoints.", list(ref("Checkpoint"))))
	c["StepRequest"] = object("What to do with a step.", may("output", "Completes it.", anyJSON()), may("again", "Claim one that is unknown once more.", boolean()))
	c["Step"] = object("A run-once step.", must("name", "Its name.", str()), must("status", "claimed: by this call.", enum("claimed", "done", "unknown")),
		must("key", "The same at every try.", str()), must("attempts", "How often it was claimed.", integer(0)), may("output", "What it gave.", anyJSON()),
		may("replayed", "It was done before, or the call came again by its key.", boolean()), may("claimed_at", "When it was claimed last.", instant()), may("completed_at", "When it was done.", instant()))
	c["StepList"] = object("All steps.", must("items", "The steps.", list(ref("Step"))))
	c["LeaseRequest"] = object("Who wants a lease, and for how long.", must("holder", "Who.", text(256)), may("ttl", "For how long; default 30s.", ttlSchema()))
	c["SessionLease"] = object("The right to write a session that one holder has at a time.", must("session", "The session.", str()), must("holder", "Who holds it.", str()),
		must("token", "Grows with every new lease.", integer(1)), must("expires_at", "Until when.", instant()))
	c["HeldLease"] = object("A lease as others than its holder see it, without its token.", must("session", "The session.", str()), must("holder", "Who holds it.", str()),
		must("expires_at", "Until when.", instant()))
	c["SessionExport"] = object("A whole session.", must("session", "The session.", ref("Session")), may("ttl", "Its sliding life.", str()), must("events", "Its log.", list(ref("Entry"))),
		may("skipped", "What resumes went back over.", list(ref("Omitted"))), may("checkpoints", "Its checkpoints.", list(ref("CheckpointExport"))), may("steps", "Its steps.", list(ref("Step"))),
		may("summaries", "Those that a model made. An import leaves them out.", list(ref("SessionSummary"))),
		may("recalls", "The newest 40 for its contexts. An import leaves them out.", list(ref("SessionRecall"))))
}

func checkpointProperties() []property {
	return []property{must("name", "Its name.", str()), must("version", "Of state and attributes.", integer(0)), must("seq", "The last entry that belongs to it.", integer(0)),
		must("created_at", "When it was made.", instant())}
}
