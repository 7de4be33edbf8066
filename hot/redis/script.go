package redis

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
)

//go:embed lua
var sources embed.FS

// script is a Lua script: Redis runs it by name once it has seen its source.
type script struct {
	sha, source string
}

// scripts are all that write to Redis.
type scripts struct {
	get, lease, mark, unmark, set, fill, drop, swap *script
}

func newScripts() scripts {
	alone := func(text string) *script {
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		return &script{sha: hex.EncodeToString(sum[:]), source: text}
	}
	state := source("state")
	load := func(name string) *script { return alone(state + source(name)) }
	return scripts{
		get: alone(source("get")), lease: load("lease"), mark: load("mark"), unmark: load("unmark"),
		set: load("set"), fill: load("fill"), drop: load("drop"), swap: load("swap"),
	}
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // a file that the compiler has embedded
	}
	return string(text)
}

// byName and bySource are the command that runs the script on keys.
func (s *script) byName(keys []string, args []any) []any {
	return command("evalsha", s.sha, keys, args)
}

func (s *script) bySource(keys []string, args []any) []any {
	return command("eval", s.source, keys, args)
}

func command(verb, script string, keys []string, args []any) []any {
	c := make([]any, 0, 3+len(keys)+len(args))
	c = append(c, verb, script, len(keys))
	for _, key := range keys {
		c = append(c, key)
	}
	return append(c, args...)
}
