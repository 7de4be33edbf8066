package evaluate

import (
	"context"
	"os"
	"testing"

	"github.com/tierd/tierd/vector/embed/static"
)

func TestLoCoMo(t *testing.T) {
	path := os.Getenv("LOCOMO")
	if path == "" {
		t.Skip("LOCOMO names no file")
	}
	set, err := Read(path, os.Getenv("LOCOMO_ERRORS"))
	if err != nil {
		t.Fatal(err)
	}
	e := static.New(nil)
	r := &Reference{Embedder: e, Expander: e}
	report, err := Measure(context.Background(), set, r, Modes()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Print(os.Stdout); err != nil {
		t.Fatal(err)
	}
	t.Log(report.Elapsed)
}
