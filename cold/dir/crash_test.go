package dir_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/tiering"
)

// writerDir, when set in the environment, makes this test binary a writer that
// creates objects in that directory until it is killed.
const writerDir = "TIERD_TEST_WRITER_DIR"

const bodySize = 2 << 20

// bodyOf is a body that can be told from a part of itself.
func bodyOf(name string) []byte {
	b := bytes.Repeat([]byte(name+"\n"), bodySize/(len(name)+1)+1)[:bodySize]
	sum := tiering.DigestOf(b)
	return append(b, sum[:]...)
}

func whole(b []byte) bool {
	n := len(b) - len(tiering.Digest{})
	return n > 0 && tiering.Digest(b[n:]) == tiering.DigestOf(b[:n])
}

func TestMain(m *testing.M) {
	if path := os.Getenv(writerDir); path != "" {
		os.Exit(writeUntilKilled(path))
	}
	os.Exit(m.Run())
}

// writeUntilKilled creates objects and prints the name of each once Create has
// returned.
func writeUntilKilled(path string) int {
	b, err := dir.Open(path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("seg/%d-%d", os.Getpid(), i)
		body := bodyOf(name)
		if err := b.Create(context.Background(), name, bytes.NewReader(body), int64(len(body))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(name)
	}
}

// TestKilledWriter: a writer that is killed at any moment leaves no part of an
// object under its name, loses none that it was told is there, and what it
// left half done is removed by the next Open.
func TestKilledWriter(t *testing.T) {
	path := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	halfDone := 0
	for round := 0; round < 8 || halfDone == 0 && round < 500; round++ {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), writerDir+"="+path)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := bufio.NewReader(out)
		first, err := told.ReadBytes('\n') // it is at work
		if err != nil {
			t.Fatalf("writer: %v, %s", err, errs.String())
		}
		time.Sleep(time.Duration(round%8) * 7 * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(told)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if errs.Len() > 0 {
			t.Fatalf("writer: %s", errs.String())
		}
		left, err := filepath.Glob(filepath.Join(path, "~unfinished", "*"))
		if err != nil {
			t.Fatal(err)
		}
		halfDone += len(left)

		b, err := dir.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(append(first, rest...), []byte("\n"))
		for _, name := range lines[:len(lines)-1] { // the last line may be cut
			if _, err := b.Stat(t.Context(), string(name)); err != nil {
				t.Fatalf("%s was acknowledged: %v", name, err)
			}
		}
		for info, err := range b.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			data, err := b.Read(t.Context(), info.Name, 0, -1)
			if err != nil || !whole(data) {
				t.Fatalf("%s is not whole, it has %d bytes: %v", info.Name, info.Size, err)
			}
		}
		if left, _ = filepath.Glob(filepath.Join(path, "~unfinished", "*")); len(left) > 0 {
			t.Fatalf("left after opening: %q", left)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if halfDone == 0 {
		t.Error("no writer was killed half way: the test shows nothing")
	}
}

// TestDirectoryGone: when the directory itself is away, no call says that an
// object does not exist, and no list is empty.
func TestDirectoryGone(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed": os.RemoveAll,
		"moved and replaced by an empty one": func(path string) error {
			return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bucket")
			b, err := dir.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			denies := func(call string, err error) {
				if err == nil || errors.Is(err, cold.ErrNotExist) || errors.Is(err, cold.ErrExist) {
					t.Errorf("%s: %v, want an error of the bucket", call, err)
				}
			}
			denies("create", b.Create(t.Context(), "seg/a", bytes.NewReader([]byte("x")), 1))
			_, err = b.Read(t.Context(), "seg/a", 0, -1)
			denies("read", err)
			_, err = b.Stat(t.Context(), "seg/a")
			denies("stat", err)
			denies("delete", b.Delete(t.Context(), "seg/a"))
			denies("ping", b.Ping(t.Context()))
			err = nil
			for _, e := range b.List(t.Context(), "") {
				err = e
			}
			denies("list", err)
		})
	}
}

// TestForeignFiles: what operators and file systems leave beside the objects
// is neither listed nor reached, and links lead nowhere outside.
func TestForeignFiles(t *testing.T) {
	path, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".DS_Store", "README", "a b"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(path, "lost+found"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(path, "out")); err != nil {
		t.Fatal(err)
	}
	b, err := dir.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for info, err := range b.List(t.Context(), "") {
		t.Errorf("list says %q, %v", info.Name, err)
	}
	for _, name := range []string{"link", "out/secret"} {
		if data, err := b.Read(t.Context(), name, 0, -1); err == nil {
			t.Errorf("read %q through %s", data, name)
		}
	}
	if err := b.Create(t.Context(), "out/new", bytes.NewReader([]byte("x")), 1); err == nil {
		t.Error("created a file outside")
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
		t.Error("a file appeared outside")
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := dir.Open(file, nil); err == nil {
		_ = b.Close()
		t.Error("opened a file as a bucket")
	}
}
