// Package s3test proves the drivers of S3-compatible storage beyond
// cold/coldtest: on servers that are real, and on one that answers as no
// healthy server does.
package s3test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/s3url"
)

// Settings are the options of a driver under test: the Options of both convert
// from it.
type Settings struct {
	EnsureBucket   bool
	AllowOverwrite bool
	Connections    int
	Tries          int
	Wait           time.Duration
	Timeout        time.Duration
}

// Opener opens a bucket with the driver under test.
type Opener func(ctx context.Context, url string, s Settings) (cold.Bucket, error)

// Server returns the place that TIERD_COLD names. Without it the test is
// skipped, but on CI it fails.
func Server(t testing.TB) s3url.Place {
	t.Helper()
	return place(t, "TIERD_COLD", os.Getenv("CI") != "",
		"start one with deploy/local/services up, and set what deploy/local/services env prints")
}

// OtherServer returns the place that TIERD_COLD_OTHER names: an S3 server of
// another kind. Without it the test is skipped.
func OtherServer(t testing.TB) s3url.Place {
	t.Helper()
	return place(t, "TIERD_COLD_OTHER", false,
		"start one that takes the same keys, such as versitygw --port 127.0.0.1:PORT posix --versioning-dir VERSIONS FOLDER, and set s3://BUCKET?endpoint=http://127.0.0.1:PORT")
}

func place(t testing.TB, variable string, must bool, hint string) s3url.Place {
	t.Helper()
	text := os.Getenv(variable)
	if !strings.HasPrefix(text, "s3:") {
		if must {
			t.Fatalf("%s names no S3 server: %s", variable, hint)
		}
		t.Skipf("%s names no S3 server: %s", variable, hint)
	}
	p, err := s3url.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return p
}

// Harness returns what opens an empty place under p that no other test uses,
// and empties it again when the test ends.
func Harness(p s3url.Place, open Opener) func(t *testing.T) func() (cold.Bucket, error) {
	return func(t *testing.T) func() (cold.Bucket, error) {
		here := Within(p)
		again := func() (cold.Bucket, error) {
			return open(t.Context(), here.String(), Settings{EnsureBucket: true, Wait: 20 * time.Millisecond, Tries: 8})
		}
		t.Cleanup(func() { empty(t, here) })
		return again
	}
}

// Within is a place under p that nobody else has.
func Within(p s3url.Place) s3url.Place {
	p.Prefix = strings.TrimPrefix(p.Prefix+"/test-"+strings.ToLower(rand.Text()[:12]), "/")
	return p
}
