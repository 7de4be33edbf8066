package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/evaluate"
)

// evalGroup measures.
type evalGroup struct {
	Recall evalRecall `cmd:"" help:"Measure how well memories are recalled, on conversations with questions."`
}

type evalRecall struct {
	Data   string `required:"" placeholder:"FILE" help:"LoCoMo's locomo10.json, or JSON lines of one's own (.jsonl)."`
	Errors string `placeholder:"FILE" help:"LoCoMo's known label errors, to be left out."`
	Warm   string `group:"tiers" placeholder:"sqlite:" help:"Where to store them; a scratch folder unless given."`
	Vector string `group:"tiers" placeholder:"flat:" help:"The index, as serve takes it."`
	Embed  string `group:"tiers" placeholder:"static:" help:"The embedder, as serve takes it."`
}

func (*evalRecall) Help() string {
	return "Each turn of a conversation becomes a memory, each question is asked, and the share of its evidence among the first 5, 10 and 20 matches is counted: " +
		"for BM25 alone, for vectors alone, and as a user gets it. No model judges. In PostgreSQL the namespaces that it makes stay: give it a schema of its own.\n\n" +
		"A line of JSON lines is a memory, {\"conversation\":\"c1\",\"id\":\"t1\",\"text\":\"...\",\"speaker\":\"Ann\",\"session\":\"s1\",\"time\":\"2026-02-01T10:00:00Z\"}, " +
		"or a question, {\"conversation\":\"c1\",\"question\":\"...\",\"evidence\":[\"t1\"],\"category\":\"when\"}.\n\n" +
		examples("tierd eval recall --data conversations.jsonl", "tierd eval recall --data conversations.jsonl --embed none:")
}

func (c *evalRecall) Run(ctx context.Context, p *process) error {
	set, err := evaluate.Read(c.Data, c.Errors)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tierd-eval-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	node, err := tierd.Open(ctx, tierd.Config{Data: folder, Warm: c.Warm, Vector: c.Vector, Embed: c.Embed, Version: buildVersion()})
	if err != nil {
		return err
	}
	report, err := evaluate.Measure(ctx, set, evaluate.Node{Service: node, Namespace: "eval-" + strings.ToLower(ulid.Make().String())}, evaluate.Modes()...)
	err = errors.Join(err, node.Close(ctx))
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(report.Rows)
	}
	return report.Print(p.stdout)
}
