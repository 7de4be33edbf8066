package embed

import (
	"errors"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		url, name string
		weight    float64
	}{
		{"", "static", 0.2},
		{"static:", "static", 0.2},
		{"none:", "none", 0},
		{"none", "none", 0},
		{"openai+http://127.0.0.1:11434/v1?model=bge-m3", "openai", 1},
	} {
		e, err := Open(c.url, nil)
		if err != nil || e.Space().Name != c.name || e.Weight() != c.weight {
			t.Errorf("%q: %v, %v", c.url, e, err)
		}
	}
	for _, url := range []string{"static:x", "none:x", "ollama://h", "openai+https://h/v1", "openai:"} {
		if e, err := Open(url, nil); !errors.Is(err, tiering.ErrInvalid) || e != nil {
			t.Errorf("%q: %v, %v", url, e, err)
		}
	}
}

func TestNone(t *testing.T) {
	out, err := None{}.Embed(t.Context(), vector.Document, []string{"tea", "cup"})
	if err != nil || len(out) != 2 || out[0].Vector != nil || None.Space(None{}).ID() != "" {
		t.Errorf("%v, %v", out, err)
	}
}
