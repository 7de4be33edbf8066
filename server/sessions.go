package server

import (
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// mayRead ends what is said of writes that answer with what stands.
const mayRead = " It answers with what it wrote, and takes a key that may read as well as write."

const sessionPath = "/v1/sessions/{id}"

var fenceHeader = param{name: "Tierd-Fence", about: "session/token of a lease: the write is refused (fenced) once that lease does not stand any more.", schema: str(), example: "s1/7"}

var sessionCodes = []tiering.Code{tiering.CodeNotFound, tiering.CodeVersionConflict, tiering.CodeSeqConflict, tiering.CodeWrongKind, tiering.CodeFenced,
	tiering.CodeTooLarge, tiering.CodeIdempotencyMismatch, tiering.CodeIdempotencyInFlight, tiering.CodeOutOfSpace}

func sessionOperations() []*operation {
	guards := []param{ifMatchHeader, idempotencyHeader, fenceHeader}
	one := func(about string) []answer {
		return []answer{{http.StatusOK, about, []string{"ETag"}, jsonOf("Session", exampleSession)}}
	}
	all := []*operation{
		{
			id: "createSession", method: http.MethodPost, path: "/v1/sessions", tag: "sessions", summary: "Create a session",
			instead: "an id that is taken is refused as it is",
			about:   "A session is a state document, an event log, checkpoints, steps and a lease under one id, with one life that every write and read of the session slides; lists and watches do not. Its log begins with an entry tierd.created." + mayRead,
			headers: []param{idempotencyHeader},
			body: &body{about: "The session.", component: "NewSession", optional: true, media: []media{{"application/json", ref("NewSession"),
				map[string]any{"user": "ada", "agent": "planner", "ttl": "2h", "state": map[string]any{"step": 1}}}}},
			answers: []answer{{http.StatusCreated, "Created.", []string{"ETag", "Location"}, jsonOf("Session", exampleSession)}},
			codes:   sessionCodes, run: (*call).createSession,
		},
		{
			id: "listSessions", method: http.MethodGet, path: "/v1/sessions", tag: "sessions", summary: "List sessions, newest first",
			about: "A page may be shorter than its limit: sessions that have just expired are left out.",
			query: []param{
				{name: "user", about: "Only this user's.", schema: str(), example: "ada"}, {name: "agent", about: "Only this agent's.", schema: str(), example: "planner"},
				{name: "app", about: "Only this app's.", schema: str(), example: "desk"}, {name: "status", about: "Only those of this status.", schema: str(), example: "running"},
				limitParam, cursorParam,
			},
			answers: []answer{{http.StatusOK, "A page.", nil, jsonOf("SessionPage", map[string]any{"sessions": []any{exampleSession}})}},
			codes:   []tiering.Code{tiering.CodeWrongKind}, run: (*call).listSessions,
		},
		{
			id: "getSession", method: http.MethodGet, path: sessionPath, tag: "sessions", summary: "Read a session",
			about:   "Without its events. Keys shared by the user's and the app's sessions stand under user: and app: in the state.",
			answers: one("The session."), codes: sessionCodes, run: (*call).getSession,
		},
		{
			id: "patchSession", method: http.MethodPatch, path: sessionPath, tag: "sessions", summary: "Change a session's state and attributes",
			instead: "a patch makes no session",
			about:   "state is a merge patch. Top-level keys that begin with user: or app: are shared with other sessions and not atomic with this one; those with temp: are not stored." + mayRead,
			headers: guards,
			body:    &body{about: "The change.", component: "SessionPatch", media: []media{{"application/json", ref("SessionPatch"), map[string]any{"status": "running", "state": map[string]any{"step": 2}}}}},
			answers: one("Changed."), codes: sessionCodes, run: (*call).patchSession,
		},
		{
			id: "deleteSession", method: http.MethodDelete, path: sessionPath, tag: "sessions", summary: "Delete everything of a session",
			instead: "a session that is not there stays so: the call may be sent again",
			about:   "Deleting what is not there succeeds, whatever guards it; another user's session is not there for a key that is limited to a user.",
			headers: []param{ifMatchHeader, fenceHeader},
			answers: []answer{{http.StatusNoContent, "Nothing of it stands.", nil, nil}}, codes: sessionCodes, run: (*call).deleteSession,
		},
		{
			id: "appendEvents", method: http.MethodPost, path: sessionPath + "/events", tag: "sessions", summary: "Append events, with a change of state in one commit",
			instead: "the last event that has to stand is expect_seq, and state and attributes if_version, in the body",
			about:   "Events alone fold with those of others; with a change of the session it is one transaction.", headers: guards,
			body: &body{about: "Events, and what changes with them.", component: "SessionEvents", media: []media{{"application/json", ref("SessionEvents"),
				map[string]any{"events": exampleEntries, "state": map[string]any{"step": 3}}}}},
			answers: []answer{{http.StatusOK, "Appended.", nil, jsonOf("SessionAppended", map[string]any{"first_seq": 8, "last_seq": 9, "version": 4, "time": "2026-01-31T12:00:00Z"})}},
			codes:   sessionCodes, run: (*call).appendEvents,
		},
		{
			id: "readEvents", method: http.MethodGet, path: sessionPath + "/events", tag: "sessions", summary: "Read a session's log",
			about: "As a read of a log.", query: entriesParams(),
			answers: []answer{{http.StatusOK, "A page of entries.", nil, jsonOf("EntryPage", exampleEntryPage)}}, codes: sessionCodes, run: (*call).readEvents,
		},
		{
			id: "sessionContext", method: http.MethodGet, path: sessionPath + "/context", tag: "sessions", summary: "What fits a model's context window",
			about: "The system message and the newest keep_turns turns whole, turns before them with their texts shortened, older ones summarised: by the chat server that the daemon is configured with (--summarise), else, and while that has not answered, by the beginning of what each side said; summary says which. Members whose names begin with _ are left out, and a call of a tool is never without its result. " +
				"A budget that what has to stay does not fit is 422.",
			query: []param{
				{name: "budget", about: "Tokens.", schema: integer(1), required: true, example: 4000},
				{name: "tokenizer", about: "The encoding that counts; default o200k_base.", schema: enum("o200k_base", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base"), example: "cl100k_base"},
				{name: "keep_turns", about: "The newest turns that stay whole; default 5.", schema: integer(1), example: 3},
				{name: "shorten", about: "Characters of a text in turns before them; default 500.", schema: integer(1), example: 200},
				{name: "shape", about: "Whose messages; default openai.", schema: enum("openai", "anthropic"), example: "anthropic"},
				{name: "recall", about: "A query: memories that it finds are woven in as one message, the user's of the session and those that nobody owns.", schema: str(), example: "seats on planes"},
				{name: "memories", about: "Namespaces to recall from, with commas; absent: all of kind memory that the key may read.", schema: str(), example: "people,places"},
			},
			answers: []answer{{http.StatusOK, "The context.", nil, jsonOf("SessionContext", map[string]any{
				"messages": []any{map[string]any{"role": "user", "content": "Is 14C free?"}}, "tokens": 11, "omitted": []any{map[string]any{"from": 2, "to": 9, "how": "summarised"}}, "last_seq": 12,
				"summary": map[string]any{"kind": "model", "from": 2, "to": 9, "model_to": 7, "tokens": 6}})}},
			codes: sessionCodes, run: (*call).sessionContext,
		},
		{
			id: "sessionTimeline", method: http.MethodGet, path: sessionPath + "/timeline", tag: "sessions", summary: "What happened to a session, in order",
			about: "Events, checkpoints and steps, and between them the versions of state and attributes with what they changed, and what contexts recalled for it (recall=; of these the newest 40 are kept, and are there 5 s later at the latest where another daemon answered the context). Calls of /v1/recall are of no session, and not in it.",
			query: []param{{name: "after", about: "Behind this sequence number.", schema: integer(0), example: 120}, limitParam},
			answers: []answer{{http.StatusOK, "The timeline.", nil, jsonOf("Timeline", map[string]any{"items": []any{
				map[string]any{"time": "2026-01-31T12:00:00Z", "what": "event", "seq": 2, "data": map[string]any{"role": "user"}}}})}},
			codes: sessionCodes, run: (*call).sessionTimeline,
		},
		{
			id: "exportSession", method: http.MethodGet, path: sessionPath + "/export", tag: "sessions", summary: "The whole session as one document",
			about:   "With its events, checkpoints and steps. One above 16 MiB is too_large: its events are read in pages then.",
			answers: []answer{{http.StatusOK, "The session.", nil, jsonOf("SessionExport", exampleExport)}}, codes: sessionCodes, run: (*call).exportSession,
		},
		{
			id: "importSession", method: http.MethodPost, path: "/v1/sessions/import", tag: "sessions", summary: "Make a session from an export",
			instead: "an id that is taken is refused as it is: read that session to see whether an import whose answer was lost made it, and delete it before the next try",
			about: "Events get new numbers and times. It is found once it is whole; one that was cut off leaves its id taken (503) for two minutes. What no export can be is refused (422) by its place before anything is made: " +
				"events whose numbers do not grow, checkpoints and runs beyond the last one, names that come twice, steps without a key." + mayRead,
			body:    &body{about: "An export, of up to 16 MiB.", most: tiering.MaxExport, component: "SessionExport", media: []media{{"application/json", ref("SessionExport"), exampleExport}}},
			answers: []answer{{http.StatusCreated, "Made.", []string{"ETag", "Location"}, jsonOf("Session", exampleSession)}}, codes: sessionCodes, run: (*call).importSession,
		},
	}
	return append(all, sessionPartOperations(guards, one)...)
}

func sessionPartOperations(guards []param, one func(string) []answer) []*operation {
	checkpoint := sessionPath + "/checkpoints/{name}"
	exampleCheckpoint := map[string]any{"name": "before-tool-call", "version": 3, "seq": 12, "created_at": "2026-01-31T12:00:00Z"}
	exampleStep := map[string]any{"name": "charge-card", "status": "claimed", "key": "step_9f86d081884c7d659a2feaa0c55ad015", "attempts": 1, "claimed_at": "2026-01-31T12:00:00Z"}
	exampleLease := map[string]any{"session": "s1", "holder": "worker-3", "token": 7, "expires_at": "2026-01-31T12:00:30Z"}
	return []*operation{
		{
			id: "makeCheckpoint", method: http.MethodPost, path: checkpoint, tag: "sessions", summary: "Name the state and the log as they stand",
			about: "A name that is taken already names what stands now.", headers: guards,
			answers: []answer{{http.StatusOK, "Named.", nil, jsonOf("Checkpoint", exampleCheckpoint)}}, codes: sessionCodes, run: (*call).makeCheckpoint,
		},
		{
			id: "listCheckpoints", method: http.MethodGet, path: sessionPath + "/checkpoints", tag: "sessions", summary: "List checkpoints", about: "By name.",
			answers: []answer{{http.StatusOK, "All of them.", nil, jsonOf("CheckpointList", map[string]any{"items": []any{exampleCheckpoint}})}}, codes: sessionCodes, run: (*call).listCheckpoints,
		},
		{
			id: "resumeCheckpoint", method: http.MethodPost, path: checkpoint + "/resume", tag: "sessions", summary: "Go back to a checkpoint",
			about: "Commits its state again with an entry tierd.resumed. Contexts leave out what lies between; events show it." + mayRead, headers: guards,
			answers: one("Resumed."), codes: sessionCodes, run: (*call).resumeCheckpoint,
		},
		{
			id: "branchCheckpoint", method: http.MethodPost, path: checkpoint + "/branch", tag: "sessions", summary: "Make a new session from a checkpoint",
			instead: "an id that is taken is refused as it is",
			about:   "Its state, and under new numbers and times the events up to it, without those that resumes had gone back over. Steps that were done by then are done in it too, with their output; a claim is not taken along. What the body leaves out is the first session's." + mayRead, headers: []param{idempotencyHeader},
			body:    &body{about: "The new session.", component: "NewSession", optional: true, media: []media{{"application/json", ref("NewSession"), map[string]any{"id": "s2"}}}},
			answers: []answer{{http.StatusCreated, "Made.", []string{"ETag", "Location"}, jsonOf("Session", exampleSession)}}, codes: sessionCodes, run: (*call).branchCheckpoint,
		},
		{
			id: "runStep", method: http.MethodPost, path: sessionPath + "/steps/{name}", tag: "sessions", summary: "Claim or complete a run-once step",
			about: "Without an output the step is claimed. One that is done answers its output with replayed, and never runs again. One that was claimed and not completed is unknown: " +
				"whether it ran is the caller's to find out, by its key; again claims it once more. A claim that comes again with its Idempotency-Key claims nothing: it is unknown, or done, with replayed." + mayRead,
			headers: guards,
			body:    &body{about: "Nothing, to claim; an output, to complete.", component: "StepRequest", optional: true, media: []media{{"application/json", ref("StepRequest"), map[string]any{"output": map[string]any{"ok": true}}}}},
			answers: []answer{{http.StatusOK, "The step.", nil, jsonOf("Step", exampleStep)}}, codes: sessionCodes, run: (*call).runStep,
		},
		{
			id: "listSteps", method: http.MethodGet, path: sessionPath + "/steps", tag: "sessions", summary: "List steps", about: "By name.",
			answers: []answer{{http.StatusOK, "All of them.", nil, jsonOf("StepList", map[string]any{"items": []any{exampleStep}})}}, codes: sessionCodes, run: (*call).listSteps,
		},
		{
			id: "acquireLease", method: http.MethodPost, path: sessionPath + "/lease", tag: "sessions", summary: "Take or renew a session's lease",
			instead: "the same holder renews, so the call may be sent again",
			about:   "Held by another holder it is 409 lease_held, which names the holder and the expiry. The token of a lease that was taken anew is higher; that of a renewed one stays. Both slide the session's life, than which no lease is longer.",
			body:    &body{about: "Who wants it.", component: "LeaseRequest", media: []media{{"application/json", ref("LeaseRequest"), map[string]any{"holder": "worker-3", "ttl": "30s"}}}},
			answers: []answer{{http.StatusOK, "Held.", nil, jsonOf("SessionLease", exampleLease)}}, codes: append([]tiering.Code{tiering.CodeLeaseHeld}, sessionCodes...), run: (*call).acquireLease,
		},
		{
			id: "releaseLease", method: http.MethodDelete, path: sessionPath + "/lease", tag: "sessions", summary: "Give a lease up",
			instead: "token says which lease",
			about:   "One of another token is left alone (fenced). A lease that ended by itself, or with its session, is held by nobody either: the call succeeds.", query: []param{{name: "token", about: "The lease's token.", schema: integer(1), required: true, example: 7}},
			answers: []answer{{http.StatusNoContent, "Nobody holds it.", nil, nil}}, codes: sessionCodes, run: (*call).releaseLease,
		},
	}
}

// entriesParams are those of a read of a log.
func entriesParams() []param {
	for _, op := range logOperations() {
		if op.id == "readEntries" {
			return op.query
		}
	}
	return nil
}
