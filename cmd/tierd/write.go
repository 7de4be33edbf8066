package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tierd/tierd/tiering"
)

type putCommand struct {
	Key      keyArg  `arg:"" name:"ns/id" help:"The document."`
	File     string  `arg:"" optional:"" name:"file" help:"File with the JSON value, - for standard input; what begins with {, [ or a double quote is the value itself."`
	Value    string  `placeholder:"JSON" help:"The JSON value itself, whatever it begins with."`
	IfAbsent bool    `help:"Only if nothing is stored yet."`
	TTL      ttlFlag `name:"ttl" placeholder:"30m" help:"Life from now: seconds, 30m, 12h, 7d, or none."`
	User     string  `placeholder:"NAME" help:"Owner of the document, fixed when it is created."`
	changeFlags
}

func (*putCommand) Help() string {
	return "What is there is replaced, and its history stays. Without --ttl a document keeps the expiry that it has; a new one takes the policy's.\n\n" +
		examples(`tierd put agents/planner '{"step":1}'`, "tierd put agents/turns --value 7", "tierd put agents/planner plan.json --if-version 3", "produce | tierd put agents/planner - --ttl 12h")
}

func (c *putCommand) Run(ctx context.Context, p *process) error {
	var body []byte
	var err error
	switch {
	case (c.File == "") == (c.Value == ""):
		return usagef("say what to put once: a file, - for standard input, or --value JSON")
	case strings.HasPrefix(c.File, "{"), strings.HasPrefix(c.File, "["), strings.HasPrefix(c.File, `"`):
		body = []byte(c.File) // as patch, query and ns set take it
	case c.File != "":
		body, err = p.readInput(c.File)
		if errors.Is(err, fs.ErrNotExist) && json.Valid([]byte(c.File)) {
			return usagef("there is no file %s: a value of that form needs --value %s", c.File, c.File)
		}
		if err != nil {
			return err
		}
	default:
		body = []byte(c.Value)
	}
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	if c.IfAbsent {
		if c.IfVersion != nil {
			return usagef("--if-absent and --if-version say different things: give one")
		}
		o.If = tiering.IfAbsent()
	}
	o.TTL = c.TTL.ttl
	r, err := service.Put(ctx, c.Key.NS, c.Key.ID, body, &tiering.PutOptions{WriteOptions: o, User: c.User})
	if err != nil {
		return err
	}
	done := "replaced"
	if r.Created {
		done = "created"
	}
	return p.printReceipt(done, r)
}

type patchCommand struct {
	Key       keyArg `arg:"" name:"ns/id" help:"The document."`
	Patch     string `arg:"" name:"json" help:"The patch, - for standard input."`
	JSONPatch bool   `name:"json-patch" help:"The patch is a JSON Patch (RFC 6902), not a merge patch (RFC 7396)."`
	changeFlags
}

func (*patchCommand) Help() string {
	return "A merge patch sets the fields that it names, removes those that it sets to null, and leaves the others alone; it creates a document that is not there. A JSON Patch is a list of operations on a document that is.\n\n" +
		examples(`tierd patch agents/planner '{"step":2,"draft":null}'`, `tierd patch agents/planner --json-patch '[{"op":"test","path":"/step","value":1},{"op":"replace","path":"/step","value":2}]'`)
}

func (c *patchCommand) Run(ctx context.Context, p *process) error {
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	patch, err := p.inline(c.Patch)
	if err != nil {
		return err
	}
	kind := tiering.MergePatch
	if c.JSONPatch {
		kind = tiering.JSONPatch
	}
	r, err := service.Patch(ctx, c.Key.NS, c.Key.ID, kind, patch, &o)
	if err != nil {
		return err
	}
	return p.printReceipt("patched", r)
}

type editCommand struct {
	Key   keyArg   `arg:"" name:"ns/id" help:"The document."`
	Edits []string `arg:"" optional:"" name:"op:/pointer=json" help:"Edit operations: set, remove, increment, append, add_to_set, remove_from_set, max, min."`
	Ops   string   `placeholder:"JSON" help:"The operations as the API takes them: a JSON array, - for standard input."`
	changeFlags
}

func (*editCommand) Help() string {
	return "All operations are applied at once or not at all, to the newest version, and what is missing is created. The new values are printed. " +
		"A value is JSON, so text stands in double quotes; increment adds 1 when it is given none; remove takes none.\n\n" +
		examples("tierd edit agents/planner set:/step=2 increment:/turns append:/log='\"asked\"' remove:/draft",
			`tierd edit agents/planner --ops '[{"op":"increment","pointer":"/turns","by":2}]'`)
}

