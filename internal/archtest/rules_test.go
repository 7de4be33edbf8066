package archtest

import (
	"strings"
)

// layer is a set of packages that may import the same things. Paths are
// relative to the module; "." is its root; "x/..." is x and all below it.
type layer struct {
	name     string
	packages []string
	may      []string // names of layers; its own subtree is always allowed
	anything bool     // may import every layer
	std      bool     // imports the standard library and may, nothing else, also not indirectly
	logs     bool     // may log
}

var tiers = []string{"hot", "warm", "cold", "vector"}

// layers is the house, from the ground up. The first match decides, and a
// package that matches nothing fails the test, so that a new folder gets a
// place on purpose.
var layers = buildLayers()

func buildLayers() []layer {
	ls := []layer{
		{name: "lifecycle", packages: []string{"tiering/lifecycle/..."}, may: []string{"tiering", "hot", "warm", "cold", "vector", "leaf"}, logs: true},
		{name: "tiering", packages: []string{"tiering"}, std: true},
	}
	// What recall computes is no driver: the drivers beside it, the router and the
	// embedders use it.
	ls = append(ls, layer{name: "vector", packages: []string{"vector/text", "vector/lexical", "vector/rank", "vector/entry"}, may: []string{"tiering", "leaf"}})
	for _, t := range tiers {
		ls = append(ls,
			layer{name: t, packages: []string{t, t + "/internal/..."}, may: []string{"tiering", "leaf"}},
			layer{name: t + " driver", packages: []string{t + "/..."}, may: []string{"tiering", t, "leaf"}},
		)
	}
	return append(ls,
		layer{name: "window", packages: []string{"window/..."}, may: []string{"tiering", "leaf"}},
		layer{name: "router", packages: []string{"router/..."}, may: []string{"tiering", "hot", "warm", "cold", "vector", "window", "leaf"}, logs: true},
		layer{name: "client", packages: []string{"client/..."}, may: []string{"tiering"}, std: true},
		layer{name: "server", packages: []string{"server/..."}, may: []string{"tiering", "tierd", "window", "leaf", "decorator"}, logs: true},
		layer{name: "tierd", packages: []string{"."}, may: []string{
			"tiering", "lifecycle", "router", "window", "leaf", "decorator",
			"hot", "warm", "cold", "vector", "hot driver", "warm driver", "cold driver", "vector driver",
		}, logs: true},
		layer{name: "cmd", packages: []string{"cmd/...", "deploy/...", "examples/..."}, anything: true, logs: true},
		// A decorator wraps the tiers' interfaces, so it stands above them; no
		// tier may know it.
		layer{name: "decorator", packages: []string{"internal/telemetry/...", "internal/memories"}, may: []string{"tiering", "hot", "warm", "cold", "vector", "leaf"}},
		// A harness drives a whole node; nothing but commands and tests uses it.
		layer{name: "harness", packages: []string{"internal/archtest", "internal/bench", "internal/daemontest", "internal/evaluate/...", "internal/memorytest", "internal/outage", "internal/replay/...", "internal/scale", "internal/torture"}, anything: true, logs: true},
		// A leaf knows no tier.
		layer{name: "leaf", packages: []string{"internal/..."}, may: []string{"tiering"}},
	)
}

// testOnly are libraries that no binary may contain. Suites (packages whose
// name ends in "test") are test code in packages of their own, so that drivers
// elsewhere can run them: they may import these, and nothing but tests may
// import them.
var testOnly = []string{
	"testing", "testing/...",
	"pgregory.net/rapid/...",
	"github.com/anishathalye/porcupine/...",
	"github.com/prometheus/client_golang/prometheus/testutil/...",
	"go.opentelemetry.io/otel/sdk/trace/tracetest/...",
}

// logging is where a program's own lines come from: elsewhere errors are
// returned.
var logging = []string{"log", "log/..."}

func matchAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if match(p, path) {
			return true
		}
	}
	return false
}

// match reports whether path is what pattern names.
func match(pattern, path string) bool {
	root, tree := strings.CutSuffix(pattern, "/...")
	return path == root || tree && strings.HasPrefix(path, root+"/")
}

func layerOf(path string) (layer, bool) {
	for _, l := range layers {
		if matchAny(l.packages, path) {
			return l, true
		}
	}
	return layer{}, false
}

// sameHouse reports whether two packages of one layer belong together: drivers
// do when their first two path elements agree, leaves always, the rest when
// the first does.
func sameHouse(l layer, a, b string) bool {
	n := 1
	switch {
	case l.name == "leaf" || l.name == "cmd" || l.name == "harness":
		return true
	case strings.HasSuffix(l.name, " driver") || l.name == "decorator" || l.name == "lifecycle":
		n = 2
	}
	return head(a, n) == head(b, n)
}

// head returns the first n elements of a path.
func head(path string, n int) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[:min(n, len(parts))], "/")
}

func suite(path string) bool { return strings.HasSuffix(path, "test") }
