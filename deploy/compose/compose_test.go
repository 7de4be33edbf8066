// Package compose_test checks the files of this folder without starting
// anything: what Docker, Prometheus and Grafana would only say when it is late.
package compose_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// project is compose.yaml, as far as it is looked at.
type project struct {
	Services map[string]service        `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
	Networks map[string]map[string]any `yaml:"networks"`
}

type service struct {
	Image       string                `yaml:"image"`
	Build       *build                `yaml:"build"`
	Command     []string              `yaml:"command"`
	Entrypoint  []string              `yaml:"entrypoint"`
	Environment map[string]string     `yaml:"environment"`
	Restart     string                `yaml:"restart"`
	Networks    []string              `yaml:"networks"`
	Ports       []string              `yaml:"ports"`
	Volumes     []string              `yaml:"volumes"`
	Healthcheck *healthcheck          `yaml:"healthcheck"`
	DependsOn   map[string]dependency `yaml:"depends_on"`
}

type build struct {
	Context    string `yaml:"context"`
	Dockerfile string `yaml:"dockerfile"`
	Target     string `yaml:"target"`
}

type healthcheck struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	StartPeriod string   `yaml:"start_period"`
}

type dependency struct {
	Condition string `yaml:"condition"`
}

func load(t *testing.T) project {
	t.Helper()
	var p project
	if err := yaml.Unmarshal(read(t, "compose.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Services) < 7 {
		t.Fatalf("only %d services were read", len(p.Services))
	}
	return p
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// once reports whether others wait for the service to end: it makes something
// and is gone.
func (p project) once(name string) bool {
	for _, s := range p.Services {
		if s.DependsOn[name].Condition == "service_completed_successfully" {
			return true
		}
	}
	return false
}

func TestEveryServiceIsWatchedAndComesBack(t *testing.T) {
	p := load(t)
	for name, s := range p.Services {
		if p.once(name) {
			if s.Restart != "no" {
				t.Errorf("%s runs once, and restarts %q", name, s.Restart)
			}
			continue
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s restarts %q", name, s.Restart)
		}
		if h := s.Healthcheck; h == nil || len(h.Test) < 2 || h.Interval == "" || h.StartPeriod == "" {
			t.Errorf("%s has the health check %+v", name, h)
		}
	}
}

func TestServicesWaitForWhatTheyNeed(t *testing.T) {
	p := load(t)
	for name, s := range p.Services {
		for other, d := range s.DependsOn {
			want := "service_healthy"
			if p.once(other) {
				want = "service_completed_successfully"
			}
			if _, ok := p.Services[other]; !ok || d.Condition != want {
				t.Errorf("%s waits for %s with the condition %q, want %q", name, other, d.Condition, want)
			}
		}
	}
	for name, needs := range map[string][]string{
		"buckets": {"minio", "minio-backup"}, "keys": {"redis", "postgres", "buckets"}, "tierd": {"redis", "postgres", "buckets", "keys"},
		"prometheus": {"tierd"}, "grafana": {"prometheus"},
	} {
		for _, other := range needs {
			if _, ok := p.Services[name].DependsOn[other]; !ok {
				t.Errorf("%s does not wait for %s", name, other)
			}
		}
	}
}

var (
	// digits somewhere behind the colon: a tag that names a version.
	pinned   = regexp.MustCompile(`^[a-z0-9./-]+:[A-Za-z0-9_.-]*[0-9][A-Za-z0-9_.-]*$`)
	variable = regexp.MustCompile(`\$\{([A-Z_]+)(?::([-?])([^}]*))?\}`)
)

func TestImagesArePinned(t *testing.T) {
	for name, s := range load(t).Services {
		if s.Build != nil {
			continue // from this checkout
		}
		if image := variable.ReplaceAllString(s.Image, "$3"); !pinned.MatchString(image) {
			t.Errorf("%s runs the image %q", name, image)
		}
	}
	for _, line := range strings.Split(string(read(t, "Dockerfile")), "\n") {
		if image, ok := strings.CutPrefix(line, "ARG BUSYBOX="); ok && !pinned.MatchString(image) {
			t.Errorf("the Dockerfile builds on %q", image)
		}
	}
}

func TestTheDockerfileBuildsWithTheGoOfTheModule(t *testing.T) {
	mod := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(read(t, "../../go.mod"))
	docker := regexp.MustCompile(`(?m)^ARG GO_VERSION=(\S+)$`).FindSubmatch(read(t, "Dockerfile"))
	if mod == nil || docker == nil || !bytes.Equal(mod[1], docker[1]) {
		t.Errorf("go.mod has %s, the Dockerfile %s", mod, docker)
	}
}

func TestBuildTargetsAreStages(t *testing.T) {
	dockerfile := string(read(t, "Dockerfile"))
	for name, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		if !strings.Contains(dockerfile, " AS "+s.Build.Target+"\n") {
			t.Errorf("%s is built from the stage %q, which is not there", name, s.Build.Target)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What .dockerignore lets in is what is built: an embedded file that it keeps
// out would only be missed in the container.
func TestEveryEmbeddedFileIsInTheBuildContext(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{$dir := .Dir}}{{with .Module}}{{if .Main}}{{$root := .Dir}}{{range $.EmbedFiles}}{{$dir}}/{{.}} {{end}}{{end}}{{end}}{{end}}`, "../../cmd/tierd").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	if len(files) < 3 {
		t.Fatalf("the binary embeds only %q", files)
	}
	allowed := strings.Split(string(read(t, "Dockerfile.dockerignore")), "\n")
	for _, file := range files {
		file, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(allowed, func(rule string) bool {
			rule, ok := strings.CutPrefix(rule, "!")
			ext, any := strings.CutPrefix(rule, "**/*")
			return ok && (any && filepath.Ext(file) == ext || file == rule || strings.HasPrefix(file, rule+"/"))
		}) {
			t.Errorf("%s is kept out of the build context", file)
		}
	}
}

