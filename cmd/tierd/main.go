// Command tierd keeps the state of AI agents in tiers: it serves the HTTP API,
// and is its own client on the command line.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found,
// 4 conflict, 5 unavailable.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	goredis "github.com/redis/go-redis/v9/logging"

	"github.com/tierd/tierd/internal/config"
)

// version is set by the linker; see buildVersion for binaries built without.
var version string

func main() {
	ctx := untilSignalled()
	// go-redis writes to the standard error by itself, by one logger for the
	// whole process. What it says there comes back as errors too.
	goredis.Disable()
	code := run(ctx, &process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}, os.Args[1:])
	os.Exit(code)
}

// untilSignalled returns a context that the first SIGINT or SIGTERM ends, so
// that a command stops cleanly. A second one ends the process at once, however
// soon it follows the first.
func untilSignalled() context.Context {
	ctx, end := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // the second one must not be lost while the first is heard
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		end()
		exitCode := 128 // and the signal's number, as a shell reports it
		if second, ok := (<-signals).(syscall.Signal); ok {
			exitCode += int(second)
		}
		os.Exit(exitCode)
	}()
	return ctx
}

// process is what a command may use of the world around it.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	json           bool   // --json
	url            string // where the daemon was looked for, for error texts
}

// getenv returns a variable of the process, "" when it is not set.
func (p *process) getenv(name string) string {
	for _, v := range slices.Backward(p.environ) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// run carries out one command line and returns the exit code.
func run(ctx context.Context, p *process, args []string) int {
	// Known before parsing, so that a parse error has the right form too.
	p.json = slices.Contains(args, "--json")
	var cli commands
	helped := false
	parser, err := newParser(&cli, p, func(int) { helped = true })
	if err != nil {
		return p.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	switch {
	case helped:
		return exitDone
	case err != nil:
		return p.fail(parseError(err))
	}
	p.json = cli.JSON
	kctx.BindTo(ctx, (*context.Context)(nil))
	if err := kctx.Run(); err != nil {
		return p.fail(err)
	}
	return exitDone
}

// parseError makes kong's error one of usage that says where help is.
func parseError(err error) error {
	command, text := "tierd", err.Error()
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command = node.FullPath()
		}
		text = misplaced(parse.Context, text)
	}
	return usagef("%s (see %s --help)", text, command)
}

// misplaced says in better words what kong says of a word where a command was
// to stand, and of a flag of a command before the command. Other texts come
// back as they are.
func misplaced(at *kong.Context, text string) string {
	selected := at.Selected()
	if selected != nil && len(selected.Children) == 0 {
		return text
	}
	if name, ok := strings.CutPrefix(text, "unknown flag "); ok {
		name, _, _ = strings.Cut(name, ",")
		for _, leaf := range at.Model.Leaves(true) {
			if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return "--"+f.Name == name }) {
				return name + " is a flag of the commands: write it after the command"
			}
		}
		return text
	}
	word, ok := strings.CutPrefix(text, "unexpected argument ")
	if !ok {
		return text
	}
	word, _, _ = strings.Cut(word, ", did you mean")
	parent := at.Model.Node
	if selected != nil {
		parent = selected
	}
	var known []string
	for _, child := range parent.Children {
		known = append(append(known, child.Name), child.Aliases...)
	}
	return fmt.Sprintf("there is no command %q%s", word, config.DidYouMean(word, known))
}
