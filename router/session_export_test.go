package router

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// A session that no import would take is refused before all of it is read.
func TestTheLengthOfAnExport(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	long := json.RawMessage(`"` + strings.Repeat("x", tiering.MaxBody-3) + `"`)
	w.session(tiering.NewSession{ID: "s", Events: []json.RawMessage{long}})
	_, err := all.Append(w.ctx, "s", []json.RawMessage{long}, nil, nil)
	w.no(err)
	_, err = all.Export(w.ctx, "s")
	code(t, "an export above what an import takes", err, tiering.CodeTooLarge)
}

// What no export can be is refused by its place, and nothing of it is made.
func TestImportsThatMakeNoSense(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	good := func() *tiering.SessionExport {
		object := json.RawMessage(` {"n":1} `)
		return &tiering.SessionExport{
			Session: tiering.Session{ID: "s", State: object, LastSeq: 9},
			Events:  []tiering.Entry{{Seq: 1, Data: json.RawMessage(`{"type":"tierd.created"}`)}, {Seq: 3, Data: object}, {Seq: 9, Data: object}},
			Skipped: []tiering.Omitted{{From: 3, To: 3, How: "resumed over"}},
			Checkpoints: []tiering.CheckpointExport{{Checkpoint: tiering.Checkpoint{Name: "a", Seq: 9}, State: object},
				{Checkpoint: tiering.Checkpoint{Name: "b"}, State: object}},
			Steps: []tiering.Step{{Name: "x", Status: tiering.StepDone, Key: "k", Attempts: 1, Output: json.RawMessage("null")},
				{Name: "y", Status: tiering.StepUnknown, Key: "k", Attempts: 1}},
		}
	}
	for _, c := range []struct {
		name, pointer string
		spoil         func(*tiering.SessionExport)
	}{
		{"a number that comes again", "/events/2/seq", func(e *tiering.SessionExport) { e.Events[2].Seq = 3 }},
		{"numbers that go back", "/events/1/seq", func(e *tiering.SessionExport) { e.Events[0].Seq = 4 }},
		{"no number", "/events/0/seq", func(e *tiering.SessionExport) { e.Events[0].Seq = 0 }},
		{"an event of tierd's that says nothing", "/events/1/data/type", func(e *tiering.SessionExport) { e.Events[1].Data = json.RawMessage(`{"type":"tierd."}`) }},
		{"an event that is no JSON", "/events/1/data", func(e *tiering.SessionExport) { e.Events[1].Data = json.RawMessage(`{`) }},
		{"a run behind the end", "/skipped/0", func(e *tiering.SessionExport) { e.Skipped[0].To = 10 }},
		{"a run that ends before it begins", "/checkpoints/1/skipped/0", func(e *tiering.SessionExport) { e.Checkpoints[1].Skipped = []tiering.Omitted{{From: 3, To: 2}} }},
		{"a checkpoint behind the end", "/checkpoints/0/seq", func(e *tiering.SessionExport) { e.Checkpoints[0].Seq = 10 }},
		{"a checkpoint twice", "/checkpoints/1/name", func(e *tiering.SessionExport) { e.Checkpoints[1].Name = "a" }},
		{"a checkpoint without a name", "/checkpoints/1/name", func(e *tiering.SessionExport) { e.Checkpoints[1].Name = "" }},
		{"a checkpoint without a state", "/checkpoints/0/state", func(e *tiering.SessionExport) { e.Checkpoints[0].State = nil }},
		{"a checkpoint of a list", "/checkpoints/0/state", func(e *tiering.SessionExport) { e.Checkpoints[0].State = json.RawMessage("[]") }},
		{"a step twice", "/steps/1/name", func(e *tiering.SessionExport) { e.Steps[1].Name = "x" }},
		{"a step without a key", "/steps/1/key", func(e *tiering.SessionExport) { e.Steps[1].Key = "" }},
		{"a step in no known state", "/steps/1/status", func(e *tiering.SessionExport) { e.Steps[1].Status = "lost" }},
		{"a step that is done and gave nothing", "/steps/0", func(e *tiering.SessionExport) { e.Steps[0].Output = nil }},
		{"a step that gave something and is not done", "/steps/1/output", func(e *tiering.SessionExport) { e.Steps[1].Output = json.RawMessage("1") }},
		{"a state that is no object", "/session/state", func(e *tiering.SessionExport) { e.Session.State = json.RawMessage("[]") }},
		{"a life that is none", "/ttl", func(e *tiering.SessionExport) { e.TTL = "soon" }},
		{"progress beyond the end", "/session/progress", func(e *tiering.SessionExport) { beyond := 1.5; e.Session.Progress = &beyond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := good()
			c.spoil(e)
			_, err := all.Import(w.ctx, e)
			var fault *tiering.Error
			if !errors.As(err, &fault) || fault.Code != tiering.CodeInvalid || fault.Pointer != c.pointer {
				t.Errorf("%v, want it refused at %s", err, c.pointer)
			}
			_, err = all.Get(w.ctx, "s")
			code(t, "the session of a refused import", err, tiering.CodeNotFound)
		})
	}
	_, err := all.Import(w.ctx, good())
	w.no(err)
	steps, err := all.Steps(w.ctx, "s")
	w.no(err)
	if len(steps) != 2 || steps[0].Status != tiering.StepDone || w.sessionEvents("s") == "" {
		t.Errorf("imported: %+v, %s", steps, w.sessionEvents("s"))
	}
}

// Events that would be taken for tierd's own are refused by their place, however their
// type is written; what only looks alike is the caller's.
func TestEventsThatPassForTierdsOwn(t *testing.T) {
	w := open(t, setup{})
	all := w.r.Sessions()
	w.session(tiering.NewSession{ID: "s"})
	one := json.RawMessage(`1`)
	for _, typ := range []string{`{"type":"tierd.created"}`, `{"a":1,"type":"\u0074ierd.step"}`, `{"type":"tierd."}`} {
		for at, events := range map[string][]json.RawMessage{"/events/0/type": {json.RawMessage(typ)}, "/events/1/type": {one, json.RawMessage(typ)}} {
			for how, patch := range map[string]*tiering.SessionPatch{"alone": nil, "with a change": {State: json.RawMessage(`{"n":1}`)}} {
				_, err := all.Append(w.ctx, "s", events, patch, nil)
				var fault *tiering.Error
				if !errors.As(err, &fault) || fault.Code != tiering.CodeInvalid || fault.Pointer != at {
					t.Errorf("%s %s: %v, want it refused at %s", typ, how, err, at)
				}
			}
		}
	}
	_, err := all.Append(w.ctx, "s", []json.RawMessage{json.RawMessage(`{"Type":"tierd.resumed"}`)}, nil, nil)
	w.no(err)
	e, err := all.Export(w.ctx, "s")
	w.no(err)
	e.Session.ID = "t"
	_, err = all.Import(w.ctx, e)
	w.no(err)
	if got := w.sessionEvents("t"); !strings.Contains(got, "Type") {
		t.Errorf("the import has %s", got)
	}
}