// Nothing but loopback reaches a container, and nothing at all those that keep
// the data.
func TestPortsAreOnLoopbackAndTheTiersHaveNone(t *testing.T) {
	p := load(t)
	if p.Networks["tiers"]["internal"] != true {
		t.Error("the network of the tiers has a way out")
	}
	for name, s := range p.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s", name, port)
			}
			if !slices.Contains(s.Networks, "front") {
				t.Errorf("%s publishes %s out of a network that has no way out", name, port)
			}
		}
		if len(s.Networks) == 0 {
			t.Errorf("%s is in the default network", name)
		}
	}
}

func TestNamedVolumesAreThereAndUsed(t *testing.T) {
	p := load(t)
	used := map[string]bool{}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				if _, err := os.Stat(source); err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
				continue
			}
			used[source] = true
			if _, ok := p.Volumes[source]; !ok {
				t.Errorf("%s uses the volume %s, which is not declared", name, source)
			}
		}
	}
	for name := range p.Volumes {
		if !used[name] {
			t.Errorf("nobody uses the volume %s", name)
		}
	}
}

// settings reads .env.example.
func settings(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.SplitSeq(string(read(t, ".env.example")), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if _, again := out[name]; !ok || again {
			t.Errorf(".env.example: %q", line)
		}
		out[name] = value
	}
	return out
}

// secret reports whether a variable must be set by whoever starts the services.
func secret(name string) bool {
	return strings.HasSuffix(name, "_PASSWORD") || strings.HasSuffix(name, "_SECRET_KEY")
}

func TestEveryVariableIsInTheExampleWithItsDefault(t *testing.T) {
	example, used := settings(t), map[string]bool{}
	for _, m := range variable.FindAllSubmatch(read(t, "compose.yaml"), -1) {
		name, kind, value := string(m[1]), string(m[2]), string(m[3])
		used[name] = true
		documented, ok := example[name]
		switch {
		case !ok:
			t.Errorf("%s is not in .env.example", name)
		case secret(name) && (kind != "?" || value == "" || documented != ""):
			t.Errorf("%s must be set by hand: compose.yaml has %s, .env.example %q", name, m[0], documented)
		case !secret(name) && (kind != "-" || value != documented):
			t.Errorf("%s: compose.yaml has %s, .env.example %q", name, m[0], documented)
		}
	}
	for name := range example {
		if !used[name] {
			t.Errorf("%s of .env.example is not used", name)
		}
	}
}

// A process list shows command lines to everyone.
func TestNoSecretStandsOnACommandLine(t *testing.T) {
	for name, s := range load(t).Services {
		words := slices.Concat(s.Command, s.Entrypoint)
		if s.Healthcheck != nil {
			words = append(words, s.Healthcheck.Test...)
		}
		for _, m := range variable.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			if secret(m[1]) {
				t.Errorf("%s has %s on a command line", name, m[1])
			}
		}
	}
}

func TestTierdRequiresKeysAndNamesEveryTier(t *testing.T) {
	services := load(t).Services
	env := services["tierd"].Environment
	for name, prefix := range map[string]string{
		"TIERD_HOT": "redis://", "TIERD_WARM": "postgres://", "TIERD_COLD": "s3://", "TIERD_BACKUP": "s3://",
		"TIERD_REQUIRE_KEYS": "true", "TIERD_LISTEN": "0.0.0.0:8437",
	} {
		if !strings.HasPrefix(env[name], prefix) {
			t.Errorf("%s is %q", name, env[name])
		}
	}
	for _, tier := range []string{"TIERD_HOT", "TIERD_WARM", "TIERD_COLD", "TIERD_BACKUP"} {
		if services["keys"].Environment[tier] != env[tier] {
			t.Errorf("keys are made in another place than tierd looks in: %s", tier)
		}
	}
}

// Where there is Docker Compose it has the last word.
func TestComposeTakesTheFile(t *testing.T) {
	if err := exec.Command("docker", "compose", "version").Run(); err != nil {
		t.Skip("no docker compose here")
	}
	env := ""
	for name, value := range settings(t) {
		if secret(name) {
			value = "secret-of-this-test"
		}
		env += name + "=" + value + "\n"
	}
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("docker", "compose", "--env-file", file, "-f", "compose.yaml", "config", "--format", "json").CombinedOutput()
	if err != nil || !json.Valid(out) {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("docker", "compose", "--env-file", os.DevNull, "-f", "compose.yaml", "config", "-q").CombinedOutput(); err == nil || !strings.Contains(string(out), ".env") {
		t.Errorf("without passwords: %v: %s", err, out)
	}
}
