package vector

import (
	"errors"
	"math"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func TestSpacesCompareByID(t *testing.T) {
	base := Space{Name: "openai", Model: "bge-m3", Dimensions: 1024, QueryPrefix: "query: "}
	same := base
	same.MaxInput, same.MaxBatch = 8192, 32
	if base.ID() == "" || same.ID() != base.ID() {
		t.Errorf("limits are no part of the identity: %q, %q", base.ID(), same.ID())
	}
	for name, other := range map[string]Space{
		"another embedder":             {Name: "static", Model: "bge-m3", Dimensions: 1024, QueryPrefix: "query: "},
		"another model":                {Name: "openai", Model: "bge-m4", Dimensions: 1024, QueryPrefix: "query: "},
		"a model spelt alike":          {Name: "openai", Model: "bge+m3", Dimensions: 1024, QueryPrefix: "query: "},
		"another version":              {Name: "openai", Model: "bge-m3", Version: "2", Dimensions: 1024, QueryPrefix: "query: "},
		"other dimensions":             {Name: "openai", Model: "bge-m3", Dimensions: 512, QueryPrefix: "query: "},
		"no prefix":                    {Name: "openai", Model: "bge-m3", Dimensions: 1024},
		"the prefix on documents":      {Name: "openai", Model: "bge-m3", Dimensions: 1024, DocumentPrefix: "query: "},
		"a field that runs over":       {Name: "openai", Model: "bge-m3query: ", Dimensions: 1024},
		"dimensions that aren't known": {Name: "openai", Model: "bge-m3", QueryPrefix: "query: "},
	} {
		if other.ID() == base.ID() {
			t.Errorf("%s: both are %q", name, base.ID())
		}
	}
	if id := (Space{Name: "openai", Model: "m"}).ID(); id != "" {
		t.Errorf("a space that is not known has the ID %q", id)
	}
}

func TestCheckNormalisesOrRefuses(t *testing.T) {
	in := []float32{3, 4}
	out, err := Check(in, 2)
	if err != nil || math.Abs(Dot(out, out)-1) > 1e-6 || in[0] != 3 {
		t.Errorf("got %v, %v; input %v", out, err, in)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, v := range map[string][]float32{
		"too short": {1}, "too long": {1, 2, 3}, "zero": {0, 0}, "not a number": {1, nan}, "infinite": {1, inf},
	} {
		if _, err := Check(v, 2); !errors.Is(err, tiering.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
