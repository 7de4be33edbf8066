package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"testing"
)

// graph maps a package to what its non-test files import. Packages of the
// module have paths relative to it; the others have their import paths.
type graph struct {
	imports  map[string][]string
	own      map[string]bool // packages of the module
	standard map[string]bool
}

// check returns every broken rule as a sentence.
func (g graph) check() []string {
	var faults []string
	for pkg := range g.own {
		l, ok := layerOf(pkg)
		if !ok {
			faults = append(faults, pkg+" has no layer: give it one in rules_test.go")
			continue
		}
		for _, imp := range g.imports[pkg] {
			if why := g.checkImport(l, pkg, imp); why != "" {
				faults = append(faults, fmt.Sprintf("%s imports %s: %s", pkg, imp, why))
			}
		}
		if l.std {
			faults = append(faults, g.checkStd(l, pkg)...)
		}
	}
	sort.Strings(faults)
	return faults
}

func (g graph) checkImport(l layer, pkg, imp string) string {
	switch {
	case !suite(pkg) && matchAny(testOnly, imp):
		return "this library belongs in tests"
	case !l.logs && matchAny(logging, imp):
		return l.name + " returns errors and does not log"
	case !g.own[imp]:
		return ""
	case !suite(pkg) && suite(imp):
		return "a conformance suite belongs in tests"
	case l.anything:
		return ""
	}
	to, ok := layerOf(imp)
	if !ok {
		return "" // reported where imp itself is checked
	}
	if to.name == l.name && sameHouse(l, pkg, imp) || slices.Contains(l.may, to.name) {
		return ""
	}
	return fmt.Sprintf("%s may not import %s", l.name, to.name)
}

// checkStd reports what a package that promises to pull in the standard
// library alone pulls in all the same.
func (g graph) checkStd(l layer, pkg string) []string {
	var faults []string
	seen := map[string]bool{pkg: true}
	todo := []string{pkg}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		for _, imp := range g.imports[p] {
			if seen[imp] || g.standard[imp] {
				continue
			}
			seen[imp] = true
			todo = append(todo, imp)
			if !g.own[imp] {
				faults = append(faults, fmt.Sprintf("%s pulls in %s (through %s): %s is for the standard library alone", pkg, imp, p, l.name))
			}
		}
	}
	return faults
}

func TestDirections(t *testing.T) {
	g, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !g.own["tiering"] || !g.own["hot"] {
		t.Fatalf("the package list is not this module's: %v", g.own)
	}
	for _, fault := range g.check() {
		t.Error(fault)
	}
}

// load asks the go command for all packages of the module in dir. Imports that
// lead nowhere are left to the compiler.
func load(dir string) (graph, error) {
	g := graph{imports: map[string][]string{}, own: map[string]bool{}, standard: map[string]bool{}}
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Module", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return g, fmt.Errorf("go list: %w", err)
	}
	type pkg struct {
		ImportPath string
		Standard   bool
		Imports    []string
		Module     *struct {
			Path string
			Main bool
		}
	}
	var all []pkg
	var module string
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return g, fmt.Errorf("go list's answer: %w", err)
		}
		if p.Module != nil && p.Module.Main {
			module = p.Module.Path
		}
		all = append(all, p)
	}
	short := func(path string) string {
		if path == module {
			return "."
		}
		return strings.TrimPrefix(path, module+"/")
	}
	for _, p := range all {
		path := short(p.ImportPath)
		g.standard[path] = p.Standard
		g.own[path] = p.Module != nil && p.Module.Main
		for _, imp := range p.Imports {
			if imp != "C" && imp != "unsafe" {
				g.imports[path] = append(g.imports[path], short(imp))
			}
		}
	}
	for p, own := range g.own {
		if !own {
			delete(g.own, p)
		}
	}
	return g, nil
}

func TestRulesCatch(t *testing.T) {
	tests := []struct {
		name     string
		from, to string
		want     string // part of the fault; "": allowed
	}{
		{"a driver imports its parent", "hot/redis", "hot", ""},
		{"a driver imports the vocabulary", "hot/redis", "tiering", ""},
		{"a driver imports a leaf", "hot/redis", "internal/jsondoc", ""},
		{"a driver imports a library", "hot/redis", "github.com/redis/go-redis/v9", ""},
		{"a driver imports a package of its own", "warm/postgres", "warm/postgres/migrations", ""},
		{"a driver imports what its tier's drivers share", "cold/s3", "cold/internal/url", ""},
		{"a driver imports its sibling", "hot/redis", "hot/memory", "hot driver may not import hot driver"},
		{"a driver imports another tier", "vector/pgvector", "warm", "vector driver may not import warm"},
		{"a driver imports a decorator", "hot/redis", "internal/telemetry", "may not import decorator"},
		{"a tier imports another tier", "hot", "warm", "hot may not import warm"},
		{"a tier imports its driver", "hot", "hot/memory", "hot may not import hot driver"},
		{"a tier imports the router", "cold", "router", "cold may not import router"},
		{"the vocabulary imports a tier", "tiering", "hot", "tiering may not import hot"},
		{"the vocabulary imports a library", "tiering", "github.com/google/uuid", "standard library alone"},
		{"the router imports a tier", "router", "warm", ""},
		{"the router imports a driver", "router", "warm/sqlite", "router may not import warm driver"},
		{"the router imports the lifecycle", "router", "tiering/lifecycle", "router may not import lifecycle"},
		{"the lifecycle imports the router", "tiering/lifecycle", "router", "lifecycle may not import router"},
		{"the server imports the router", "server", "router", "server may not import router"},
		{"the server imports a driver", "server", "cold/dir", "server may not import cold driver"},
		{"the client imports the vocabulary", "client", "tiering", ""},
		{"the client imports a library", "client", "github.com/jackc/pgx/v5", "standard library alone"},
		{"the client imports a leaf", "client", "internal/jsondoc", "client may not import leaf"},
		{"a node imports a driver", ".", "warm/postgres", ""},
		{"a node imports the server", ".", "server", "tierd may not import server"},
		{"a command imports anything", "cmd/tierd", "warm/sqlite", ""},
		{"a leaf imports a tier", "internal/jsondoc", "hot", "leaf may not import hot"},
		{"code imports a test library", "router", "pgregory.net/rapid", "belongs in tests"},
		{"code imports testing", "cmd/tierd", "testing", "belongs in tests"},
		{"code imports a suite", "cmd/tierd", "hot/hottest", "belongs in tests"},
		{"a suite imports a test library", "hot/hottest", "pgregory.net/rapid", ""},
		{"a suite imports testing", "hot/hottest", "testing", ""},
		{"a tier logs", "hot", "log/slog", "does not log"},
		{"the server logs", "server", "log/slog", ""},
		{"a package without a place", "misc", "tiering", "misc has no layer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(edge(tt.from, tt.to).check(), "; ")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("faults = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestIndirectImportsOfTheClientCount(t *testing.T) {
	g := edge("client", "tiering")
	g.imports["tiering"] = []string{"example.org/db"}
	got := strings.Join(g.check(), "; ")
	if !strings.Contains(got, "client pulls in example.org/db (through tiering)") {
		t.Errorf("faults = %q", got)
	}
}

// edge is a module of two packages, one importing the other.
func edge(from, to string) graph {
	g := graph{
		imports:  map[string][]string{from: {to}},
		own:      map[string]bool{from: true},
		standard: map[string]bool{},
	}
	first, _, _ := strings.Cut(to, "/")
	switch {
	case strings.Contains(first, "."):
	case to == "testing" || first == "log":
		g.standard[to] = true
	default:
		g.own[to] = true
	}
	return g
}
