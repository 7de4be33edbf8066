package main

import (
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// commands is the whole command line: one field per command.
type commands struct {
	JSON bool `name:"json" help:"Print JSON: the API's answers, and errors as problem documents."`

	Serve  serveCommand  `cmd:"" group:"server" help:"Serve the HTTP API until SIGTERM or Ctrl-C."`
	Health healthCommand `cmd:"" group:"server" help:"Ask whether the daemon can serve."`
	Conf   configGroup   `cmd:"" name:"config" group:"server" help:"Look at the configuration of serve."`
	Vers   versionCmd    `cmd:"" name:"version" group:"server" help:"Print the version of this program."`

	Get   getCommand   `cmd:"" group:"documents" help:"Print a document."`
	Put   putCommand   `cmd:"" group:"documents" help:"Store a JSON value as the next version of a document."`
	Patch patchCommand `cmd:"" group:"documents" help:"Change parts of a document with a merge patch or a JSON patch."`
	Edit  editCommand  `cmd:"" group:"documents" help:"Change a document with edit operations that never clobber each other."`
	Rm    rmCommand    `cmd:"" group:"documents" help:"Delete a document; its history stays."`
	Ls    lsCommand    `cmd:"" group:"documents" help:"List the documents of a namespace in id order."`
	Query queryCommand `cmd:"" group:"documents" help:"Find documents by their content."`
	Touch touchCommand `cmd:"" group:"documents" help:"Give a document a longer life without changing it."`
	Pin   pinCommand   `cmd:"" group:"documents" help:"Keep a document from being demoted, expired or collected."`
	Unpin unpinCommand `cmd:"" group:"documents" help:"Lift a pin."`
	Batch batchCommand `cmd:"" group:"documents" help:"Run many operations, on request all or nothing."`

	Remember rememberCommand `cmd:"" group:"memories" help:"Store a memory."`
	Recall   recallCommand   `cmd:"" group:"memories" help:"Find memories by meaning and by words."`
	Memories memoriesGroup   `cmd:"" aliases:"mem" group:"memories" help:"List, change, forget and link memories."`

	Append    appendCommand  `cmd:"" group:"logs" help:"Append entries to a log."`
	Entries   entriesCommand `cmd:"" group:"logs" help:"Print entries of a log."`
	Tail      tailCommand    `cmd:"" group:"logs" help:"Follow a namespace or a log until Ctrl-C."`
	Consumers consumersGroup `cmd:"" group:"logs" help:"List and forget the named consumers of tail and watch."`
	Eval      evalGroup      `cmd:"" group:"memories" help:"Measure recall on conversations of one's own."`
	Embed     embedGroup     `cmd:"" group:"memories" help:"Look at and change what makes the vectors of memories."`

	Sessions sessionsGroup `cmd:"" group:"sessions" help:"List, look at, follow, export and delete sessions."`

	Versions versionsCommand `cmd:"" group:"history" help:"List the versions of a document, newest first."`
	Diff     diffCommand     `cmd:"" group:"history" help:"Show what changed between two versions."`
	Rollback rollbackCommand `cmd:"" group:"history" help:"Make an old version's content the newest version."`
	Explain  explainCommand  `cmd:"" group:"history" help:"Say where each copy of a document is and what happens to it next."`
	Demote   demoteCommand   `cmd:"" group:"history" help:"Move the bytes of a document to cold now."`
	Promote  promoteCommand  `cmd:"" group:"history" help:"Bring the bytes of a document back to warm now."`
	Watch    watchCommand    `cmd:"" group:"history" help:"Print changes as they happen, one line each, until Ctrl-C."`

	Export exportCommand       `cmd:"" group:"admin" help:"Write the documents of a namespace as JSON lines."`
	Import importCommand       `cmd:"" group:"admin" help:"Store documents from JSON lines, as export writes them."`
	Status statusCommand       `cmd:"" group:"admin" help:"Show the state of the daemon and its tiers."`
	NS     nsGroup             `cmd:"" name:"namespaces" aliases:"ns" group:"admin" help:"Look at and change the policies of namespaces."`
	Keys   keysGroup           `cmd:"" group:"admin" help:"Make, list and revoke API keys."`
	Erase  eraseGroup          `cmd:"" group:"admin" help:"Make a subject disappear from every tier; a dry run unless --run."`
	Clock  confirmClockCommand `cmd:"" name:"confirm-clock" group:"admin" help:"Say that a clock which jumped is right, so that moves go on."`
	GC     gcCommand           `cmd:"" name:"gc" group:"admin" help:"Merge segments and collect what the policies no longer keep; a dry run unless --run."`
	Bench  benchCommand        `cmd:"" group:"admin" help:"Measure the tiers by hand and through tierd, side by side."`
	Cost   costCommand         `cmd:"" group:"admin" help:"Estimate what a month of this store costs, from what it holds and how fast it grows."`

	Schema schemaGroup `cmd:"" group:"admin" help:"Look at and migrate the schema of a warm store in PostgreSQL."`

	Verify  verifyCommand  `cmd:"" group:"recovery" help:"Look at both copies of everything in cold storage."`
	Drill   drillCommand   `cmd:"" group:"recovery" help:"Restore to a scratch store from one bucket, and compare it with what stands."`
	Rebuild rebuildCommand `cmd:"" group:"recovery" help:"Make the warm store again from one bucket alone."`
}

const about = `Keeps the state of AI agents: fresh documents in memory, current ones in a database, every version in object storage, twice.

Start a daemon with "tierd serve"; the other commands talk to one over HTTP, but for gc, bench, cost, schema and those of recovery, which open the tiers themselves. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 conflict, 5 unavailable.`

// newParser builds the parser of cli. exit is called after help was printed.
func newParser(cli *commands, p *process, exit func(int)) (*kong.Kong, error) {
	return kong.New(cli,
		kong.Name("tierd"),
		kong.Description(about),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "server", Title: "Server:"},
			{Key: "documents", Title: "Documents:"},
			{Key: "memories", Title: "Memories:"},
			{Key: "logs", Title: "Logs:"},
			{Key: "sessions", Title: "Sessions:"},
			{Key: "history", Title: "History:"},
			{Key: "admin", Title: "Administration:"},
			{Key: "recovery", Title: "Recovery:"},
			{Key: "tiers", Title: "Tiers, each one URL:"},
			{Key: "connection", Title: "Connection:"},
			{Key: "direct", Title: "Without a daemon:"},
		}),
		kong.Vars(driverNames()),
		kong.Bind(p),
	)
}

// examples formats command lines for a command's help text.
func examples(lines ...string) string {
	text := "Example:\n"
	if len(lines) > 1 {
		text = "Examples:\n"
	}
	for _, l := range lines {
		text += "\n    " + l
	}
	return text
}

type versionCmd struct{}

func (*versionCmd) Help() string { return examples("tierd version --json") }

func (*versionCmd) Run(p *process) error {
	if p.json {
		return p.printJSON(map[string]string{"version": buildVersion()})
	}
	return p.printf("tierd %s\n", buildVersion())
}

// buildVersion is what the linker set, or what the Go toolchain recorded.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return recordedVersion(info)
}

// recordedVersion is the version of the module, or the commit that it was built
// from, as far as the toolchain was told of them.
func recordedVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changes := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "-dirty"
		}
	}
	return "devel" + commit + changes
}
