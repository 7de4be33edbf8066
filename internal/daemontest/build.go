package daemontest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const command = "github.com/tierd/tierd/cmd/tierd"

// Build builds the command of the working tree with build tags, without the race
// detector, and returns the path of the binary, which is the test's own. Linking
// takes longer than some tests: where nothing has changed since the last Build of
// any package, nothing is linked.
func Build(t testing.TB, tags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tierd")
	if err := errors.Join(lookAtSources(tags), BuildAt(binary, tags...)); err != nil {
		t.Fatal(err)
	}
	return binary
}

// lookAtSources makes the result that go test keeps of this test depend on what the
// command is built from: go test runs a test again where a file of the module
// differs that the test looked at, but does not see what go build looks at.
func lookAtSources(tags []string) error {
	if log := flag.Lookup("test.testlogfile"); log == nil || log.Value.String() == "" {
		return nil // the result is not kept
	}
	format := `{{with .Module}}{{if .Main}}{{.GoMod}}{{range $.GoFiles}}
{{$.Dir}}/{{.}}{{end}}{{range $.EmbedFiles}}
{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`
	files, err := exec.Command("go", "list", "-deps", "-tags="+strings.Join(tags, ","), "-f="+format, command).Output()
	if err != nil {
		return fmt.Errorf("list the sources: %w", err)
	}
	for file := range strings.Lines(string(files)) {
		if _, err := os.Stat(strings.TrimSuffix(file, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// BuildAt is Build for the TestMain of the command's own package, where there is no
// test yet.
func BuildAt(binary string, tags ...string) error {
	dir, err := kept(tags)
	if err != nil {
		dir = filepath.Dir(binary) // this user keeps nothing: it is linked every time
	}
	linked := filepath.Join(dir, "tierd.linked")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-tags="+strings.Join(tags, ","), "-o", linked, command)
	// What is linked beside its place is renamed to it: two builds at once leave one
	// whole binary.
	build.Env = append(os.Environ(), "GOTMPDIR="+dir)
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, said)
	}
	if err := os.Link(linked, binary); err == nil {
		return nil
	}
	return duplicate(linked, binary) // the two folders lie on different disks
}

// kept is the folder of this user in which a working tree's binary stays between
// tests.
func kept(tags []string) (string, error) {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := sha256.Sum256(append(module, strings.Join(tags, ",")...))
	dir := filepath.Join(cache, "tierd-test", hex.EncodeToString(name[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}

func duplicate(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Environ is the environment without anything of tierd's, such as the servers that
// other tests use, and with env.
func Environ(env ...string) []string {
	clean := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIERD_") })
	return append(clean, env...)
}