func (c *editCommand) Run(ctx context.Context, p *process) error {
	ops, err := c.ops(p)
	if err != nil {
		return err
	}
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	edited, err := service.Apply(ctx, c.Key.NS, c.Key.ID, ops, &o)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(edited)
	}
	if err := p.printReceipt("edited", &edited.Receipt); err != nil {
		return err
	}
	for i, v := range edited.Values {
		if i < len(ops) {
			if err := p.printf("  %s = %s\n", orRoot(ops[i].Pointer), v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *editCommand) ops(p *process) ([]tiering.EditOp, error) {
	if (len(c.Edits) == 0) == (c.Ops == "") {
		return nil, usagef("say what to edit once: operations such as set:/step=2, or --ops JSON")
	}
	if c.Ops == "" {
		return parseEdits(c.Edits)
	}
	raw, err := p.inline(c.Ops)
	if err != nil {
		return nil, err
	}
	var ops []tiering.EditOp
	if err := decodeStrict(raw, &ops); err != nil {
		return nil, usagef("--ops: %v; want an array such as [{\"op\":\"set\",\"pointer\":\"/step\",\"value\":2}]", err)
	}
	return ops, nil
}

type rmCommand struct {
	Key keyArg `arg:"" name:"ns/id" help:"The document."`
	changeFlags
}

func (*rmCommand) Help() string {
	return "Deleting what is not there succeeds. A deleted document can be brought back with rollback while its history is kept.\n\n" +
		examples("tierd rm agents/planner", "tierd rm agents/planner --if-version 7")
}

func (c *rmCommand) Run(ctx context.Context, p *process) error {
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	r, err := service.Delete(ctx, c.Key.NS, c.Key.ID, &o)
	if err != nil {
		return err
	}
	if r.Version == 0 && !p.json {
		return p.printf("nothing stood at %s/%s: nothing was deleted\n", c.Key.NS, c.Key.ID)
	}
	return p.printReceipt("deleted", r)
}

type batchCommand struct {
	File           string `arg:"" help:"File with the operations, - for standard input."`
	Atomic         bool   `help:"All operations or none."`
	IdempotencyKey string `placeholder:"TEXT" help:"Do this once in 24 h: the same key again answers the first result."`
	connectFlags
}

func (*batchCommand) Help() string {
	return "The file holds an array of operations, or the object that the API takes. Without --atomic each operation succeeds or fails alone; the command then fails with the first failure's exit code.\n\n" +
		examples(`echo '[{"op":"put","namespace":"agents","id":"a","data":{"n":1}}]' | tierd batch - --atomic`)
}

func (c *batchCommand) Run(ctx context.Context, p *process) error {
	raw, err := p.readInput(c.File)
	if err != nil {
		return err
	}
	b, err := parseBatch(raw)
	if err != nil {
		return err
	}
	b.Atomic = b.Atomic || c.Atomic
	b.IdempotencyKey = c.IdempotencyKey
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	res, err := service.Batch(ctx, b)
	if err != nil {
		return ofBatch(b, err)
	}
	if err := p.printBatch(b, res); err != nil {
		return err
	}
	for i, r := range res.Results {
		if r.Error != nil {
			e := r.Error.Error()
			e.Op = ""
			return failedOp(b, i, e)
		}
	}
	return nil
}

// opError is the failure of one operation of a batch.
type opError struct {
	name string // such as "operation 1 (put agents/b)"
	err  error
}

func (e *opError) Error() string { return e.name + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// ofBatch says of an error that failed an atomic batch which operation it was.
func ofBatch(b *tiering.Batch, err error) error {
	if e, ok := errors.AsType[*tiering.Error](err); ok && e.Batch {
		c := *e
		c.Op = ""
		return failedOp(b, e.FailedOp, &c)
	}
	return err
}

// failedOp is the error of operation i. What to do next is said in the fields
// of an operation: batch has no flags for it.
func failedOp(b *tiering.Batch, i int, e *tiering.Error) error {
	name := "operation " + itoa(i)
	if i < len(b.Ops) {
		name += " (" + b.Ops[i].Op + " " + b.Ops[i].Namespace + "/" + b.Ops[i].ID + ")"
	}
	err := error(&opError{name, e})
	switch e.Code {
	case tiering.CodeVersionConflict:
		if e.CurrentVersion == 0 {
			return &advisedError{err, "nothing stands there now: leave if_version away, or make it 0"}
		}
		return &advisedError{err, fmt.Sprintf("version %d stands now: read it, then try again with \"if_version\":%d", e.CurrentVersion, e.CurrentVersion)}
	case tiering.CodePreconditionRequired:
		return &advisedError{err, `say which version you have read with "if_version":N; 0 is for a document that is not there yet`}
	}
	return err
}

func parseBatch(raw []byte) (*tiering.Batch, error) {
	var ops []tiering.BatchOp
	var b tiering.Batch
	err := decodeStrict(raw, &b)
	if trimmed := json.RawMessage(raw); firstByte(trimmed) == '[' {
		err = decodeStrict(raw, &ops)
		b = tiering.Batch{Ops: ops}
	}
	if err != nil {
		return nil, usagef("the batch cannot be read: %v; want an array of operations such as [{\"op\":\"get\",\"namespace\":\"agents\",\"id\":\"a\"}]", err)
	}
	return &b, nil
}

func (p *process) printBatch(b *tiering.Batch, res *tiering.BatchResult) error {
	if p.json {
		return p.printJSON(res)
	}
	var rows [][]string
	for i, r := range res.Results {
		row := []string{itoa(i), "", "", itoa(r.Status), ""}
		if i < len(b.Ops) {
			row[1], row[2] = b.Ops[i].Op, b.Ops[i].Namespace+"/"+b.Ops[i].ID
		}
		switch {
		case r.Error != nil:
			row[4] = string(r.Error.Code) + ": " + r.Error.Detail
		case r.Document != nil:
			row[4] = "version " + itoa(r.Document.Version) + " " + string(r.Document.Body)
		case r.Appended != nil:
			row[4] = "entries " + itoa(r.Appended.FirstSeq) + " to " + itoa(r.Appended.LastSeq)
		case r.Receipt != nil:
			row[4] = "version " + itoa(r.Receipt.Version)
		}
		rows = append(rows, row)
	}
	return p.table([]string{"#", "OP", "KEY", "STATUS", "RESULT"}, rows)
}
